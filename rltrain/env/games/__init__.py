"""Games in which E environments are a few arrays, without a Python object for each."""
