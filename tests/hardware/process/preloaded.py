"""Imported by the fork server of the workers of tests: Numba and a compiled game, which each worker
would import and load for itself.
"""

import gymnasium

from rltrain.env.games.classic_control import find_rules

find_rules(gymnasium.make("CartPole-v1", disable_env_checker=True))
