"""SMACv2 for agents that observe only the elapsed fraction of the time limit: what a team reaches
that cannot see the battle (Ellis et al., 2023, section 4). Which agent it is, its network adds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rltrain.env.smac import Smacv2VectorEnv


class OpenLoop(Smacv2VectorEnv):
    """``Smacv2VectorEnv`` with ``obs_timestep_number``, whose last column is all that is shown."""

    def _open(self, *opened: Any) -> None:
        super()._open(*opened)
        self.obs = self.obs[..., -1:]
        self.spec = replace(self.spec, obs_shape=(1,), layout=None)
