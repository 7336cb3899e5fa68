"""Videos of evaluation episodes."""
