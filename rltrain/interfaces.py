"""Base classes of agents, mixers and losses; protocols of environments, buffers and rollouts.

A user's own part is checked against its interface once, when it is built. Members with a value,
and methods that are neither abstract nor, of a protocol, without ``optional``, may be left out.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Protocol, TypeVar

import numpy as np
from torch import Tensor, nn

from rltrain.common.stateful import Stateful
from rltrain.types import (
    Batch,
    Clock,
    Drawing,
    EnvSpec,
    Episode,
    Info,
    LossResult,
    Output,
    Plan,
    StateDict,
    Steps,
)

Method = TypeVar("Method", bound=Callable[..., Any])
EpisodeSeeds = Callable[[int, int], int]
"""The seed of episode k = 0, 1, … of environment e, a function of e and k."""


def optional(method: Method) -> Method:
    """Mark a protocol's method as one that may be left out: its body is the default."""
    vars(method)["optional"] = True
    return method


class OtherSide(Protocol):
    """The team that plays against the agents of E environments; arrays as in ``VectorEnv``."""

    spec: EnvSpec  # of this team
    same_team: bool  # it is equal to the agents' team, so that their policies can play it
    builtin: bool  # the environment itself plays it where ``commanded`` is not set
    policies: str  # scripted ones, for messages
    equal_teams: str  # where both teams are equal, for messages: "both teams …"
    n_envs: int
    obs: np.ndarray
    avail_actions: np.ndarray
    state: np.ndarray
    action: np.ndarray  # [E, N] int64, to be written before every step of the environment
    commanded: np.ndarray  # [E] bool, to be written before an episode begins: ``action`` is carried
    # out; elsewhere the environment's own opponent plays, and action has to be 0

    def scripted(self, name: str) -> DecisionFunction:
        """The decision function of a scripted policy of this team.

        Raises:
            ValueError: the environment has none by this name.
        """


class VectorEnv(Protocol):
    """E environments in lockstep with next-step autoreset: every observation, final ones included,
    has its own time step.

    The arrays hold the current time step; the next ``step`` overwrites them. Where ``last`` is set,
    it ignores the action of that environment, returns reward 0 and begins a new episode.

    ``lost`` [E] bool marks environments that crashed in the last ``step``, or could not continue in
    ``load_state_dict``: their reward is 0, and an episode has started with its first observation.
    """

    spec: EnvSpec
    n_envs: int
    obs: np.ndarray  # [E, N, *O]
    avail_actions: np.ndarray  # [E, N, A] uint8
    state: np.ndarray  # [E, S] float32
    last: np.ndarray  # [E] bool
    infos: Sequence[Info]  # [E]; where last is set: {"win": bool, "metrics": {…}}
    about: Mapping[str, Any] = MappingProxyType({})  # for records: {"backend": …}
    lost: np.ndarray | None = None  # [E] bool
    unclipped: np.ndarray | None = None  # [E, R] float32: rewards of the last step, if it clipped
    frames_per_second: float | None = None  # of its videos; None: it cannot be rendered
    has_drawing: bool = False  # ``drawing`` reports positions
    other_side: OtherSide | None = None  # played by opponents, if it was made with ``two_sided``

    def reset(self, seeds: EpisodeSeeds) -> None:
        """Begin episode 0 of every environment; ``seeds(e, k)`` is the seed of episode k."""

    def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``action`` [E, N] to ``(reward [E, R] float32, terminated [E] bool)``; the arrays then
        hold the next time step.
        """

    def call(self, method: str, *args: Any) -> list[Any]:
        """Call a method of every environment."""

    @optional
    def render(self, envs: Sequence[int]) -> list[list[np.ndarray]]:
        """Images, uint8 [H, W, 3], of the last step of each of these; its last one is current."""
        raise ValueError("this environment cannot be rendered")

    @optional
    def drawing(self, e: int) -> Drawing:
        """Units and positions of an environment's current time step, if ``has_drawing``."""
        raise ValueError("this environment does not report positions")

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

    @optional
    def order_agents(self, names: Sequence[str]) -> None:
        """Give the agents this order, if these are their names. Called before the first reset."""
        return

    @optional
    def carried(self) -> StateDict:
        """The part of the state that outlives an episode, such as tasks."""
        return {}

    @optional
    def restart(self, state: StateDict) -> None:
        """Load only that part, also from another number of environments; ``reset`` follows."""
        return

    def state_dict(self) -> StateDict: ...
    def load_state_dict(self, state: StateDict) -> None: ...
    def close(self) -> None: ...


