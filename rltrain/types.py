"""Data classes and array shapes.

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
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

Info = dict[str, Any]
"""Auxiliary information of an environment, as in Gymnasium."""
SpecRecord = Mapping[str, Any]
"""An ``EnvSpec``, a space or a part of one as JSON-compatible values by name."""
StateDict = dict[str, Any]
"""Returned by ``state_dict`` and passed to ``load_state_dict``: arrays, tensors and plain values by
name, in nested dicts and lists.
"""

LARGEST_SIZE = 1 << 22
"""Networks for larger environments are not built."""
Size = Annotated[int, Field(strict=True, ge=1, le=LARGEST_SIZE)]
Scale = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]


@dataclass(frozen=True, kw_only=True)
class EnvSpec:
    """Sizes and properties of an environment, in Python's numbers. Specs of environments of one's
    own are checked against the annotations.
    """

    n_agents: Size
    n_actions: Size
    obs_shape: Annotated[tuple[Size, ...], Field(min_length=1)]  # of one agent, one frame
    state_dim: Annotated[int, Field(strict=True, ge=0)] = 0  # 0 = no global state
    n_rewards: Size = 1  # 1 = one team reward, N = one per agent
    max_steps: Size | None = None  # transitions of the longest episode
    obs_dtype: Literal["float32", "uint8"] = "float32"  # as stored
    obs_scale: Scale = 1.0  # the networks' input is obs * obs_scale
    frame_stack: Size = 1
    reports_win: bool = False  # episodes have info["win"]
    layout: SpecRecord | None = None  # named entity blocks of obs and state
    obs_space: SpecRecord | None = None  # the environment's own, if converted
    obs_bytes: tuple[tuple[int, int, float], ...] = ()  # images in flat observations: columns
    # [start, stop) hold scale * (0 … 255)
    channels: Literal["auto", "first", "last"] = "auto"  # configured channel axis of images
    first_action: Annotated[int, Field(strict=True)] = 0  # the environment's number of action 0
    action_components: tuple[tuple[int, int], ...] | None = None  # (number of values, first value)
    # of each, if actions are numbered combinations
    action_dtype: str = "int64"  # of the environment's own actions that have components
    agents: tuple[tuple[str | int, SpecRecord, SpecRecord], ...] | None = None  # PettingZoo: name,
    # observation space and action space of each
    joint: Literal["tuple", "components"] | None = None  # agents are the entries of a
    # Gymnasium environment's Tuple spaces, or the components of its actions
    masks_actions: bool = False  # some actions are not always available
    masks_in_info: bool = False  # … as given by the infos of a team's agents
    obs_sizes: tuple[int, ...] | None = None  # per agent, if observations are padded
    action_sizes: tuple[int, ...] | None = None  # number of actions per agent, if they differ

    @property
    def record(self) -> dict[str, Any]:
        """The fields as JSON-compatible values."""
        columns = [list(each) for each in self.obs_bytes]
        return {**asdict(self), "obs_shape": list(self.obs_shape), "obs_bytes": columns}


@dataclass(frozen=True)
class Episode:
    """A finished episode: undiscounted return (mean over streams), number of transitions, info."""

    episode_return: float
    length: int
    info: Info = field(default_factory=dict)


class Drawing(NamedTuple):
    """Drawing data of one environment's current time step: units, agents first.

    Attributes:
        world: constant plain values: ``bounds`` [x0, y0, x1, y1], y pointing up; optional
            ``cells`` (rows of the map from the lowest y: "." is blocked, a digit the height),
            ``picture`` (``bounds`` in pixels of ``render``'s images), ``grid`` (draw its lines),
            ``lines`` (lists of points), ``whole`` (always show the whole map), ``actions``
            (names), ``orders`` (names), ``first_target`` (action that targets the first enemy;
            with ``energy`` the first agent), ``cone`` (radians that agents see around
            ``facing``), ``rate`` (env steps per second).
        looks: plain values of each unit: ``name``, ``team`` (0 agents, 1 opponents, 2 things),
            ``radius``; optional ``color``, ``square``, ``text``, ``sight`` (distance),
            ``sees_square``, ``rod`` (to its target), and maximum ``health``, ``shield``,
            ``energy``, ``cooldown``.
        columns: numbers by name, [units]: ``x``, ``y``; optional ``there`` (bool), ``health``,
            ``shield``, ``energy``, ``cooldown``, ``order``, ``target`` (a unit, -1 = none),
            ``facing`` (radians), ``sees`` (bool [N, units]).
    """

    world: Mapping[str, Any]
    looks: Sequence[Mapping[str, object]]
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
    lost: np.ndarray  # [E] bool: it crashed; drop its open episode before adding these steps
    episodes: tuple[Episode, ...] = ()  # ordered by final step, then by environment
    hidden: np.ndarray | None = None  # [T, E, N, H], if the buffer stores it
    values: np.ndarray | None = None  # … [T, E, N, 2] float32: of the actions taken, of the best

    @property
    def env_steps(self) -> int:
        return int(self.last.size - np.count_nonzero(self.last))


Number = Tensor | np.float32
"""One number: a 0-d tensor, or a NumPy scalar from compiled code."""

STEP_FIELDS = ("obs", "avail_actions", "state", "last", "action", "reward", "terminated")
"""Names of the arrays [T, E, …] of all ``Steps``."""


@dataclass(frozen=True)
class StepView:
    """One time step of one environment, passed to step and episode hooks.

    The arrays are views: copy them to keep them. ``action``, ``reward`` and ``terminated`` are set
    in ``on_step``, ``episode`` in ``on_episode_end``.
    """

    test: bool  # whether this is a test episode
    env: int  # environment, 0 … E - 1
    number: int  # episode: of the test, or of this environment in training, from 0
    t: int  # time step within the episode, from 0
    obs: np.ndarray  # [N, *O]
    avail_actions: np.ndarray  # [N, A] uint8
    state: np.ndarray  # [S]
    action: np.ndarray | None = None  # [N]
    reward: np.ndarray | None = None  # [R]
    terminated: bool = False
    episode: Episode | None = None  # return, length and info


@dataclass(frozen=True)
class Trajectory:
    """The T time steps that one ``collect`` added to an episode of one environment, including the
    final one. The arrays are views: values written to them are stored.
    """

    env: int  # environment, 0 … E - 1
    number: int  # episode of this environment, from 0
    begins: bool  # contains the episode's first step
    ends: bool  # contains its final step
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

    Everything after a window's first ``last`` is padding. ``mask`` marks the transitions to
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
    agent: Tensor | None = None  # [B, N], agent of each row, if not 0 … N-1
    td_target: Tensor | None = None  # [T, B, M], if targets were computed before
    mask_end: int | None = None  # mask is unset or ignored from this step on; None = T
    burn_in: int | None = None  # bound of warm_up; None = T
    eta: float = 0.0  # window priority: eta * largest + (1 - eta) * mean error of its steps
    whole: bool = False  # True: no padding
    arrays: ClassVar[Mapping[str, np.ndarray] | None] = None  # of an ``ArrayBatch``
    layout: ClassVar[tuple[object, ...] | None] = None  # of a ``PackedBatch``

    # twin: kernels/recurrent/team_step.py, kernels/layers/td_step.py
    @cached_property
    def real(self) -> Tensor | None:
        """[T+1, B] bool: steps up to and including their window's first ``last``; None = all.
        Transition t is real if step t + 1 is.
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
        """[B] int64: number of steps at the start of a window that only warm up the recurrent
        state, before the first step that ``mask`` marks; None = none.
        """
        if self.burn_in == 0 or self.learned is None:
            return None
        n = self.learned.int().argmax(0)
        if self.burn_in is not None:
            n = n.clamp(max=self.burn_in)
        return None if n.is_cpu and not bool(n.any()) else n


# twin: kernels/recurrent/team_step.py, kernels/layers/td_step.py
def inside(last: Tensor) -> Tensor:
    """Return which steps of a window are real: up to and including its first ``last``.

    ``last`` [T+1, B] bool to [T+1, B] bool.
    """
    ended = last.cumsum(0)  # [T+1, B] lasts up to this step
    return (ended == 0) | (last & (ended == 1))


class Output(NamedTuple):
    """The agents' output for a window: values, recurrent states (H = 0 for feed-forward agents)
    and, for distributional agents, the distributions with means ``q``.
    """

    q: Tensor  # [T+1, B, N, A]
    hidden: Tensor  # [T+1, B, N, H]
    dist: Tensor | None = None  # [T+1, B, N, A, K], logits or quantiles
    tau: Tensor | None = None  # [T+1, B, N, K], sampled quantile levels


@dataclass(frozen=True)
class LossResult:
    """The output of a loss: sum and count (which ranks can add up), priorities and metrics."""

    loss_sum: Number
    count: Number
    priority: Tensor  # [B]
    metrics: Mapping[str, Number]
    gradient: Tensor | None = None  # of loss_sum, flat, if already computed


class UpdateResult(NamedTuple):
    """The output of a gradient step: priorities [B] and metrics, both on the device."""

    priority: Tensor
    metrics: Mapping[str, Number]


@dataclass(frozen=True)
class Pieces:
    """A large array in pieces along its first axis, so that it can be saved without a copy.

    The pieces are read lazily: read them before their owner changes.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    pieces: Callable[[], Iterator[np.ndarray]]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        whole = np.concatenate([np.empty((0, *self.shape[1:]), self.dtype), *self.pieces()])
        return whole if dtype is None else whole.astype(dtype)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The memory plan of a buffer, known before anything is stored."""

    bytes_per_step: int  # an observation and its transition
    worst_case_bytes: int | None  # ``capacity`` full-length episodes; None if unknown
    cap_bytes: int  # upper bound
    capacity: int  # in the buffer's unit: episodes or steps
    steps: int | None = None  # maximum number of stored steps, if that is the unit
    folder: Path | None = None  # of its files; None = in memory


def module_device(module: nn.Module) -> torch.device:
    """The device of a module's parameters."""
    return next((p.device for p in module.parameters()), torch.device("cpu"))
