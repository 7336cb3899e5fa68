"""Measurements: `make bench` prints speeds and memory; `python -m benchmarks.solve` trains and
tabulates.
"""
