"""Values checked against the annotations of what is built with them."""
