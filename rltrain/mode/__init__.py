"""One file per mode, and what the modes share."""
