"""Learning curves and statistics over runs."""
