"""Fighting: choice of targets, weapons, turrets and healing."""
