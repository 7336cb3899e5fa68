"""Base classes of agents, mixers and losses; protocols of environments, buffers and rollouts.

A custom part is checked against its interface once, when it is built. It may leave out members with
a default value, non-abstract methods of base classes, and ``optional`` methods of protocols.
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

Method = TypeVar("Method", bound=Callable[..., object])
EpisodeSeeds = Callable[[int, int], int]
"""Function of e and k: the seed of episode k = 0, 1, … of environment e."""


def optional(method: Method) -> Method:
    """Mark a protocol's method as optional: its body is the default."""
    vars(method)["optional"] = True
    return method


class OtherSide(Protocol):
    """The team that plays against the agents of E environments; arrays as in ``VectorEnv``."""

    spec: EnvSpec  # of this team
    same_team: bool  # equal to the agents' team, so that their policies fit
    builtin: bool  # the environment plays it where ``commanded`` is not set
    policies: str  # names of scripted policies, for messages
    equal_teams: str  # when both teams are equal, for messages: "both teams …"
    n_envs: int
    obs: np.ndarray
    avail_actions: np.ndarray
    state: np.ndarray
    action: np.ndarray  # [E, N] int64, written before every step of the environment
    commanded: np.ndarray  # [E] bool, written before an episode begins: ``action`` is used;
    # elsewhere the environment's own opponent plays, and action must be 0

    def scripted(self, name: str) -> DecisionFunction:
        """The decision function of a scripted policy of this team.

        Raises:
            ValueError: the environment has no policy of this name.
        """


class VectorEnv(Protocol):
    """E environments in lockstep with next-step autoreset: every observation, including final ones,
    has its own time step.

    The arrays hold the current time step; the next ``step`` overwrites them. Where ``last`` is set,
    ``step`` ignores the action, returns reward 0 and begins a new episode.

    ``lost`` [E] bool marks environments that crashed in the last ``step`` or could not continue in
    ``load_state_dict``: their reward is 0, and a new episode has begun.
    """

    spec: EnvSpec
    n_envs: int
    obs: np.ndarray  # [E, N, *O]
    avail_actions: np.ndarray  # [E, N, A] uint8
    state: np.ndarray  # [E, S] float32
    last: np.ndarray  # [E] bool
    infos: Sequence[Info]  # [E]; if last is set: {"win": bool, "metrics": {…}}
    about: Mapping[str, object] = MappingProxyType({})  # for records: {"backend": …}
    lost: np.ndarray | None = None  # [E] bool
    unclipped: np.ndarray | None = None  # [E, R] float32: rewards of the last step before clipping
    frames_per_second: float | None = None  # of its videos; None: cannot be rendered
    has_drawing: bool = False  # ``drawing`` is implemented
    other_side: OtherSide | None = None  # for opponents, if made with ``two_sided``

    def reset(self, seeds: EpisodeSeeds) -> None:
        """Begin episode 0 of every environment; ``seeds(e, k)`` is the seed of episode k."""

    def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``action`` [E, N] to ``(reward [E, R] float32, terminated [E] bool)``; the arrays then
        hold the next time step.
        """

    def call(self, method: str, *args: object) -> list[Any]:
        """Call a method of every environment."""

    @optional
    def render(self, envs: Sequence[int]) -> list[list[np.ndarray]]:
        """Images, uint8 [H, W, 3], of each environment's last step; the last one is current."""
        raise ValueError("this environment cannot be rendered")

    @optional
    def drawing(self, e: int) -> Drawing:
        """Units and positions of environment ``e`` at its current time step, if ``has_drawing``."""
        raise ValueError("this environment does not report positions")

    @optional
    def scripted(self, name: str) -> DecisionFunction:
        """The decision function of a scripted policy.

        Raises:
            ValueError: the environment has no policy of this name.
        """
        raise ValueError(
            f"algo.policy={name} needs battles, and this environment has none: type env=smac, or "
            "algo.policy=random, which runs in every environment."
        )

    @optional
    def order_agents(self, names: Sequence[str]) -> None:
        """Reorder the agents, if these are their names. Called before the first reset."""
        return

    @optional
    def carried(self) -> StateDict:
        """The part of the state that outlives an episode, such as tasks."""
        return {}

    @optional
    def restart(self, state: StateDict) -> None:
        """Load only that part, even from another number of environments; ``reset`` follows."""
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
            numbers: [E], the current episode of each environment.
            finished: episodes that end at this time step, by environment.
        """

    def stepped(self, action: np.ndarray, reward: np.ndarray, terminated: np.ndarray) -> None:
        """Called after a step: action [E, N], reward [E, R], terminated [E]."""
        return


class DecisionFunction(Protocol):
    """Decisions of a scripted policy, from the true state, which shows where episodes begin."""

    def __call__(self) -> np.ndarray:
        """Available actions [E, N] int64 of the current time step."""

    def state_dict(self) -> StateDict: ...
    def load_state_dict(self, state: StateDict) -> None: ...


class Agents(nn.Module):
    """Per-agent action values with shared parameters."""

    hidden_dim: Annotated[int, "size of the recurrent state, 0 for feed-forward agents"]
    any_size: bool = False  # weights fit any number of units; absent units change nothing

    @property
    def uses_last_action(self) -> bool:
        """Whether the previous action is an input."""
        return False

    @property
    def draws_noise(self) -> bool:
        """Whether values of the same observation vary in training mode."""
        return False

    @property
    def obs_norm(self) -> Any:
        """A ``RunningNorm`` of observations, updated with all collected steps, or None."""
        return None

    @abstractmethod
    def unroll(self, batch: Batch, start: int = 0, stop: int | None = None) -> Output:
        """Return the values of a window. Only time steps ``start … stop`` are used; feed-forward
        agents need not compute the others.
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
    uses_greedy: bool = True  # False: greedy_q is not read
    any_size: bool = False  # weights fit any number of units; absent units change nothing
    penalty: Callable[[Tensor], Tensor] | None = None  # states [T, B, S] to [T, B], for the loss


