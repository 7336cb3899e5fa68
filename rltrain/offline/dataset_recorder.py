"""An environment that also writes every time step, and the callback that ends shards.

They exist with ``dataset.write`` only.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from rltrain.callback import Callback
from rltrain.callback.training import Training
from rltrain.interfaces import EpisodeSeeds, RolloutPolicy, VectorEnv
from rltrain.offline.writer import Writer
from rltrain.types import StateDict

log = logging.getLogger("rltrain")


class RecordedEnv:
    """A vector environment that passes every time step to ``writer``, with the probabilities of the
    actions under ``policy``.

    Args:
        at_once: full shards are written by ``step``, not by a ``DatasetRecorder`` between the
            iterations of a training.
    """

    def __init__(
        self, *, env: VectorEnv, policy: RolloutPolicy, writer: Writer, at_once: bool
    ) -> None:
        self.env, self.policy, self.writer, self.at_once = env, policy, writer, at_once
        self._complete = False  # whether the writer has all that the environment has played
        self.dropped = np.zeros(env.n_envs, np.bool_)  # [E] open episodes that are not continued

    def __getattr__(self, name: str) -> Any:
        """Everything else is the environment's."""
        return getattr(self.env, name)

    @property
    def about(self) -> dict[str, object]:
        """The environment's, and the folder with as much as the dataset has room for."""
        kept = "recorded in part" if self.writer.shards else "not recorded"
        kept = kept if self.writer.stopped else "recorded"
        return {**self.env.about, f"{kept} into": str(self.writer.folder)}

    def reset(self, seeds: EpisodeSeeds) -> None:
        """Start episode 0 of every environment."""
        self.writer.restart()
        self.env.reset(seeds)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Step, and write the time step."""
        env, self._complete = self.env, False
        if self.at_once:
            self.writer.flush(self.writer.per_shard)
        step = {
            "obs": env.obs.copy(),  # the step overwrites these
            "avail_actions": env.avail_actions.astype(np.bool_),
            "state": env.state.copy(),
            "last": env.last.copy(),
            "action": action,
            "probability": self.policy.probability(),
        }
        reward, terminated = env.step(action)
        self.writer.add({**step, "reward": reward, "terminated": terminated})
        if env.lost is not None and env.lost.any():
            self.writer.forget(env.lost)
        self._complete = True
        return reward, terminated

    def load_state_dict(self, state: StateDict) -> None:
        """Continue; an environment that cannot begins a new episode."""
        self.env.load_state_dict(state)
        lost = np.zeros(self.env.n_envs, np.bool_) if self.env.lost is None else self.env.lost
        self.dropped = lost | (not state.get("exact", True))
        self._complete = True

    def close(self) -> None:
        """Write what is left, and close."""
        try:
            if self._complete and not self.writer.restored:
                self.writer.finish(self.env)
            self.writer.flush()
        finally:
            self._complete = False
            self.env.close()


class DatasetRecorder(Callback):
    """Begins and flushes the writer of a run and saves its state; the last callback, so that a
    full disk ends the run behind a complete iteration.
    """

    def __init__(self, env: RecordedEnv) -> None:
        self.env, self.writer = env, env.writer

    def on_train_start(self, trainer: Training, value: None = None) -> None:
        self.writer.begin()
        self.on_iteration(trainer)  # for what a resumed run could not write before

    def on_iteration(self, trainer: Training, value: None = None) -> None:
        self.writer.flush(self.writer.per_shard)

    def on_train_end(self, trainer: Training, value: None = None) -> None:
        self.writer.flush()
        if not (self.writer.shards or self.writer.stopped or self.env.last.any()):
            log.warning(
                "there is no dataset in %s: no episode has ended in %s env steps. Resume the run "
                "with a larger total_env_steps.",
                *(self.writer.folder, f"{trainer.clock.env_steps:,}"),
            )

    def state_dict(self) -> StateDict:
        return self.writer.state_dict()

    def load_state_dict(self, state: StateDict) -> None:
        self.writer.load_state_dict(state)
        self.writer.forget(self.env.dropped)  # its state was loaded before
