"""Networks over the units that an observation lists: allies and enemies."""
