"""Datasets of transitions: written while something plays, read instead of playing."""
