"""StarCraft II itself, in separate processes."""
