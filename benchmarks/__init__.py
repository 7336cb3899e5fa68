"""Measurements: `make bench` measures speed and memory, `python -m benchmarks.results` trains."""

import rltrain  # noqa: F401  before torch, as in the application: it sets how OpenMP waits
