"""Networks and files of other libraries."""

from rltrain.interop.pymarl import load_pymarl, parts_of, renamed

__all__ = ["load_pymarl", "parts_of", "renamed"]
