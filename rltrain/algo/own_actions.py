"""From the networks' action numbers to actions as the environment has them."""

from __future__ import annotations

import numpy as np

from rltrain.types import EnvSpec


def own_actions(action: np.ndarray, spec: EnvSpec) -> np.ndarray:
    """``action`` [..., N] to the environment's own numbers [..., N], or, where they are
    combinations, to their components [..., N, K].
    """
    if spec.action_components is None:
        return action + spec.first_action
    sizes, firsts = zip(*spec.action_components, strict=True)
    return np.stack(np.unravel_index(action, sizes), axis=-1) + np.array(firsts)
