"""Scripted policies and what they observe."""
