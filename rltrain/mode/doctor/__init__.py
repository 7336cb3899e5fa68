"""mode=doctor: what is wrong with the machine, or with an environment."""
