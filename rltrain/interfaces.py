"""Protocols: what environments, agents, losses, buffers and rollouts must offer each other.

A part of a user's own is checked against them once, when it is built: members with a value, and
``optional`` methods, may be left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Protocol, TypeVar

import numpy as np
from torch import Tensor

from rltrain.types import (
    Batch,
    Clock,
    EnvSpec,
    Episode,
    Model,
    Output,
    Plan,
    Result,
    Steps,
    UpdateResult,
)

Method = TypeVar("Method", bound=Callable[..., Any])


def optional(method: Method) -> Method:
    """Mark a protocol's method as one that may be left out: its body is the default."""
    method.optional = True  # type: ignore[attr-defined]
    return method


class EpisodeSeeds(Protocol):
    """The seed of the k-th episode (k = 0, 1, …) of one environment copy, keyed, never drawn from
    a counter.
    """

    def __call__(self, e: int, k: int) -> int: ...


class VectorEnv(Protocol):
    """E copies in lock-step with next-step resets: every observation, final ones included, owns
    one slot.

    The arrays are the *current* slot; they are overwritten by the next ``step``. Where ``last`` is
    set the next ``step`` ignores that copy's action, gives reward 0 and shows the first
    observation of a new episode.

    ``lost`` [E] bool marks environments that crashed in the last ``step``: it gave them reward 0,
    and they show the first observation of the same episode, which begins again.
    """

    spec: EnvSpec
    n_envs: int
    obs: np.ndarray  # [E, N, *O]
    avail_actions: np.ndarray  # [E, N, A] uint8
    state: np.ndarray  # [E, S] float32
    last: np.ndarray  # [E] bool
    infos: Sequence[Mapping[str, Any]]  # [E]; where last is set: {"win": bool, "metrics": {…}}
    about: Mapping[str, Any] = MappingProxyType({})  # for records: {"backend": …}
    lost: np.ndarray | None = None  # [E] bool
    frames_per_second: float | None = None  # of its videos; None: it cannot be rendered

    def reset(self, seeds: EpisodeSeeds) -> None:
        """Start episode 0 of every copy; from now on episode k of copy e is seeded with ``seeds(e,
        k)``.
        """

    def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``action`` [E, N] to ``(reward [E, R] float32, terminated [E] bool)``; moves the arrays
        on by one slot.
        """

    def call(self, method: str, *args: Any) -> list[Any]:
        """Call a method of every environment."""

    @optional
    def scripted(self, name: str) -> DecisionFunction:
        """The decision function of a scripted policy.

        Raises:
            ValueError: the environment has none by this name.
        """
        raise ValueError(
            f"algo.policy={name} needs battles, and this environment has none: type env=smac, or "
            "algo.policy=random, which runs in every environment."
        )

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...
    def close(self) -> None: ...


class DrawnEnv(VectorEnv, Protocol):
    """A vector environment that can be rendered."""

    frames_per_second: float

    def render(self, envs: Sequence[int]) -> list[list[np.ndarray]]:
        """For each of these environments one or several images (uint8 [H, W, 3]) of its last step;
        the last one shows the current time step.
        """


class Watch(Protocol):
    """Called in every time step while episodes are played."""

    def __call__(
        self, env: VectorEnv, numbers: Sequence[int], finished: Mapping[int, Episode]
    ) -> None:
        """Called before a step. ``numbers`` [E]: the episode each environment is in; ``finished``:
        the episodes that end at this time step, by environment.
        """

    def stepped(self, action: np.ndarray, reward: np.ndarray, terminated: np.ndarray) -> None:
        """Called after a step: action [E, N], reward [E, R], terminated [E]."""
        return


class DecisionFunction(Protocol):
    """The decisions of a scripted policy. It reads the true state of its environments, and from it
    where an episode begins.
    """

    def __call__(self) -> np.ndarray:
        """Available actions [E, N] int64 of the current time step."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


