"""Exploration: values to actions while collecting experience.

To add one: a class with ``choose`` and, if known, ``probability``, ``metrics`` and ``ends_at``. It
reads the clock and uses the policy's random generator.
"""
