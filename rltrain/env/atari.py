"""Atari games (Bellemare et al., 2013) on ALE's own batched emulators, with the preprocessing of
Mnih et al. (2015). Frames are single here and stacked later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from rltrain.common.number_types import (
    MOST_COUNTED,
    Count,
    Flag,
    Positive,
    Probability,
    Whole,
    saved_array,
)
from rltrain.env.games.lockstep import GameEnv
from rltrain.env.gymnasium_advice import require_game
from rltrain.errors import require_n_envs
from rltrain.types import EnvSpec, StateDict

FRAMES_PER_SECOND = 60.0  # of the Atari console
ZOOM = 3  # of frames in videos
NOOP, FIRE = 0, 1  # ALE's numbers of two actions


class AtariVectorEnv(GameEnv):
    """``n_envs`` consoles in lockstep; observations are gray frames uint8 [1, 84, 84].

    In training, the loss of a life ends an episode: the next time step shows the same game a few
    frames later, after FIRE if the game has it. ``infos`` of a finished game contain its unclipped
    score as ``metrics["game_return"]``. Seeding a game takes an emulator a tenth of a second, so in
    training only an environment's first game is seeded and later games continue its random stream;
    in tests, every game has its own seed.

    Args:
        game: ALE's name of the game: pong, space_invaders, ….
        n_envs: environments, E.
        n_threads: threads that run the emulators.
        training: for training; tests use whole games and raw scores.
        frame_stack: frames stacked for the network.
        frame_skip: emulator frames per env step; the last two are combined by their maximum.
        noop_max: a game starts after a random number of no-op frames below this.
        sticky_action_prob: probability of repeating the previous action, per frame.
        full_action_set: all 18 actions instead of the game's own.
        terminal_on_life_loss: losing a life ends an episode, in training.
        reward_clip: rewards are clipped to ± this in training; None = no clipping.
        time_limit: ``bootstrap``: a truncated episode has ``last`` without ``terminated``;
            ``terminal``: it counts as terminated.
        max_episode_steps: env steps after which a game is truncated.

    Raises:
        ValueError: the package is missing, or it has no such game.
    """

    def __init__(
        self,
        *,
        game: str,
        n_envs: int,
        n_threads: int,
        training: bool,
        frame_stack: Count,
        frame_skip: Count,
        noop_max: Whole,
        sticky_action_prob: Probability,
        full_action_set: Flag,
        terminal_on_life_loss: Flag,
        reward_clip: Positive | None,
        time_limit: Literal["bootstrap", "terminal"],
        max_episode_steps: Count,
    ) -> None:
        self.training = training
        self.reward_clip, self._limit = reward_clip if training else None, max_episode_steps
        self.frames_per_second = FRAMES_PER_SECOND / frame_skip
        self._ale, actions = emulators(
            game,
            num_envs=n_envs,
            num_threads=min(n_envs, n_threads),
            stack_num=1,
            frameskip=frame_skip,
            noop_max=noop_max,
            repeat_action_probability=sticky_action_prob,
            full_action_space=full_action_set,
            life_loss_info=terminal_on_life_loss and training,  # does not end the emulator's game
            reward_clipping=False,
            max_num_frames_per_episode=frame_skip * max_episode_steps,
        )
        self._between_lives = actions.index(FIRE if FIRE in actions else NOOP)
        spec = EnvSpec(
            n_agents=1,
            n_actions=len(actions),
            obs_shape=(1, 84, 84),
            max_steps=max_episode_steps,
            obs_dtype="uint8",
            obs_scale=1 / 255,
            frame_stack=frame_stack,
        )
        super().__init__(spec, n_envs, time_limit)
        self._score = np.zeros(n_envs)
        self._steps = np.zeros(n_envs, np.int64)  # env steps of the current game
        self._lives = np.zeros(n_envs, np.int64)
        self._over = np.zeros(n_envs, np.bool_)  # the whole game, not only a life

    def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``action`` [E, N] to (reward [E, R], terminated [E]); a new episode where ``last``."""
        assert self._seeds is not None, "step before reset"
        begun, before = self.last.copy(), self._lives
        chosen = np.where(begun, self._between_lives, action[:, 0]).astype(np.int64)
        # after a game the emulator begins the next one and ignores the action
        obs, score, terminated, truncated, info = self._ale.step(chosen)
        self.obs[:, 0], self._lives = obs, info["lives"].astype(np.int64)
        life_lost = (self._lives > 0) & (self._lives < before)
        new_game = begun & self._over
        self._episode += new_game
        self._score[new_game], self._steps[new_game] = 0, -1
        self._steps += 1
        over = (terminated & ~life_lost) | (self._steps >= self._limit)
        self._score += score
        if not self.training and begun.any():
            self._start(np.flatnonzero(begun))
        elif (begun & over).any():  # the game ended between two lives
            self._episode += begun & over
            self._begin(np.flatnonzero(begun & over))
        self._over = over & ~begun
        self.last[:] = (terminated | truncated) & ~begun
        for e in np.flatnonzero(self.last):
            score_of_all = {"metrics": {"game_return": float(self._score[e])}}
            self.infos[e] = score_of_all if self._over[e] else {}
        reward = np.where(begun, 0, score).astype(np.float32)[:, None]
        if self.reward_clip is not None:
            self.unclipped, reward = reward, reward.clip(-self.reward_clip, self.reward_clip)
        ended = terminated | (truncated & (self.time_limit == "terminal"))
        return reward, ended & ~begun

    def render(self, envs: Sequence[int]) -> list[list[np.ndarray]]:
        """The agent's frames, enlarged: uint8 [H, W, 3]."""
        gray = self.obs[list(envs), 0, 0].repeat(ZOOM, 1).repeat(ZOOM, 2)  # [n, H, W]
        return [[np.stack([frame] * 3, axis=-1)] for frame in gray]

    def state_dict(self) -> StateDict:
        """Inexact state: only the number of each environment's game."""
        return {"exact": False, "episode": self._episode.copy()}

    def load_state_dict(self, state: StateDict) -> None:
        """In every environment, begin the game after the saved one.

        Raises:
            ValueError: the state was written with a different number of environments.
        """
        require_n_envs("state", len(state["episode"]), self.n_envs)
        episode = saved_array("env.episode", state["episode"], self._episode, 0, MOST_COUNTED)
        self._episode[:] = episode + 1
        self.last[:] = False
        self._start(np.arange(self.n_envs))

    def close(self) -> None:
        """Close the emulators."""
        self._ale.close()

    def _begin(self, envs: np.ndarray, seeds: np.ndarray | None = None) -> None:
        """Start the current game of the environments ``envs`` [n]; without seeds, the emulators'
        random streams continue.
        """
        begins = np.isin(np.arange(self.n_envs), envs)
        given = None if seeds is None else (seeds % 2**31).astype(np.int64)
        obs, info = self._ale.reset(seed=given, options={"reset_mask": begins})
        self.obs[:, 0], self._lives = obs, info["lives"].astype(np.int64)
        self._score[envs], self._steps[envs], self._over[envs] = 0, 0, False


def emulators(game: str, **given: Any) -> tuple[Any, list[int]]:
    """ALE's vector environment for a game, and ALE's numbers of its actions.

    Raises:
        ValueError: the package is missing, or it has no such game.
    """
    require_game(game)
    from ale_py.vector_env import AtariVectorEnv as Emulators

    made = Emulators(game, **given)
    return made, [int(action.value) for action in made.ale.get_action_set()]
