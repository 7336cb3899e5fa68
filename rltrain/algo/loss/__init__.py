"""Losses: TD errors of windows of transitions. Reached by ``rltrain.algo``."""
