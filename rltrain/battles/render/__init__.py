"""Images and videos of battles."""
