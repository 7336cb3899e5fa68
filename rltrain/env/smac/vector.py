"""``SmacVectorEnv``: E battles as one vector environment with next-step resets, for training and
testing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rltrain.common.number_types import (
    Count,
    Flag,
    NonNegative,
    Positive,
    Real,
)
from rltrain.env.smac.battle_view import BattleView
from rltrain.env.smac.engine.battles import Battles
from rltrain.env.smac.options import Options, spec_of
from rltrain.env.smac.scripted.observation import NO_TARGET, observe_battles
from rltrain.env.smac.scripted.policies import BattleDecisions, heuristic_orders
from rltrain.env.smac.smaclite.maps import RULES, find_map_under
from rltrain.env.smac.starcraft2.games import Games
from rltrain.env.smac.starcraft2.installation import Backend, about_game, choose_backend
from rltrain.env.smac.starcraft2.worker import Recipe
from rltrain.interfaces import EpisodeSeeds
from rltrain.types import EnvSpec

if TYPE_CHECKING:
    from rltrain.env.smac.render.painter import Painter


NATIVE = {"backend": "native"}
"""Facts about an environment on the built-in engine."""


class SmacVectorEnv:
    """E environments of one SMAC map in lock-step; see ``rltrain.types.VectorEnv`` for the meaning
    of the arrays.

    ``time_limit`` sets what a time-out is: "terminal" as in SMAC, or "bootstrap" (``last`` without
    ``terminated``). ``backend`` sets what plays: the built-in engine (``native``), StarCraft II
    itself (``sc2``), or the game where it is installed (``auto``), unless a ``scripted`` player is
    to play, which needs the engine; ``about`` says which it is. The other options are SMAC's own,
    with SMAC's defaults; those behind ``heuristic_rest`` only the game reads.
    """

    frames_per_second = 12.5  # of videos: an env step, half a game second, takes a third of one

    def __init__(
        self,
        *,
        map_name: str,
        n_envs: Count,
        rules: Literal["sc2", "smaclite"] = "sc2",
        time_limit: Literal["terminal", "bootstrap"] = "terminal",
        n_threads: Count = 1,
        scripted: Flag = False,
        backend: Backend = "native",
        max_restarts: Count = 20,
        game_timeout: Positive = 300.0,
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
        heuristic_ai: Flag = False,
        heuristic_rest: Flag = False,
        difficulty: Literal[1, 2, 3, 4, 5, 6, 7, 8, 9, "A"] = 7,
        game_version: str | None = None,
        replay_dir: str = "",
        replay_prefix: str = "",
        window_size_x: Count = 1920,
        window_size_y: Count = 1200,
        debug: Flag = False,
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
        row = find_map_under(rules, map_name)
        if rules != "sc2" and backend == "sc2":
            raise ValueError(
                f"env.backend=sc2 plays the game's own rules, and env.rules={rules} are others: "
                "type env.rules=sc2, or env.backend=native."
            )
        spec = spec_of(row, options)
        battles: Battles | Games
        wanted = backend if rules == "sc2" else "native"
        if choose_backend(wanted, "smac", row.name, scripted=scripted) == "sc2":
            battles = Games(
                recipe=Recipe(
                    "smac",
                    {
                        **options.of_smac(),
                        "map_name": row.name,
                        "heuristic_ai": heuristic_ai,
                        "heuristic_rest": heuristic_rest,
                        "difficulty": str(difficulty),
                        "game_version": game_version,
                        "replay_dir": replay_dir,
                        "replay_prefix": replay_prefix,
                        "window_size_x": window_size_x,
                        "window_size_y": window_size_y,
                        "debug": debug,
                    },
                ),
                spec=spec,
                n_envs=n_envs,
                max_restarts=max_restarts,
                patience=game_timeout,
            )
            about = about_game("smac", game_version)
        else:
            battles = Battles(
                map_name=row.name,
                n_envs=n_envs,
                options=options,
                n_threads=n_threads,
                rules=rules,
            )
            about = NATIVE if rules == "sc2" else {**NATIVE, "rules": rules}
        self._open(battles, spec, time_limit, about)
        self._heuristic, self._heuristic_rest = heuristic_ai, heuristic_rest

    def _open(
        self,
        battles: Battles | Games,
        spec: EnvSpec,
        time_limit: str,
        about: Mapping[str, str],
    ) -> None:
        """Take over fresh battles; their first episodes begin with ``reset``."""
        self.battles, self.spec = battles, spec
        self.n_envs = n_envs = battles.n_envs
        self.about: Mapping[str, Any] = about
        self._heuristic = self._heuristic_rest = False
        self.obs, self.avail_actions = self.battles.obs, self.battles.avail
        self.state = self.battles.state
        self.last = np.zeros(n_envs, np.bool_)
        self.infos: list[Mapping[str, Any]] = [{} for _ in range(n_envs)]
        self.episode = np.zeros(n_envs, np.int64)  # k of the episode each environment is in
        self.lost = getattr(self.battles, "lost", np.zeros(n_envs, np.bool_))  # see Rollout
        self._targets = np.full((n_envs, self.spec.n_agents), NO_TARGET)  # of heuristic_ai
        self._bootstrap = time_limit == "bootstrap"
        self._seeds: EpisodeSeeds | None = None
        self._painters: dict[int, Painter] = {}

    def reset(self, seeds: EpisodeSeeds) -> None:
        """Start episode 0 of every environment; episode k of environment e is seeded with
        ``seeds(e, k)``.
        """
        self._seeds = seeds
        self.episode[:] = 0
        self.battles.reset({e: seeds(e, 0) for e in range(self.n_envs)})
        self._targets[:] = NO_TARGET
        self.last[:] = False
        self.infos[:] = [{} for _ in range(self.n_envs)]

    def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``action`` [E, N] to (reward [E, 1] float32, terminated [E] bool). Raises ValueError if
        one is illegal."""
        if self._seeds is None:
            raise RuntimeError("this environment was never reset: call reset(seeds) first")
        over = np.flatnonzero(self.last).tolist()
        restarts = {e: self._seeds(e, int(self.episode[e]) + 1) for e in over}
        if self._heuristic and isinstance(self.battles, Battles):
            seen = observe_battles(self.battles)
            orders = heuristic_orders(seen, self._targets, rest=self._heuristic_rest)
            self.battles.step(action, restarts, orders)
        else:
            self.battles.step(action, restarts)
        self.episode[over] += 1
        self._targets[over] = NO_TARGET
        for e in over:
            self.infos[e] = {}
        self.last[:] = terminated = self.battles.ended
        if terminated.any():
            ended = np.flatnonzero(terminated).tolist()
            for e, result in zip(ended, self.battles.results(ended), strict=True):
                self.infos[e] = result
            if self._bootstrap:
                terminated = terminated & ~self.battles.timeout
        return self.battles.reward.astype(np.float32)[:, None], terminated

    def call(self, method: str, *args: Any) -> list[Any]:
        """Call a method of ``BattleView`` (``get_state_dict``, ``get_unit_by_id``, …), or of SMAC's
        environment in the game, on every environment."""
        battles = self.battles
        if isinstance(battles, Games):
            return battles.call(method, *args)
        return [getattr(BattleView(battles, e), method)(*args) for e in range(self.n_envs)]

    def render(self, envs: Sequence[int]) -> list[list[np.ndarray]]:
        """Images [H, W, 3] of what these battles did since they were drawn last."""
        from rltrain.env.smac.render.painter import Painter

        if isinstance(self.battles, Games):
            raise RuntimeError("render: the game is drawn by itself; record its .SC2Replay files")
        for e in envs:
            if e not in self._painters:
                self._painters[e] = Painter(self.battles, e)
        return [self._painters[e].frames() for e in envs]

    def save_replay(self, e: int, folder: str, prefix: str) -> list[str]:
        """Have the game write ``<prefix>_<date>.SC2Replay`` into a folder: all episodes of that
        environment since its game was launched, the current one last. Returns the new file's path.
        """
        if not isinstance(self.battles, Games):
            raise RuntimeError("save_replay: .SC2Replay files are written by env.backend=sc2 only")
        return list(self.battles.call_one(e, "save_replay", folder, prefix))

    def scripted(self, name: str) -> BattleDecisions:
        """The decision function of this name, one of ``scripted.policies.DECISIONS``.

        Raises:
            ValueError: an unknown name, or battles in StarCraft II itself.
        """
        if isinstance(self.battles, Games):
            raise ValueError(
                "scripted policies read the built-in engine's battles: type "
                "env.backend=native, or algo.policy=random."
            )
        return BattleDecisions(self.battles, name)

    def state_dict(self) -> dict[str, Any]:
        """The state of all environments; of a game only which episode it is in. The seeds are the
        caller's: ``reset`` gives them, ``load_state_dict`` keeps them."""
        if isinstance(self.battles, Games):
            return {"exact": False, "episode": self.episode.copy()}
        targets = {"targets": self._targets.copy()} if self._heuristic else {}
        return {"episode": self.episode.copy(), **targets, **self.battles.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state_dict`` was taken; games begin their next episodes. Call
        ``reset(seeds)`` once before, with the same seeds.

        Raises:
            ValueError: the state is of other battles, or of the other backend.
        """
        if isinstance(self.battles, Games) == state.get("exact", True):
            raise ValueError(
                f"the saved battles were not played by the backend {self.about['backend']!r} that "
                "plays here: install or hide StarCraft II as it was (SC2PATH), or start a new run "
                "from these weights"
            )
        if isinstance(self.battles, Games):
            self.episode[:] = state["episode"] + 1
            self.battles.close()  # so that the games are launched with the seeds of these episodes
            self.battles.reset({e: self._seed(e) for e in range(self.n_envs)})
        else:
            self.battles.load_state_dict(state)
            self.episode[:] = state["episode"]
        if self._heuristic:
            self._targets[:] = state["targets"]
        self.last[:] = self.battles.ended
        self.infos[:] = [self.battles.result(e) if self.last[e] else {} for e in range(self.n_envs)]

    def close(self) -> None:
        """End the games; no process and no file belongs to a battle of the built-in engine."""
        if isinstance(self.battles, Games):
            self.battles.close()

    def _seed(self, e: int) -> int:
        assert self._seeds is not None, "an episode before reset"
        return self._seeds(e, int(self.episode[e]))


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """ValueError unless ``value`` is one of the choices."""
    if value not in choices:
        raise ValueError(f"unknown {name} {value!r}: expected one of {', '.join(choices)}")
