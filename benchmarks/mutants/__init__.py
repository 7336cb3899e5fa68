"""Single-line mutations of the package, and whether the fast tests detect them."""
