"""``SmacOtherSide``: the enemies of native battles, for opponents to play."""

from __future__ import annotations

import numpy as np

from rltrain.battles.engine.enemy_side import EnemySide, equal_teams
from rltrain.battles.options import Options
from rltrain.battles.scripted.policies import BattleDecisions
from rltrain.env.smac.spec import spec_of


class SmacOtherSide:
    """The other side of ``SmacVectorEnv``; see ``rltrain.interfaces.OtherSide``."""

    builtin, policies = True, "closest, focus"
    equal_teams = (
        "are equal (3m, 8m, 25m, 2s3z, 3s5z, 1c3s5z, MMM, bane_vs_bane, SMACv2 with n_vs_n)"
    )

    def __init__(self, side: EnemySide, options: Options) -> None:
        self._side, self.spec = side, spec_of(side.map_data, options)
        self.obs, self.avail_actions, self.state = side.obs, side.avail, side.state
        self.n_envs = len(side.obs)
        self.action = np.zeros(side.obs.shape[:2], np.int64)
        self.commanded = side.commanded
        self.same_team = equal_teams(side.map_data)

    def scripted(self, name: str) -> BattleDecisions:
        """The decision function of a scripted policy. Raises ValueError for an unknown name."""
        return BattleDecisions(self._side, name)
