"""Exploration: values to actions while experience is collected.

A new one has ``choose``, and ``probability``, ``metrics`` and ``ends_at`` if known; it
reads the clock and draws from the policy's own stream.
"""
