"""Mixers: the values of agents joined to the value of a team. Reached by ``rltrain.algo``."""
