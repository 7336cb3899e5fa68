"""StarCraft II micromanagement: a compiled battle engine with SMAC's maps and interface."""
