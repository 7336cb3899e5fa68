"""Agents: networks from observations to action values, recurrent or not."""
