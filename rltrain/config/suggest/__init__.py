"""Suggestions: names of other libraries, typos, whole commands."""
