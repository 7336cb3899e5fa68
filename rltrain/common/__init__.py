"""Small parts that every room may use."""
