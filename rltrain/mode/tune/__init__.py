"""mode=tune: hyperparameter search with Optuna, in a folder that any number of processes share."""