class Watch(Protocol):
    """Called at every time step of ``run_episodes``."""

    def __call__(
        self, env: VectorEnv, numbers: Sequence[int], finished: Mapping[int, Episode]
    ) -> None:
        """Called before a step.

        Args:
            numbers: the episode that each environment is in, [E].
            finished: the episodes that end at this time step, by environment.
        """

    def stepped(self, action: np.ndarray, reward: np.ndarray, terminated: np.ndarray) -> None:
        """Called after a step: action [E, N], reward [E, R], terminated [E]."""
        return


class DecisionFunction(Protocol):
    """A scripted policy's decisions by the true state, which shows where episodes begin."""

    def __call__(self) -> np.ndarray:
        """Available actions [E, N] int64 of the current time step."""

    def state_dict(self) -> StateDict: ...
    def load_state_dict(self, state: StateDict) -> None: ...


class Agents(nn.Module):
    """Per-agent action values with shared parameters."""

    hidden_dim: Annotated[int, "size of the recurrent state, 0 for feed-forward agents"]
    any_size: bool = False  # its weights fit every number of units; absent ones change nothing

    @property
    def uses_last_action(self) -> bool:
        """Whether the previous action is an input."""
        return False

    @property
    def draws_noise(self) -> bool:
        """Whether the same observation gets different values in training mode."""
        return False

    @property
    def obs_norm(self) -> Any:
        """A ``RunningNorm`` of observations, updated with all collected steps; None: none."""
        return None

    @abstractmethod
    def unroll(self, batch: Batch, start: int = 0, stop: int | None = None) -> Output:
        """The values of a window. Only time steps ``start … stop`` are used; feed-forward agents
        need not compute the others.
        """

    @abstractmethod
    def step(self, obs: Tensor, last_action: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """One time step of acting: obs [E, N, *O], last_action [E, N], hidden [E, N, H] to
        (q [E, N, A], next hidden).
        """


class Mixer(nn.Module):
    """Per-agent values to value streams. Simple mixers read only q.

    ``forward`` takes q, greedy_q and action [T, B, N] and state [T, B, S] to [T, B, M].
    """

    n_streams: Annotated[int, "M, value streams after mixing: 1, or n_agents"]
    uses_greedy: bool = True  # False: it does not read greedy_q
    any_size: bool = False  # its weights fit every number of units; absent ones change nothing
    penalty: Callable[[Tensor], Tensor] | None = None  # states [T, B, S] to [T, B], for the loss


class Critic(nn.Module):
    """Networks that only a loss uses, called by that loss alone."""

    @property
    def obs_norm(self) -> Any:
        """A ``RunningNorm`` of observations, updated with all collected steps; None: none."""
        return None


class Model(nn.Module):
    """All trained parts of an algorithm; the target network is a copy of it."""

    agents: Agents
    mixer: Mixer
    critic: Critic | None

    def __init__(self, agents: Agents, mixer: Mixer, critic: Critic | None = None) -> None:
        super().__init__()
        self.agents, self.mixer, self.critic = agents, mixer, critic


class Loss(Stateful):
    """The loss of a batch. One for a distribution of returns has the keyword ``distribution``."""

    n_step: Annotated[int, "rewards summed before the bootstrap"]
    per_agent: bool = False  # every agent's values are trained independently, without a mixer
    of_team: bool = False  # it needs one value stream of the whole team
    targets: Callable[..., Tensor] | None = None  # (online, transitions, last), all steps at once

    @property
    def acted_error(self) -> Callable[..., Tensor] | None:
        """|TD error| by the values that agents acted with; None where it needs other values."""
        return None

    @abstractmethod
    def __call__(self, online: Model, target: Model, batch: Batch, clock: Clock) -> LossResult:
        """Loss sum, count (transitions trained on × M), priority [B] and metrics."""


class Optimizer(Protocol):
    """A ``torch.optim.Optimizer``, or an object with the members that the learner uses."""

    param_groups: Annotated[list[dict[str, Any]], "where a schedule sets the learning rate"]
    state: Annotated[Any, "by parameter, its tensors; saved in checkpoints"]

    def step(self) -> Any: ...


class TargetUpdates(Stateful):
    """When and how far the target network is updated."""

    tau: Annotated[float, "1: copy; below 1: Polyak averaging with this factor"]
    done_at: Annotated[int, "the count of the last update; saved in checkpoints"]

    @abstractmethod
    def due(self, clock: Clock) -> bool: ...

    def state_dict(self) -> StateDict:
        return {"done_at": self.done_at}

    def load_state_dict(self, state: StateDict) -> None:
        self.done_at = int(state["done_at"])


class SidePolicy(Protocol):
    """Chooses the actions of one side of environments; keeps the recurrent state of every one and
    resets it after ``last``.
    """

    def act(
        self, obs: np.ndarray, avail_actions: np.ndarray, last: np.ndarray, clock: Clock
    ) -> np.ndarray:
        """obs [E, N, *O], avail_actions [E, N, A], last [E] to actions [E, N] int64."""

    def forget(self, envs: np.ndarray) -> None:
        """The environments marked in [E] bool start an episode."""

    def state_dict(self) -> StateDict: ...
    def load_state_dict(self, state: StateDict) -> None: ...

    def carry_on(self, state: StateDict) -> None:
        """Load only what outlives an episode."""


class RolloutPolicy(SidePolicy, Protocol):
    """The policy of the agents, whose steps are stored."""

    @property
    def hidden(self) -> np.ndarray:
        """[E, N, H]: the recurrent state before the coming ``act`` (a copy)."""

    @property
    def acted_values(self) -> np.ndarray:
        """[E, N, 2]: of the last ``act`` the values of its actions and of the best ones."""

    @property
    def q(self) -> np.ndarray | None:
        """[E, N, A] float32: the values of the last ``act``; None: it compares none."""

    def probability(self) -> np.ndarray:
        """[E, N]: probability of the actions that were just chosen; NaN = unknown."""

    def reset(self) -> None:
        """All environments start an episode."""


class Rollouts(Protocol):
    """A policy in environments, in this process or elsewhere."""

    about: Mapping[str, Any]  # of the environments: {"backend": …}
    seconds: np.ndarray  # [..., 2] that collecting took: acting, in the environment

    def collect(self, n_steps: int, clock: Clock) -> Steps:
        """``n_steps`` time steps of every environment."""

    def restart(self, state: StateDict, episodes: int) -> None:
        """Begin the episodes after the first ``episodes``; ``state`` is what outlives them."""

    def abandon(self, episodes: int) -> None:
        """Drop the open episodes; the next ones are those after the first ``episodes``."""

    def call(self, method: str, *args: Any) -> list[Any]: ...
    def state_dict(self) -> StateDict: ...
    def load_state_dict(self, state: StateDict) -> None: ...
    def close(self) -> None: ...


class Buffer(Protocol):
    """Stored steps, sampled as windows of T transitions."""

    n_steps: Annotated[int, "steps stored now; of episodes, transitions of finished ones"]
    full: bool = False  # old steps were removed for new ones
    keeps_hidden: bool = False  # stores the recurrent states of acting
    keeps_values: bool = False  # stores the values of acting
    per_agent: bool = False  # windows show one agent each, not the team
    unique_index: bool = False  # an index never names another window later
    targets: Any = None  # of the loss, computed for all collected steps at once

    def plan(self) -> Plan:
        """Bytes and steps that it will store, for the banner."""

    @optional
    def check(self, batch_size: int) -> None:
        """Raise ValueError if a batch could never be sampled."""

    def add(self, steps: Steps) -> None: ...

    @optional
    def finish(self) -> None:
        """Called when all stored episodes have ended and nothing may follow: a whole dataset."""

    def ready(self, batch_size: int) -> bool: ...
    def sample(self, batch_size: int, clock: Clock) -> Batch: ...

    @optional
    def update_priority(self, index: Tensor, priority: Tensor) -> None:
        """Set the priorities [B] of the windows ``index`` [B]."""

    def state_dict(self) -> StateDict: ...
    def load_state_dict(self, state: StateDict) -> None: ...

    @optional
    def saved(self, with_steps: bool) -> None:
        """Called when the newest checkpoint is complete, with or without the state."""

    @optional
    def close(self) -> None:
        """Remove files that no checkpoint refers to."""
