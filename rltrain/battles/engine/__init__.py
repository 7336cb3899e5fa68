"""The battle engine: compiled combat, one file per rule."""

from typing import Any

import numba

settings: Any = numba.config
settings._config_fname = ""  # a .numba_config.yaml in the current folder is someone else's
settings.reload_config()
