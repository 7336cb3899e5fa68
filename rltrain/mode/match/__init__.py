"""mode=match: a round robin of agents, with ratings, tables and a page."""
