"""Drivers of other libraries, which are imported where they are installed or from their folders."""
