"""What was lived, kept for learning: one step store, and the replay that samples windows of it."""
