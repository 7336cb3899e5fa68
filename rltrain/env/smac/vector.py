"""``SmacVectorEnv``: E battles as one vector environment with next-step resets, for training and
testing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from rltrain.env.smac.battles import Battles
from rltrain.env.smac.lite_maps import RULES
from rltrain.env.smac.sizes import Options, env_spec
from rltrain.env.smac.view import BattleView
from rltrain.types import Count, EpisodeSeeds, Flag, NonNegative, Positive, Real


class SmacVectorEnv:
    """E copies of a SMAC map in lock-step; see ``rltrain.types.VectorEnv`` for the meaning of the
    arrays.

    ``time_limit`` says what a time-out is: "terminal" as in SMAC, or "bootstrap" (``last`` without
    ``terminated``). The other options are SMAC's own, with SMAC's defaults.
    """

    def __init__(
        self,
        *,
        map_name: str,
        n_envs: Count,
        rules: Literal["sc2", "smaclite"] = "sc2",
        time_limit: Literal["terminal", "bootstrap"] = "terminal",
        n_threads: Count = 1,
        step_mul: Count = 8,
        move_amount: Positive = 2.0,
        obs_all_health: Flag = True,
        obs_own_health: Flag = True,
        obs_last_action: Flag = False,
        obs_pathing_grid: Flag = False,
        obs_terrain_height: Flag = False,
        obs_instead_of_state: Flag = False,
        obs_timestep_number: Flag = False,
        state_last_action: Flag = True,
        state_timestep_number: Flag = False,
        reward_sparse: Flag = False,
        reward_only_positive: Flag = True,
        reward_death_value: NonNegative = 10.0,
        reward_win: Real = 200.0,
        reward_defeat: Real = 0.0,
        reward_negative_scale: NonNegative = 0.5,
        reward_scale: Flag = True,
        reward_scale_rate: Positive = 20.0,
    ) -> None:
        check_choice("rules", rules, RULES)
        check_choice("time_limit", time_limit, ("terminal", "bootstrap"))
        options = Options(
            step_mul=step_mul,
            move_amount=move_amount,
            obs_all_health=obs_all_health,
            obs_own_health=obs_own_health,
            obs_last_action=obs_last_action,
            obs_pathing_grid=obs_pathing_grid,
            obs_terrain_height=obs_terrain_height,
            obs_instead_of_state=obs_instead_of_state,
            obs_timestep_number=obs_timestep_number,
            state_last_action=state_last_action,
            state_timestep_number=state_timestep_number,
            reward_sparse=reward_sparse,
            reward_only_positive=reward_only_positive,
            reward_death_value=reward_death_value,
            reward_win=reward_win,
            reward_defeat=reward_defeat,
            reward_negative_scale=reward_negative_scale,
            reward_scale=reward_scale,
            reward_scale_rate=reward_scale_rate,
        )
        self.battles = Battles(
            map_name=map_name, n_envs=n_envs, options=options, n_threads=n_threads, rules=rules
        )
        self.spec = env_spec(map_name, options, rules)
        self.n_envs = n_envs
        self.obs, self.avail_actions = self.battles.obs, self.battles.avail
        self.state = self.battles.state
        self.last = np.zeros(n_envs, np.bool_)
        self.infos: list[Mapping[str, Any]] = [{} for _ in range(n_envs)]
        self.episode = np.zeros(n_envs, np.int64)  # k of the episode each copy is in
        self._bootstrap = time_limit == "bootstrap"
        self._seeds: EpisodeSeeds | None = None

    def reset(self, seeds: EpisodeSeeds) -> None:
        """Start episode 0 of every copy; from now on episode k of copy e is seeded with ``seeds(e,
        k)``."""
        self._seeds = seeds
        self.episode[:] = 0
        self.battles.reset({e: seeds(e, 0) for e in range(self.n_envs)})
        self.last[:] = False
        self.infos[:] = [{} for _ in range(self.n_envs)]

    def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``action`` [E, N] to (reward [E, 1] float32, terminated [E] bool). Raises ValueError if
        one is illegal."""
        if self._seeds is None:
            raise RuntimeError("this environment was never reset: call reset(seeds) first")
        over = np.flatnonzero(self.last).tolist()
        restarts = {e: self._seeds(e, int(self.episode[e]) + 1) for e in over}
        self.battles.step(action, restarts)
        self.episode[over] += 1
        for e in over:
            self.infos[e] = {}
        self.last[:] = terminated = self.battles.ended
        if terminated.any():
            for e in np.flatnonzero(terminated).tolist():
                self.infos[e] = self.battles.result(e)
            if self._bootstrap:
                terminated = terminated & ~self.battles.timeout
        return self.battles.reward.astype(np.float32)[:, None], terminated

    def call(self, method: str, *args: Any) -> list[Any]:
        """Call a method of ``BattleView`` (``get_state_dict``, ``get_unit_by_id``, …) on every
        copy."""
        return [getattr(BattleView(self.battles, e), method)(*args) for e in range(self.n_envs)]

    def state_dict(self) -> dict[str, np.ndarray]:
        """Everything the copies remember. The seeds are the caller's: ``reset`` gives them,
        ``load_state_dict`` keeps them."""
        return {"episode": self.episode.copy(), **self.battles.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state_dict`` was taken; call ``reset(seeds)`` once before, with
        the same seeds."""
        self.battles.load_state_dict(state)
        self.episode[:] = state["episode"]
        self.last[:] = self.battles.ended
        self.infos[:] = [self.battles.result(e) if self.last[e] else {} for e in range(self.n_envs)]

    def close(self) -> None:
        """Nothing to let go of: no process and no file belongs to a battle."""


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """ValueError unless ``value`` is one of the choices."""
    if value not in choices:
        raise ValueError(f"unknown {name} {value!r}: expected one of {', '.join(choices)}")
