"""Games whose E environments are a few arrays, without a Python object each."""
