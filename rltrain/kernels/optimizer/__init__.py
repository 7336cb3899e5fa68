"""Gradient steps in machine code."""
