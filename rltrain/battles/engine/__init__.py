"""The battle engine: compiled combat, one file per rule."""
