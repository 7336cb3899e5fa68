"""Environments behind one interface, ``types.VectorEnv``; adapters write ``vector.Env``."""
