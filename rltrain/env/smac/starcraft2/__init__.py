"""The real game, in processes of its own."""
