"""Learning: agents × mixer × loss, put together in YAML; meets the rest of the project in ``types.py``."""
