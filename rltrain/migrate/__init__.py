"""Networks and files of other libraries."""

from rltrain.migrate.pymarl import by_agent, load_pymarl, named_parts, renamed

__all__ = ["by_agent", "load_pymarl", "named_parts", "renamed"]