class Agents(Protocol):
    """Per-agent action values with shared parameters; an ``nn.Module``."""

    hidden_dim: Annotated[int, "size of the recurrent state, 0 for feed-forward agents"]
    uses_last_action: bool = False  # the previous action is an input
    draws_noise: bool = False  # in training mode the same observation gets different values
    obs_norm: Any = None  # a RunningNorm of observations, which ``update`` shows every collect

    def unroll(self, batch: Batch, start: int = 0, stop: int | None = None) -> Output:
        """The values of a window. Only slots ``start … stop`` are needed: what feed-forward agents
        say of the others means nothing.
        """

    def step(self, obs: Tensor, last_action: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Acting: obs [E, N, *O], last_action [E, N], hidden [E, N, H] to (q [E, N, A], next
        hidden).
        """


class Mixer(Protocol):
    """Per-agent values to value streams; an ``nn.Module``. Simple mixers use two of the four
    arguments.
    """

    n_streams: Annotated[int, "M, value streams after mixing: 1, or n_agents"]
    uses_greedy: bool = True  # False: it does not read greedy_q

    def __call__(self, q: Tensor, greedy_q: Tensor, action: Tensor, state: Tensor) -> Tensor:
        """q, greedy_q and action [T, B, N], state [T, B, S] to [T, B, M]."""


class Loss(Protocol):
    """What a batch teaches. One that learns a distribution of returns asks for ``distribution`` in
    its constructor.
    """

    n_step: Annotated[int, "rewards summed before the bootstrap"]
    per_agent: bool = False  # every agent's values are learned by themselves, without a mixer
    targets: Callable[..., Tensor] | None = None  # (online, transitions, last) of a whole collect

    def __call__(self, online: Model, target: Model, batch: Batch, clock: Clock) -> Result:
        """Loss sum, count (transitions trained on × M), priority [B] and metrics."""


class Optimizer(Protocol):
    """A ``torch.optim.Optimizer``, or what the learner reads of one."""

    param_groups: Annotated[list[dict[str, Any]], "where a schedule sets the learning rate"]
    state: Annotated[Any, "by parameter, its tensors; saved in checkpoints"]

    def step(self) -> Any: ...


class TargetUpdates(Protocol):
    """When the target network is updated, and how far."""

    tau: Annotated[float, "1 copies; below 1 the target moves that part of the way"]
    done_at: Annotated[int, "the count of the last update; saved in checkpoints"]

    def due(self, clock: Clock) -> bool: ...


class Learning(Protocol):
    """What the loop asks of a learner."""

    online: Model

    def update(self, batch: Batch, clock: Clock) -> UpdateResult: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


class Acting(Protocol):
    """Actions for observations that come from elsewhere than a rollout."""

    def compute_actions(
        self,
        obs: Sequence[Any],
        state: dict[str, Any] | None,
        explore: bool,
        avail_actions: Any,
        clock: Clock,
    ) -> Any:
        """Actions for X observations; with a state where agents remember."""

    def compute_single_action(
        self,
        obs: Any,
        state: dict[str, Any] | None,
        explore: bool,
        avail_actions: Any,
        clock: Clock,
    ) -> Any:
        """The action for one observation; with a state where agents remember."""

    def explores_until(self) -> int | None:
        """The env step at which training's exploration stops changing; None if it never does."""

    def exploration_metrics(self, clock: Clock) -> dict[str, float]:
        """How much training explores at ``clock``."""


class Rollouts(Protocol):
    """Where experience comes from: policy and environments, here or elsewhere."""

    about: Mapping[str, Any]  # what the environments say about themselves: {"backend": …}

    def collect(self, n_steps: int, clock: Clock) -> Steps:
        """``n_steps`` slots of every copy."""

    def run_episodes(
        self,
        n: int,
        seed: int,
        clock: Clock,
        watch: Watch | None = None,
        stop: Callable[[], bool] | None = None,
        report: Callable[[int], None] | None = None,
    ) -> list[Episode]:
        """Exactly n episodes, episode i with seed i, in that order; ``watch`` sees every slot,
        ``report`` gets the number of finished episodes. Raises Interrupted as soon as ``stop``
        says so.
        """

    def sync(self, learner: Learning) -> None:
        """Take over what was learned."""

    def restart(self, state: Mapping[str, Any], episodes: int) -> None:
        """Begin episodes that were not played yet, with what outlives them as ``state`` says."""

    def call(self, method: str, *args: Any) -> list[Any]: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...
    def close(self) -> None: ...


class Buffer(Protocol):
    """Stored steps, sampled as windows of T transitions."""

    n_steps: Annotated[int, "transitions stored now"]
    full: bool = False  # old steps are removed for new ones
    keeps_hidden: bool = False  # stores the recurrent states of acting
    per_agent: bool = False  # windows show one agent each, not the team
    targets: Any = None  # of the loss, computed for all collected steps at once

    def plan(self) -> Plan:
        """Bytes and steps that it will store."""

    @optional
    def check(self, batch_size: int) -> None:
        """Refuse a batch that could never be sampled (ValueError)."""

    def add(self, steps: Steps) -> None: ...
    def ready(self, batch_size: int) -> bool: ...
    def sample(self, batch_size: int, clock: Clock) -> Batch: ...

    @optional
    def update_priority(self, index: Tensor, priority: Tensor) -> None:
        """The priorities [B] that the loss gave the windows ``index`` [B]."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


class RunningMeans(Protocol):
    """Means of metrics since the last line of the log."""

    def add(self, group: str, values: Mapping[str, Any]) -> None:
        """Add values by name to the means ``group/name``."""

    def take(self) -> dict[str, float]:
        """The means by name; they start from scratch."""


class Training(Protocol):
    """The trainer as callbacks see it, those of users included; docs/callbacks.md describes it."""

    clock: Clock
    run_dir: Path
    about: Mapping[str, Any]  # "config" and "spec" of the run, as saved in checkpoints
    latest: dict[str, float]  # the last reported value of every metric
    rollout: Rollouts
    test_rollout: Rollouts
    buffer: Buffer
    learner: Learning
    interrupted: bool  # the run ends because a person or the machine asked for it
    diverging: bool  # the latest updates were all undone

    @property
    def metrics(self) -> RunningMeans:
        """Where ``add("custom", {"name": value})`` adds to the next line of the log."""

    @property
    def seconds(self) -> float:
        """Wall-clock seconds of the run, those before a resume included."""

    @property
    def untrained(self) -> bool:
        """Whether the weights are still those of the initialization."""

    def log(self, row: dict[str, float]) -> dict[str, float]:
        """Pass training metrics through ``on_log`` and update ``latest``; returns what to write."""

    def test(self, episodes: int | None = None) -> dict[str, float]:
        """Run a test and return its metrics; nothing if the run is interrupted meanwhile."""

    def save(self, kind: str = "full", *, with_replay: bool = True) -> Path:
        """Write a checkpoint (``full`` or ``weights``) and return its folder."""

    def stop(self, why: str, *, interrupted: bool = False) -> None:
        """End the run after the present iteration."""
