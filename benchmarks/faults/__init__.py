"""Fault injection, with counts (docs/reliability.md)."""
