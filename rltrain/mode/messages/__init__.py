"""Messages of a run at its start and end."""
