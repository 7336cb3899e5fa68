"""SMACv2 with only the elapsed fraction of the time limit as observation: the win rate of a team
that cannot see the battle (Ellis et al., 2023, section 4). The network adds the agent id.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rltrain.env.smac import Smacv2VectorEnv


class OpenLoop(Smacv2VectorEnv):
    """``Smacv2VectorEnv`` that shows only the elapsed time (``obs_timestep_number``)."""

    def _open(self, *opened: Any) -> None:
        super()._open(*opened)
        self.obs = self.obs[..., -1:]
        self.spec = replace(self.spec, obs_shape=(1,), layout=None)
