"""The page of episodes: HTML, style, script and data."""