class Critic(nn.Module):
    """Networks that only the loss calls."""

    @property
    def obs_norm(self) -> Any:
        """A ``RunningNorm`` of observations, updated with all collected steps, or None."""
        return None


class Model(nn.Module):
    """All trained parts of an algorithm; the target network is a copy."""

    agents: Agents
    mixer: Mixer
    critic: Critic | None

    def __init__(self, agents: Agents, mixer: Mixer, critic: Critic | None = None) -> None:
        super().__init__()
        self.agents, self.mixer, self.critic = agents, mixer, critic


class Loss(Stateful):
    """The loss of a batch. Distributional losses have the keyword ``distribution``."""

    n_step: Annotated[int, "rewards summed before the bootstrap"]
    per_agent: bool = False  # each agent's values are trained independently, without a mixer
    of_team: bool = False  # needs one value stream of the whole team
    targets: Callable[..., Tensor] | None = None  # (online, transitions, last), all steps at once

    @property
    def acted_error(self) -> Callable[..., Tensor] | None:
        """|TD error| from the values computed while acting; None if it needs other values."""
        return None

    @abstractmethod
    def __call__(self, online: Model, target: Model, batch: Batch, clock: Clock) -> LossResult:
        """Loss sum, count (transitions trained on × M), priority [B] and metrics."""


class Optimizer(Protocol):
    """A ``torch.optim.Optimizer``, or an object with the members used by the learner."""

    param_groups: Annotated[list[dict[str, Any]], "where a schedule sets the learning rate"]
    state: Annotated[Any, "by parameter, its tensors; saved in checkpoints"]

    def step(self) -> object: ...


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
    """Chooses the actions of one side; keeps the recurrent state of every environment and resets it
    after ``last``.
    """

    def act(
        self, obs: np.ndarray, avail_actions: np.ndarray, last: np.ndarray, clock: Clock
    ) -> np.ndarray:
        """obs [E, N, *O], avail_actions [E, N, A], last [E] to actions [E, N] int64."""

    def forget(self, envs: np.ndarray) -> None:
        """The environments marked in ``envs`` [E] bool start an episode."""

    def state_dict(self) -> StateDict: ...
    def load_state_dict(self, state: StateDict) -> None: ...

    def carry_on(self, state: StateDict) -> None:
        """Load only the state that outlives an episode."""


class RolloutPolicy(SidePolicy, Protocol):
    """The agents' policy, whose steps are stored."""

    @property
    def hidden(self) -> np.ndarray:
        """[E, N, H]: a copy of the recurrent state before the next ``act``."""

    @property
    def acted_values(self) -> np.ndarray:
        """[E, N, 2]: values of the last ``act``'s actions and of the best actions."""

    @property
    def q(self) -> np.ndarray | None:
        """[E, N, A] float32: the values of the last ``act``; None if there are none."""

    def probability(self) -> np.ndarray:
        """[E, N]: probability of the last ``act``'s actions; NaN = unknown."""

    def reset(self) -> None:
        """All environments start an episode."""


class Rollouts(Protocol):
    """A policy in environments, in this process or elsewhere."""

    about: Mapping[str, object]  # of the environments: {"backend": …}
    seconds: np.ndarray  # [..., 2] spent collecting: acting, in the environment

    def collect(self, n_steps: int, clock: Clock) -> Steps:
        """Collect ``n_steps`` time steps of every environment."""

    def restart(self, state: StateDict, episodes: int) -> None:
        """Begin the episodes after the first ``episodes``; ``state`` outlives episodes."""

    def abandon(self, episodes: int) -> None:
        """Drop the open episodes and begin those after the first ``episodes``."""

    def call(self, method: str, *args: object) -> list[Any]: ...
    def state_dict(self) -> StateDict: ...
    def load_state_dict(self, state: StateDict) -> None: ...
    def close(self) -> None: ...


class Buffer(Protocol):
    """Stored steps, sampled as windows of T transitions."""

    n_steps: Annotated[int, "steps stored now; of episodes, transitions of finished ones"]
    full: bool = False  # new steps replace old ones
    keeps_hidden: bool = False  # stores the recurrent states of acting
    keeps_values: bool = False  # stores the values of acting
    per_agent: bool = False  # windows show one agent each, not the team
    unique_index: bool = False  # an index is never reused for another window
    targets: Any = None  # of the loss, computed for all collected steps at once

    def plan(self) -> Plan:
        """The bytes and steps that it will store, for the banner."""

    @optional
    def check(self, batch_size: int) -> None:
        """Raise ValueError if a batch could never be sampled."""

    def add(self, steps: Steps) -> None: ...

    @optional
    def finish(self) -> None:
        """Called when all stored episodes have ended and no steps follow, as with a dataset."""

    def ready(self, batch_size: int) -> bool: ...
    def sample(self, batch_size: int, clock: Clock) -> Batch: ...

    @optional
    def update_priority(self, index: Tensor, priority: Tensor) -> None:
        """Set the priorities [B] of the windows ``index`` [B]."""

    def state_dict(self) -> StateDict: ...
    def load_state_dict(self, state: StateDict) -> None: ...

    @optional
    def saved(self, with_steps: bool) -> None:
        """Called when the newest checkpoint, with or without the buffer's steps, is complete."""

    @optional
    def close(self) -> None:
        """Remove files that no checkpoint refers to."""
