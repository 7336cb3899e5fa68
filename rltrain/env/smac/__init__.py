"""StarCraft II micromanagement: SMAC's maps and interface on rltrain's battle engine. Cheap to
import."""

from rltrain.common.imports import public_names

__all__, __getattr__ = public_names(__name__)
