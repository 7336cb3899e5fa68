"""mode=tune: hyperparameter search with Optuna, in a folder that any number of processes share."""

from rltrain.mode.tune.command import tune

__all__ = ["tune"]
