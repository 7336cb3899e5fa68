"""What a run prints at its start and end."""
