"""Examples of callbacks that a user might write."""

from rltrain.examples.curriculum import Curriculum
from rltrain.examples.penalty import ActionPenalty

__all__ = ["ActionPenalty", "Curriculum"]
