"""The battle engine beside recorded StarCraft II: ``python -m benchmarks.game DATA_DIR``."""
