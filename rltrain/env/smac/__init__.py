"""StarCraft II micromanagement: SMAC's maps and interface over our own battle engine. Importing
this is cheap."""

from rltrain.common.imports import public_names

__all__, __getattr__ = public_names(__name__)
