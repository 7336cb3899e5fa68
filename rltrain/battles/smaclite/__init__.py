"""The rules of the SMAClite simulator on the same tables."""
