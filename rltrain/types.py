"""Data classes, and every array shape of the project.

Letters: T transitions, B windows in a batch, E environments, N agents, A actions, R reward
streams (1 = team, N = one each), M value streams after mixing (1 or N), O observation dims, S state
size, H hidden size, K atoms. Time is always the first axis. ``action[t]`` is chosen at ``obs[t]``;
``reward[t]`` and ``terminated[t]`` are its consequence; ``last[t]`` marks ``obs[t]`` as the final
observation of its episode, so time step t holds no transition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

Info = dict[str, Any]
"""What an environment says besides an observation, as in Gymnasium."""
StateDict = dict[str, Any]
"""What ``state_dict`` returns and ``load_state_dict`` takes: arrays, tensors and plain values by
name, in dicts and lists of any depth.
"""


@dataclass(frozen=True, kw_only=True)
class EnvSpec:
    """Sizes and properties of an environment."""

    n_agents: int
    n_actions: int
    obs_shape: tuple[int, ...]  # of one agent, one frame
    state_dim: int = 0  # 0 = no global state
    n_rewards: int = 1  # 1 = one team reward, N = one per agent
    max_steps: int | None = None  # longest episode, transitions
    obs_dtype: str = "float32"  # as stored: float32 or uint8
    obs_scale: float = 1.0  # the networks' input is obs * obs_scale
    frame_stack: int = 1
    reports_win: bool = False  # episodes have info["win"]
    layout: Mapping[str, Any] | None = None  # named entity blocks of obs and state
    obs_space: Mapping[str, Any] | None = None  # the environment's own, if converted
    obs_bytes: tuple[tuple[int, int, float], ...] = ()  # images in flat observations: columns
    # [start, stop), whose numbers are scale * (0 … 255)
    channels: Literal["auto", "first", "last"] = "auto"  # axis of an image's channels, as set
    first_action: int = 0  # the environment's own number of action 0
    action_components: tuple[tuple[int, int], ...] | None = (
        None  # number of values and first value of each, if actions are numbered combinations
    )
    action_dtype: str = "int64"  # of the environment's own actions that have components
    agents: tuple[tuple[str | int, Mapping[str, Any], Mapping[str, Any]], ...] | None = (
        None  # name, observation and action space of each, of a PettingZoo environment
    )
    joint: Literal["tuple", "components"] | None = None  # agents are the parts of a Gymnasium
    # environment's Tuples, or the components of its actions
    masks_actions: bool = False  # not all actions are available at all times
    masks_in_info: bool = False  # … of a team, as the infos of its agents say
    obs_sizes: tuple[int, ...] | None = None  # each agent's own, if observations are padded
    action_sizes: tuple[int, ...] | None = (
        None  # each agent's own number of actions, if they differ
    )

    @property
    def record(self) -> dict[str, Any]:
        """The fields as JSON holds them."""
        columns = [list(each) for each in self.obs_bytes]
        return {**asdict(self), "obs_shape": list(self.obs_shape), "obs_bytes": columns}


@dataclass(frozen=True)
class Episode:
    """A finished episode: undiscounted return (mean of streams), length in transitions, info."""

    episode_return: float
    length: int
    info: Info = field(default_factory=dict)


class Drawing(NamedTuple):
    """What can be drawn of one environment's current time step: units, agents first.

    Attributes:
        world: what is the same at all times, plain values: ``bounds`` [x0, y0, x1, y1], y pointing
            up; optional are ``cells`` (rows of the map from the lowest y: "." is blocked, a digit
            the height), ``picture`` (``bounds`` in pixels of ``render``'s images), ``grid`` (draw
            its lines), ``lines`` (lists of points), ``whole`` (show all of it at all times),
            ``actions`` (names), ``orders`` (names),
            ``first_target`` (the action that aims at the first enemy; with ``energy`` agent),
            ``cone`` (radians that agents see around ``facing``), ``rate`` (env steps a second).
        looks: of each unit, plain values: ``name``, ``team`` (0 agents, 1 opponents, 2 things),
            ``radius``; optional are ``color``, ``square``, ``text``, ``sight`` (distance),
            ``sees_square``, ``rod`` (to its target), and the largest ``health``, ``shield``,
            ``energy``, ``cooldown``.
        columns: numbers by name, [units]: ``x``, ``y``; optional are ``there`` (bool), ``health``,
            ``shield``, ``energy``, ``cooldown``, ``order``, ``target`` (a unit, -1 = none),
            ``facing`` (radians); and ``sees`` bool [N, units].
    """

    world: Mapping[str, Any]
    looks: Sequence[Mapping[str, Any]]
    columns: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Steps:
    """T time steps of E environments (numpy); ``env_steps`` counts their real transitions."""

    obs: np.ndarray  # [T, E, N, *O]
    avail_actions: np.ndarray  # [T, E, N, A] uint8
    state: np.ndarray  # [T, E, S]
    last: np.ndarray  # [T, E] bool
    action: np.ndarray  # [T, E, N] int64; meaningless where last is set
    reward: np.ndarray  # [T, E, R] float32
    terminated: np.ndarray  # [T, E] bool
    lost: (
        np.ndarray
    )  # [E] bool: the environment crashed; drop its open episode before adding these steps
    episodes: tuple[Episode, ...] = ()  # in the order of their final steps, then of environments
    hidden: np.ndarray | None = None  # [T, E, N, H], where a buffer stores it
    values: np.ndarray | None = None  # … [T, E, N, 2] float32: of the action taken, of the best one

    @property
    def env_steps(self) -> int:
        return int(self.last.size - np.count_nonzero(self.last))


Number = Tensor | np.float32
"""One number: a 0-d tensor, or from compiled code a NumPy scalar."""

STEP_FIELDS = ("obs", "avail_actions", "state", "last", "action", "reward", "terminated")
"""The arrays [T, E, …] that all ``Steps`` have."""


@dataclass(frozen=True)
class StepView:
    """One time step of one environment, the argument of step and episode hooks.

    The arrays are views: keep copies. ``action``, ``reward`` and ``terminated`` are set in
    ``on_step``, ``episode`` in ``on_episode_end``.
    """

    test: bool  # of a test episode
    env: int  # which environment, 0 … E - 1
    number: int  # tests: episode of the test; training: episodes that the environment began before
    t: int  # transitions of the episode before this time step
    obs: np.ndarray  # [N, *O]
    avail_actions: np.ndarray  # [N, A] uint8
    state: np.ndarray  # [S]
    action: np.ndarray | None = None  # [N]
    reward: np.ndarray | None = None  # [R]
    terminated: bool = False
    episode: Episode | None = None  # return, length and info


@dataclass(frozen=True)
class Trajectory:
    """The T time steps that one ``collect`` added to one episode of one environment, the final one
    included. The arrays are views: values written into them are stored.
    """

    env: int  # which environment, 0 … E - 1
    number: int  # episodes that this environment began before
    begins: bool  # it holds the episode's first step
    ends: bool  # it holds its final step
    obs: np.ndarray  # [T, N, *O]
    avail_actions: np.ndarray  # [T, N, A] uint8
    state: np.ndarray  # [T, S]
    last: np.ndarray  # [T] bool
    action: np.ndarray  # [T, N]; meaningless where last is set
    reward: np.ndarray  # [T, R]
    terminated: np.ndarray  # [T] bool


@dataclass(frozen=True)
class Clock:
    """Counters of a run: real transitions of all environments, episodes, gradient steps."""

    env_steps: int = 0
    episodes: int = 0
    updates: int = 0

    def after(self, steps: Steps) -> Clock:
        env_steps, episodes = steps.env_steps, len(steps.episodes)
        return Clock(self.env_steps + env_steps, self.episodes + episodes, self.updates)

    def after_update(self) -> Clock:
        return Clock(self.env_steps, self.episodes, self.updates + 1)


@dataclass(frozen=True)
class Batch:
    """B windows of T transitions, each inside one episode (torch, on the learner's device).

    After a window's first ``last`` everything is padding. ``mask`` marks the transitions to
    train on.
    """

    obs: Tensor  # [T+1, B, N, *O] float32
    avail_actions: Tensor  # [T+1, B, N, A] bool
    state: Tensor  # [T+1, B, S] float32
    last_action: Tensor  # [T+1, B, N] int64, -1 = none yet
    last: Tensor  # [T+1, B] bool
    action: Tensor  # [T, B, N] int64
    reward: Tensor  # [T, B, R] float32
    terminated: Tensor  # [T, B] bool
    mask: Tensor  # [T, B] bool
    weight: Tensor  # [B] float32, importance weights
    index: Tensor  # [B] int64, argument of update_priority
    hidden: Tensor | None = None  # [B, N, H], recurrent state at the first step
    agent: Tensor | None = None  # [B, N], which agent a row is, where not 0 … N-1
    td_target: Tensor | None = None  # [T, B, M], where targets were computed before
    mask_end: int | None = None  # from this step on mask is not set, or ignored; None = T
    burn_in: int | None = None  # bound of warm_up; None = T
    eta: float = 0.0  # a window's priority: eta * largest + (1 - eta) * mean error of its steps
    whole: bool = False  # True: nothing is padding
    arrays: ClassVar[Mapping[str, np.ndarray] | None] = None  # of an ``ArrayBatch``
    layout: ClassVar[tuple[Any, ...] | None] = None  # of a ``PackedBatch``

    # twin: kernels/recurrent/team_step.py, kernels/layers/td_step.py
    @cached_property
    def real(self) -> Tensor | None:
        """[T+1, B] bool: steps up to and including their window's first ``last``; None = all.
        Transition t is real where step t + 1 is.
        """
        return None if self.whole else inside(self.last)

    # twin: kernels/recurrent/team_step.py, kernels/layers/td_step.py
    @cached_property
    def learned(self) -> Tensor | None:
        """[T, B] bool: real transitions that ``mask`` marks; None = all."""
        mask = self.mask
        if self.mask_end is not None and self.mask_end < len(mask):
            mask = mask.clone()
            mask[self.mask_end :] = False
        if self.real is not None:
            return mask & self.real[1:]
        # free on the CPU; elsewhere it would wait for the device
        return None if mask.is_cpu and bool(mask.all()) else mask

    @cached_property
    def warm_up(self) -> Tensor | None:
        """[B] int64: the first steps of a window, before any that ``mask`` marks, which only warm
        up the recurrent state; None = none.
        """
        if self.burn_in == 0 or self.learned is None:
            return None
        n = self.learned.int().argmax(0)
        if self.burn_in is not None:
            n = n.clamp(max=self.burn_in)
        return None if n.is_cpu and not bool(n.any()) else n


# twin: kernels/recurrent/team_step.py, kernels/layers/td_step.py
def inside(last: Tensor) -> Tensor:
    """Which steps of a window are real: those up to and including its first ``last``.

    ``last`` [T+1, B] bool to [T+1, B] bool.
    """
    ended = last.cumsum(0)  # [T+1, B] lasts up to this step
    return (ended == 0) | (last & (ended == 1))


class Output(NamedTuple):
    """The agents' output for a window: values and recurrent states (H = 0 for feed-forward agents),
    of distributional agents also the distributions whose means are ``q``.
    """

    q: Tensor  # [T+1, B, N, A]
    hidden: Tensor  # [T+1, B, N, H]
    dist: Tensor | None = None  # [T+1, B, N, A, K], logits or quantiles
    tau: Tensor | None = None  # [T+1, B, N, K], quantile levels, if they were drawn


@dataclass(frozen=True)
class LossResult:
    """The output of a loss: sum and count, which ranks can add up, priorities and metrics."""

    loss_sum: Number
    count: Number
    priority: Tensor  # [B]
    metrics: Mapping[str, Number]
    gradient: Tensor | None = None  # of loss_sum by all weights, flat, if already computed


class UpdateResult(NamedTuple):
    """The output of a gradient step: priorities [B] and metrics, both on the device."""

    priority: Tensor
    metrics: Mapping[str, Number]


@dataclass(frozen=True)
class Pieces:
    """A large array in pieces along its first axis, so that saving it makes no copy.

    The pieces are read lazily: take them before their owner changes.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    pieces: Callable[[], Iterator[np.ndarray]]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        whole = np.concatenate([np.empty((0, *self.shape[1:]), self.dtype), *self.pieces()])
        return whole if dtype is None else whole.astype(dtype)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The memory of a buffer, known before anything is stored."""

    bytes_per_step: int  # an observation and its transition
    worst_case_bytes: int | None  # ``capacity`` full-length episodes; None if no length is known
    cap_bytes: int  # never more than this
    capacity: int  # of what the buffer counts: episodes or steps
    steps: int | None = None  # maximum number of stored steps, if the buffer counts steps
    folder: Path | None = None  # of its files; None: it is in memory


def module_device(module: nn.Module) -> torch.device:
    """The device of a module's parameters."""
    return next((p.device for p in module.parameters()), torch.device("cpu"))
