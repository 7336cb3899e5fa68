"""``StarCraft2Env``: one battle behind the methods of SMAC's class of the same name
(``smac.env.StarCraft2Env``).

SMAC's options that only steer the StarCraft II program (difficulty, game_version, replay_dir,
window sizes, debug) are accepted, so that its callers need no change; a battle does not depend on
them.
"""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields
from typing import Any, Literal

import numpy as np

from rltrain.battles.battle_view import BattleView
from rltrain.battles.data.map_data import SIZE
from rltrain.battles.engine.battles import IllegalAction, whole_actions
from rltrain.battles.engine.world import U
from rltrain.battles.native import NativeBattles
from rltrain.battles.option_checks import FLAG, SEED, check_choice, did_you_mean
from rltrain.battles.options import N_ACTIONS_MOVE, Options, ProgramOptions, StartOptions

OWN_SEED = SEED._replace(expected=f"{SEED.expected}, or None")

SMAC_TYPES: tuple[str, ...] = ("marine", "marauder", "medivac", "stalker", "zealot", "colossus")
SMAC_TYPES += ("hydralisk", "zergling", "baneling")
"""Unit types whose ids SMAC's environment has as attributes."""


class StarCraft2Env(BattleView):
    """SMAC's single environment on the compiled engine; ``options`` are those of ``Options``,
    ``StartOptions`` and ``ProgramOptions``.

    ``seed=None`` draws a seed. An action that is not available raises AssertionError, as in SMAC.
    """

    battles: NativeBattles

    def __init__(
        self,
        map_name: str = "8m",
        rules: Literal["sc2", "smaclite"] = "sc2",
        seed: int | None = None,
        continuing_episode: bool = False,
        heuristic_ai: bool = False,
        heuristic_rest: bool = False,
        **options: Any,
    ) -> None:
        chosen, begin = take(Options, options), take(StartOptions, options)
        take(ProgramOptions, options)  # checked, and not used: there is no program
        for name in options:
            near = did_you_mean(name, (f.name for f in fields(Options)))
            raise TypeError(f"{type(self).__name__} has no option {name!r}.{near}")
        FLAG.check(
            continuing_episode=continuing_episode,
            heuristic_ai=heuristic_ai,
            heuristic_rest=heuristic_rest,
        )
        seed = secrets.randbits(31) if seed is None else seed
        OWN_SEED.check(seed=seed)
        battles = NativeBattles(
            map_name=map_name,
            n_envs=1,
            options=chosen,
            rules=rules,
            begin=begin,
            heuristic_ai=heuristic_ai,
            heuristic_rest=heuristic_rest,
        )
        super().__init__(battles, 0)
        row = self.map_data
        self.map_name, self.map_type, self.episode_limit = row.name, row.map_type, row.limit
        self.shield_bits_ally, self.shield_bits_enemy = row.shield_bits
        self.unit_type_bits = row.unit_type_bits
        self.n_actions_no_attack = chosen.n_actions_no_attack
        self.n_actions_move = N_ACTIONS_MOVE
        self.map_x = self.map_y = SIZE
        self.max_distance_x = self.max_distance_y = battles.max_distance
        self.pathing_grid = self.battles.scene.pathable.astype(bool)
        self.terrain_height = self.battles.scene.height
        types = [f"type_{k}" for k in range(row.unit_type_bits)]
        place = ["rel_x", "rel_y"]
        cone = ["fov_x", "fov_y"] * chosen.conic_fov
        shields = [["shield"] * bits for bits in row.shield_bits]
        self.ally_state_attr_names = [
            "health", "energy/cooldown", *place, *shields[0], *cone, *types,
        ]  # fmt: skip
        self.enemy_state_attr_names = ["health", *place, *shields[1], *types]
        for name in SMAC_TYPES:  # marine_id, …; 0 where the map has none
            setattr(self, f"{name}_id", self.agent_type_ids.get(name, 0))
        self.continuing_episode = continuing_episode
        self._seed = int(seed)
        self._episode = 0
        self.reward = 0.0
        self.battles_won = self.battles_game = self.timeouts = self.force_restarts = 0

    def reset(self) -> tuple[list[np.ndarray], np.ndarray]:
        """Start the next episode; returns (obs list, state)."""
        self.battles.reset({0: episode_seed(self._seed, self._episode)})
        self._episode += 1
        self.reward = 0.0
        return self.get_obs(), self.get_state()

    def begin(self, seed: int) -> None:
        """Start the episode that ``seed`` determines, the first of a new sequence."""
        SEED.check(seed=seed)
        self._seed, self._episode = int(seed), 1
        self.battles.start({0: self._seed})
        self.reward = 0.0

    def step(self, actions: Sequence[int]) -> tuple[float, bool, dict[str, object]]:
        """One env step with one action per agent: (reward, terminated, info).

        After the end of an episode the state stays as it is, with reward 0 and terminated True,
        until ``reset``.
        """
        if self._episode == 0:
            raise RuntimeError("the environment was never reset: call reset() before step()")
        action = whole_actions([actions if isinstance(actions, (Mapping, Set)) else [*actions]])
        already_over = bool(self.battles.ended[0])
        try:
            self.battles.step(action)
        except IllegalAction as error:
            raise AssertionError(str(error)) from None
        (result,) = self.battles.results([0])
        terminated = bool(self.battles.ended[0])
        self.reward = float(self.battles.reward[0])
        info: dict[str, object] = {
            "battle_won": result["win"] and not already_over,
            "dead_allies": result["dead_allies"],
            "dead_enemies": result["dead_enemies"],
        }
        if result["timeout"] and self.continuing_episode and not already_over:
            info["episode_limit"] = True
        if terminated and not already_over:
            self.battles_game += 1
            self.battles_won += result["win"]
            self.timeouts += result["timeout"]
        return self.reward, terminated, info

    def get_env_info(self) -> dict[str, object]:
        """Sizes and feature names; works before the first reset."""
        return {
            "state_shape": self.get_state_size(),
            "obs_shape": self.get_obs_size(),
            "n_actions": self.n_actions,
            "n_agents": self.n_agents,
            "episode_limit": self.episode_limit,
            "agent_features": self.ally_state_attr_names,
            "enemy_features": self.enemy_state_attr_names,
        }

    def get_stats(self) -> dict[str, float]:
        """Battles so far; the win rate is 0.0 before the first finished episode."""
        return {
            "battles_won": self.battles_won,
            "battles_game": self.battles_game,
            "battles_draw": self.timeouts,
            "win_rate": self.battles_won / max(1, self.battles_game),
            "timeouts": self.timeouts,
            "restarts": self.force_restarts,
        }

    def get_obs_size(self) -> int:
        return self.sizes.obs

    def get_state_size(self) -> int:
        return self.sizes.state

    def get_total_actions(self) -> int:
        return self.n_actions

    def get_obs_move_feats_size(self) -> int:
        return self.sizes.move

    def get_obs_enemy_feats_size(self) -> tuple[int, int]:
        return self.n_enemies, self.sizes.enemy

    def get_obs_ally_feats_size(self) -> tuple[int, int]:
        return self.n_agents - 1, self.sizes.ally

    def get_obs_own_feats_size(self) -> int:
        return self.sizes.own + self.battles.options.obs_timestep_number

    def get_ally_num_attributes(self) -> int:
        return self.sizes.state_ally

    def get_enemy_num_attributes(self) -> int:
        return self.sizes.state_enemy

    def get_unit_types(self) -> list[int] | None:
        """Type ids, agents then enemies; None (with a warning) before the first reset."""
        if self._episode == 0:
            warnings.warn("unit types are known after the first reset()", stacklevel=2)
            return None
        return [self._unit_types[i] for i in self._order]

    @property
    def max_reward(self) -> float:
        """Unscaled reward of a win in which every enemy dies once, in this episode."""
        return self.battles.max_reward(0)

    @property
    def last_action(self) -> np.ndarray:
        """float32 [A, n_actions]: one-hot rows, all zero after a reset."""
        hot = np.arange(self.n_actions) == self.battles.world.last_action[0][:, None]
        return hot.astype(np.float32)

    @property
    def death_tracker_ally(self) -> np.ndarray:
        """[A]: 1 where an agent is dead."""
        return self._dead[: self.n_agents]

    @property
    def death_tracker_enemy(self) -> np.ndarray:
        """[E]: 1 where an enemy is dead."""
        return self._dead[self.n_agents :]

    @property
    def _dead(self) -> np.ndarray:
        dead = self.battles.world.unit[0, U.HEALTH, self._order] <= 0
        return (dead & self.battles.begun[0]).astype(np.float64)

    def seed(self) -> int:
        """The seed of these episodes: the constructor's, the one drawn for it, or of ``begin``."""
        return self._seed

    def full_restart(self) -> None:
        """Restart the battle and count the restart."""
        self.force_restarts += 1
        self.reset()

    def save_replay(self) -> None:
        """Refuse: only the StarCraft II program writes replays."""
        raise RuntimeError(
            "save_replay: .SC2Replay files are written by StarCraft II itself, "
            "and this battle did not run in it"
        )

    def render(self, mode: str = "rgb_array") -> np.ndarray:
        """uint8 [H, W, 3]: the current state; shots, too, if the step before was drawn.

        There is no window, so "rgb_array" is the only mode."""
        check_choice("mode", mode, ("rgb_array",))
        return self.battles.painter(0).frame()

    def close(self) -> None:
        """Do nothing: there is no game process."""


def take(record: type[Any], options: dict[str, Any]) -> Any:
    """A dataclass of options, with its fields out of ``options``."""
    return record(**{f.name: options.pop(f.name) for f in fields(record) if f.name in options})


def episode_seed(seed: int, k: int) -> int:
    """The 63-bit seed of episode k of an environment with this seed."""
    (state,) = np.random.SeedSequence(seed, spawn_key=(k,)).generate_state(1, np.uint64)
    return int(state >> np.uint64(1))
