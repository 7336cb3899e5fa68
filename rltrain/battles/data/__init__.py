"""Maps, units, terrain, scenarios and start positions as data."""
