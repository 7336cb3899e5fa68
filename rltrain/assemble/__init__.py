"""The only place where configuration becomes objects, and objects meet."""
