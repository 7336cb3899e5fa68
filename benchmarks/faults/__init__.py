"""Faults made on purpose, and counted (docs/reliability.md)."""
