"""Compare the battle engine with recorded StarCraft II: ``python -m benchmarks.game DATA_DIR``."""
