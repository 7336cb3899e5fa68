"""The Python face of rltrain: the same runs, numbers and checks as the command."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rltrain import checkpoint, evaluation
from rltrain.algo.learner import Learner
from rltrain.algo.policy import Policy
from rltrain.build import build_learner, prepare_machine, spec_record
from rltrain.config import compose_checked
from rltrain.errors import UsageError
from rltrain.run import (
    SIGNAL_CODES,
    Result,
    built,
    new_run_dir,
    preflight,
    run_training,
    start_from,
    warn_of_exploration,
)
from rltrain.settings import Settings, check
from rltrain.trainer import MODEL, SPEC, Trainer, check_fits
from rltrain.types import Clock, EnvSpec, VectorEnv

__all__ = [
    "GreedyPolicy",
    "Result",
    "evaluate",
    "load_policy",
    "make_learner",
    "make_trainer",
    "train",
]


def settings_from(overrides: Sequence[str]) -> Settings:
    """Compose and check the words that would follow ``rltrain`` on a command line.

    Raises:
        UsageError: unknown names, wrong types or ranges.
    """
    composed = compose_checked(overrides)
    return check(composed.plain, composed.choices, composed.defaults)


def train(overrides: Sequence[str] = ()) -> Result:
    """Train one run in a new folder below ``outputs/``; see ``rltrain --help`` for the words.

    Raises:
        UsageError: what is wrong with the words, before anything is written.
        RuntimeError: the run failed.
    """
    settings = settings_from(overrides)
    if settings.run.mode != "train" or settings.run.resume is not None:
        raise UsageError(
            "rltrain.train starts a new run: use rltrain.evaluate for mode=evaluate, and "
            "make_trainer with restore to go on with a run."
        )
    run_dir = new_run_dir(settings)
    preflight(settings, run_dir)
    note_words(run_dir, overrides)
    result = run_training(settings, run_dir, loud=False)
    if result.exit_code not in (0, *SIGNAL_CODES.values()):
        raise RuntimeError(f"The run failed; the traceback is in {run_dir / 'train.log'}.")
    return result


def note_words(run_dir: Path, overrides: Sequence[str]) -> None:
    """``.hydra/overrides.yaml``, as Hydra writes it for the command."""
    folder = run_dir / ".hydra"
    folder.mkdir(parents=True)
    (folder / "overrides.yaml").write_text(json.dumps(list(overrides)), encoding="utf-8")


def evaluate(path: str | Path, episodes: int | None = None, seed: int | None = None) -> Result:
    """Play test episodes with a checkpoint's weights: the numbers of mode=evaluate.

    Raises:
        CheckpointError: nothing trustworthy at ``path``.
    """
    words = [f"test.episodes={episodes}"] if episodes is not None else []
    words += [f"seed={seed}"] if seed is not None else []
    done = evaluation.evaluate(Path(path).expanduser(), words, None)
    return Result(done.path.parent, done.metrics)


def make_trainer(
    overrides: Sequence[str] = (),
    run_dir: str | Path | None = None,
    env: Callable[[], Any] | None = None,
) -> Trainer:
    """A trainer to drive by hand: ``iterate``, ``train``, ``test``, ``save``, ``restore``,
    ``close``.

    Args:
        env: a Gymnasium class or factory; None for the environment that the overrides name.
    """
    settings = settings_from(overrides)
    if env is not None:
        settings = with_env(settings, env)
    folder = Path(run_dir) if run_dir is not None else new_run_dir(settings)
    trainer = built(settings, folder)
    warn_of_exploration(settings, trainer)
    start_from(trainer, settings)
    folder.mkdir(parents=True, exist_ok=True)
    return trainer


@dataclass(frozen=True)
class OwnEnv:
    """An environment that was handed over instead of named, in the place of a ``_target_`` node."""

    make: Callable[[], Any]
    kwargs: Mapping[str, Any]

    def build(self, *, n_envs: int, training: bool, **_: Any) -> VectorEnv:
        """``n_envs`` copies in lock-step; a maker with a keyword ``training`` is told of it."""
        from rltrain.env.gym import from_class

        env: VectorEnv = from_class(
            self.make, n_envs=n_envs, training=training, time_limit="bootstrap"
        )
        return env


def with_env(settings: Settings, env: Callable[[], Any]) -> Settings:
    """The same settings with this environment in place of the one they name."""
    name = f"{getattr(env, '__module__', '')}.{getattr(env, '__qualname__', repr(env))}"
    node: Any = OwnEnv(env, {"id": name})
    if settings.run.test.env:
        raise UsageError(
            "test.env sets options of an environment that the overrides name, but this one was "
            "handed over: give it to make_trainer as you want it, and leave out test.env."
        )
    return replace(
        settings,
        nodes={**settings.nodes, "env": node, "test.env": node},
        choices={**settings.choices, "env": "own"},
        plain={**settings.plain, "env": {"_target_": name}},
    )


def make_learner(overrides: Sequence[str], spec: EnvSpec) -> Learner:
    """A learner for environments of this spec; feed it with ``Batch`` and ``Clock``."""
    settings = settings_from(overrides)
    return build_learner(settings, spec, prepare_machine(settings))


class GreedyPolicy:
    """A trained team acting in one environment: ``reset`` at an episode's start, then ``act`` per
    step.
    """

    def __init__(self, policy: Policy, spec: EnvSpec, step: int) -> None:
        self.policy, self.spec, self.step = policy, spec, step

    def reset(self) -> None:
        """Begin an episode: hidden state and previous actions are forgotten."""
        self.policy.reset()

    def act(self, obs: np.ndarray, avail_actions: np.ndarray) -> np.ndarray:
        """obs [N, *O] and avail_actions [N, A] to greedy actions [N]; keeps the hidden state."""
        last = np.zeros(1, np.bool_)
        wide = np.asarray(obs, np.float32)[None], np.asarray(avail_actions)[None]
        return self.policy.act(*wide, last, Clock())[0]


def load_policy(path: str | Path, load_step: int | None = None) -> GreedyPolicy:
    """The greedy policy of a checkpoint; no environment is built.

    Raises:
        CheckpointError: nothing trustworthy at ``path``.
    """
    from rltrain.algo.exploration import FixedEpsilon

    found, settings = evaluation.open_checkpoint(Path(path).expanduser(), [], load_step)
    saved = checkpoint.read(found.folder, SPEC)
    spec = EnvSpec(**{**saved, "obs_shape": tuple(saved["obs_shape"])})
    learner = build_learner(settings, spec, prepare_machine(settings))
    state, weights = learner.state_dict(), checkpoint.read(found.folder, MODEL)
    check_fits(state, weights, found.folder, spec_record(spec))
    learner.load_state_dict({**state, **weights})
    policy = Policy(
        agents=learner.online.agents,
        exploration=FixedEpsilon(epsilon=0.0),
        noisy=False,
        spec=spec,
        n_envs=1,
        rng=np.random.default_rng(settings.run.seed),
    )
    return GreedyPolicy(policy, spec, found.step)
