"""Learning: agents × mixer × loss, put together in YAML."""
