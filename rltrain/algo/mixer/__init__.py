"""Mixers: combine agents' values into a team value. Reached by ``rltrain.algo``."""
