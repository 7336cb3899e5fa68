"""Movement of units: paths around walls, collision avoidance, crowds and one loop of motion."""
