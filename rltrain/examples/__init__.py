"""Callbacks to use as they are, or to start your own from; docs/callbacks.md shows how."""
