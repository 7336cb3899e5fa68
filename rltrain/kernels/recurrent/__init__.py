"""Recurrent teams in machine code: acting, and learning from whole episodes."""
