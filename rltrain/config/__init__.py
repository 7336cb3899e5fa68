"""From what was typed to validated settings: compose, validate, schema, trust."""
