"""Every promise about a run with every state that a run can have."""
