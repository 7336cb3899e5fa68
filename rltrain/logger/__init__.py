"""Loggers: the console and ``metrics.jsonl``, and those that ``logger=[…]`` chooses.

To add one: a class in a file here, its name in ``__init__.pyi``, and a YAML file in
``conf/logger/``. Names are imported on first use.
"""

from rltrain.common.imports import public_names

__all__, __getattr__ = public_names(__name__)
