"""Exploration: values to actions while experience is collected.

To add one: a class with ``choose``, and ``probability``, ``metrics`` and ``ends_at`` if known. It
reads the clock and draws from the policy's generator.
"""
