"""SyncVectorEnv: E Python environments in lockstep, as a ``VectorEnv``.

To add an environment, write an ``Env``; this module handles seeds and resets.
"""

from __future__ import annotations

import itertools
import logging
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from rltrain.common.conformance import conform
from rltrain.common.failures import close_all, closed_on_error
from rltrain.common.machine.streams import warnings_once
from rltrain.common.spec_record import changes, require_spec
from rltrain.env.shown import ARRAYS, Teams, checked_drawing, checked_images, shown_arrays
from rltrain.errors import Containment, EnvError, reason
from rltrain.interfaces import EpisodeSeeds, VectorEnv, optional
from rltrain.types import Drawing, EnvSpec, Info, StateDict

log = logging.getLogger("rltrain")

LOST = (
    "The environments {} do not repeat their open episodes from the same seeds and actions, and "
    "cannot save their state: these episodes are dropped and restarted, so the run continues, but "
    "not number for number as it would have without the interruption."
)


class Observation(NamedTuple):
    """One observation of one environment."""

    obs: np.ndarray  # [N, *O]
    avail_actions: np.ndarray  # [N, A] 0 or 1; at least one per agent
    state: np.ndarray  # [S]


class Env(Protocol):
    """One environment. ``reset`` must seed all its randomness.

    A final observation is an ``Observation`` like any other; ``reset`` follows it. Attributes with
    a value and ``optional`` methods may be left out.
    """

    spec: EnvSpec
    task: Any = None  # plain values; None: the original task
    frames_per_second: float | None = None  # of its videos; None: cannot be rendered
    has_drawing: bool = False
    seed_bits: int = 63  # of the seed that ``reset`` uses

    def reset(self, seed: int) -> Observation:
        """Begin the episode determined by ``seed`` (63 bits)."""

    def step(self, action: np.ndarray) -> tuple[Observation, np.ndarray, bool, bool, Info]:
        """``action`` [N] int64 to (next observation, reward [R], terminated, truncated, info).

        ``info`` is read at the end of an episode: {"win": bool, "metrics": {name: number}}, both
        optional; plain values.
        """

    def close(self) -> None: ...

    @optional
    def set_task(self, task: object) -> None:
        """Change the task from the next episode on."""
        raise AttributeError(f"{type(self).__name__} has no method set_task")

    @optional
    def call(self, method: str, *args: object) -> Any:
        """Call a method of the environment, or of the environment it wraps."""
        return getattr(self, method)(*args)

    @optional
    def order_agents(self, names: Sequence[str]) -> None:
        """Reorder the agents, if these are their names."""
        return

    @optional
    def render(self) -> np.ndarray | Sequence[np.ndarray]:
        """One or several images, uint8 [H, W, 3], of the last step."""
        raise ValueError(f"{type(self).__name__} cannot be rendered.")

    @optional
    def drawing(self) -> Drawing:
        """Units and positions of the current time step, if ``has_drawing``."""
        raise ValueError(f"{type(self).__name__} does not report positions.")

    @optional
    def state_dict(self) -> StateDict | None:
        """The state as plain values and arrays, even within an episode; None if there is none."""
        return None

    @optional
    def load_state_dict(self, state: StateDict) -> None:
        """Continue exactly from what ``state_dict`` returned."""
        return


class SyncVectorEnv(VectorEnv):
    """``n_envs`` environments made by ``make``, stepped in sequence.

    Args:
        make: builds one environment.
        n_envs: environments, E.
        time_limit: ``bootstrap``: a truncated episode has ``last`` without ``terminated``;
            ``terminal``: it counts as terminated.
        reward_clip: rewards are clipped to ± this; None = no clipping.
    """

    def __init__(
        self,
        *,
        make: Callable[[], Env],
        n_envs: int,
        time_limit: Literal["bootstrap", "terminal"] = "bootstrap",
        reward_clip: float | None = None,
    ) -> None:
        self._make = lambda: conform(make(), Env, "env")
        self.envs: list[Env] = []
        with warnings_once(), closed_on_error("an environment", self.envs):
            self.envs += (self._make() for _ in range(n_envs))  # each as soon as it is made
            self.spec = spec = self.envs[0].spec
            require_spec(spec, f"{type(self.envs[0]).__name__}.spec (env)")
            for env in self.envs[1:]:
                env.order_agents([str(name) for name, *_ in spec.agents or ()])
                if env.spec != spec and (changed := changes(env.spec.record, spec.record)):
                    raise ValueError(
                        f"Environments of one run have different spaces ({changed} in the first "
                        "one): expected the same in all. Their constructor must not draw them."
                    )
        self.n_envs, self.time_limit, self.reward_clip = n_envs, time_limit, reward_clip
        self.lost: np.ndarray = np.zeros(n_envs, np.bool_)  # only after load_state_dict
        self.frames_per_second = self.envs[0].frames_per_second
        self.has_drawing = self.envs[0].has_drawing
        self._make_arrays()
        self.n_acting = spec.n_agents  # agents whose actions an ``Env.step`` takes
        self.teams: Teams = [(spec.n_agents, 0, spec.n_actions - 1)]
        self.infos: list[Info] = [{} for _ in range(n_envs)]
        self._episode = np.zeros(n_envs, np.int64)  # k of each environment's current episode
        self._actions = [array("q") for _ in range(n_envs)]  # of this episode, [T * N]
        self._tasks: list[object] = [None] * n_envs  # at the start of this episode
        self._seeds: EpisodeSeeds | None = None

    def _make_arrays(self) -> None:
        """Create the arrays of the interface, for ``spec``."""
        n_envs, spec = self.n_envs, self.spec
        self.obs = np.zeros((n_envs, spec.n_agents, *spec.obs_shape), spec.obs_dtype)
        self.avail_actions = np.zeros((n_envs, spec.n_agents, spec.n_actions), np.uint8)
        self.state = np.zeros((n_envs, spec.state_dim), np.float32)
        self.last = np.zeros(n_envs, np.bool_)
        self._shapes = tuple(x.shape[1:] for x in (self.obs, self.avail_actions, self.state))

    def order_agents(self, names: Sequence[str]) -> None:
        """Reorder the agents in every environment."""
        for env in self.envs:
            env.order_agents(names)
        self.spec = self.envs[0].spec
        self._make_arrays()

    def reset(self, seeds: EpisodeSeeds) -> None:
        """Start episode 0 of every environment; episode k of environment e is seeded with
        ``seeds(e, k)``.
        """
        self._seeds = seeds
        for e in range(self.n_envs):
            self._begin(e, 0)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``action`` [E, N] to (reward [E, R], terminated [E]); a new episode where ``last``."""
        assert self._seeds is not None, "step before reset"
        self.lost[:] = False
        reward = np.zeros((self.n_envs, self.spec.n_rewards), np.float32)
        terminated = np.zeros(self.n_envs, np.bool_)
        terminal = self.time_limit == "terminal"
        for e, (env, taken, last) in enumerate(
            zip(self.envs, action.astype(np.int64), self.last.tolist(), strict=True)
        ):
            if last:
                self._begin(e, int(self._episode[e]) + 1)
                continue
            self._actions[e].frombytes(taken.tobytes())
            try:
                observation, reward[e], ended, cut_off, info = env.step(taken)
                self._show(e, observation, last=ended or cut_off, info=info)
            except BaseException:
                with Containment(message=partial(self._failed, e)):
                    raise
            if ended or (cut_off and terminal):
                terminated[e] = True
        if self.reward_clip is not None:
            self.unclipped, reward = reward, reward.clip(-self.reward_clip, self.reward_clip)
        return reward, terminated

    def call(self, method: str, *args: object) -> list[Any]:
        """Call a method of every environment."""
        return [env.call(method, *args) for env in self.envs]

    def render(self, envs: Sequence[int]) -> list[list[np.ndarray]]:
        """Images, uint8 [H, W, 3], of the environments' last step."""
        with Containment("render"):
            return [checked_images(self.envs[e].render()) for e in envs]

    def drawing(self, e: int) -> Drawing:
        """Units and positions of the current time step of environment e."""
        with Containment("drawing"):
            return checked_drawing(self.envs[e].drawing())

    def state_dict(self) -> StateDict:
        """The arrays, the states of environments that have one, and the actions of the current
        episode for all others.
        """
        states = [env.state_dict() for env in self.envs]
        actions = [
            np.array(taken).reshape(-1, self.n_acting) if state is None else None
            for taken, state in zip(self._actions, states, strict=True)
        ]
        return {
            "episode": self._episode.copy(),
            **{name: getattr(self, name).copy() for name in ARRAYS},
            "infos": [dict(info) for info in self.infos],
            "envs": states,
            "actions": actions,
            "began_with": list(self._tasks),
            **self.carried(),
        }

    def load_state_dict(self, state: StateDict) -> None:
        """Continue, after ``reset``. An environment without a state repeats the actions of its
        episode; if that fails or leads to another observation, it begins its next episode, and
        ``lost`` is set.

        Raises:
            ValueError: the state is of other environments, or holds what none has.
        """
        shown = shown_arrays(self, state, self.teams)
        for e in range(self.n_envs):
            if state["envs"][e] is None:
                self.lost[e] = not self._repeat(e, state)
                continue
            self._tasks[e] = state["began_with"][e]
            self._set_task(e, self._tasks[e])
            self.envs[e].load_state_dict(state["envs"][e])
            self._episode[e] = shown["episode"][e]
            for name in ARRAYS:
                getattr(self, name)[e] = shown[name][e]
            self.infos[e] = dict(state["infos"][e])
        self._go_on(state["tasks"])

    def carried(self) -> StateDict:
        """The tasks."""
        return {"tasks": [env.task for env in self.envs]}

    def restart(self, state: StateDict) -> None:
        """Load only the tasks, from the next episode on."""
        for e, task in zip(range(self.n_envs), itertools.cycle(state["tasks"])):
            self._set_task(e, task)

    def close(self) -> None:
        """Close every environment."""
        close_all("an environment", self.envs)

    def _go_on(self, tasks: Sequence[object]) -> None:
        """Set the tasks of the next episodes, and begin and log those in place of ``lost`` ones."""
        for env, task in zip(self.envs, tasks, strict=True):
            if task is not None:
                env.set_task(task)
        for e in np.flatnonzero(self.lost).tolist():
            self._begin(e, int(self._episode[e]) + 1)
        if self.lost.any():
            first = getattr(self._seeds, "first", 0)
            log.warning("%s", LOST.format((first + np.flatnonzero(self.lost)).tolist()))

    def _repeat(self, e: int, state: StateDict) -> bool:
        """Repeat the saved episode of environment e with its seed and actions; return whether that
        leads to the same observation.
        """
        self._set_task(e, state["began_with"][e])
        actions, n_taken = state["actions"][e].copy(), 0
        try:
            self._begin(e, int(state["episode"][e]))
            while n_taken < len(actions) and not self.last[e]:
                with Containment("step"):
                    observation, _, ended, cut_off, info = self.envs[e].step(actions[n_taken])
                    self._show(e, observation, last=ended or cut_off, info=info)
                n_taken += 1
        except EnvError:  # not raised the first time
            n_taken = -1
        self._actions[e].frombytes(state["actions"][e].tobytes())
        return n_taken == len(actions) and all(
            np.array_equal(getattr(self, name)[e], state[name][e]) for name in ARRAYS
        )

    def _set_task(self, e: int, task: object) -> None:
        """Set a saved task in an environment that was given no other one."""
        if self.envs[e].task is not None:
            close_all("an environment", [self.envs[e]])
            self.envs[e] = self._make()
            self.envs[e].order_agents([str(name) for name, *_ in self.spec.agents or ()])
            self.envs[e].reset(0)
        if task is not None:
            self.envs[e].set_task(task)

    def _begin(self, e: int, k: int) -> None:
        assert self._seeds is not None, "an episode before reset"
        self._episode[e], self._actions[e] = k, array("q")
        self._tasks[e] = self.envs[e].task
        with Containment(message=partial(self._failed, e)):
            observation = self.envs[e].reset(self._seeds(e, k))
            self._show(e, observation, last=False, info={})

    def _failed(self, e: int, error: BaseException) -> str:
        """Name the failed environment; errors of rltrain's adapters add the details."""
        assert self._seeds is not None
        number = getattr(self._seeds, "first", 0) + e  # in the run
        if isinstance(error, EnvError):
            return f"Environment {number}: {error}"
        seed = self._seeds(e, int(self._episode[e])) % 2 ** self.envs[e].seed_bits
        return f"Environment {number} in the episode with seed {seed}: {reason(error)}"

    def _show(self, e: int, observation: Observation, *, last: bool, info: Info) -> None:
        shapes = tuple(array.shape for array in observation)
        if shapes != self._shapes:
            step = len(self._actions[e]) // self.n_acting
            raise ValueError(
                f"obs, avail_actions and state of step {step} have the shapes {shapes}: expected "
                f"{self._shapes}."
            )
        self.obs[e], self.avail_actions[e] = observation.obs, observation.avail_actions
        if self.spec.state_dim:
            self.state[e] = observation.state
        self.last[e], self.infos[e] = last, info


def require_separate(vectors: Sequence[VectorEnv]) -> None:
    """Refuse environments that share an object, since a step of one would step the other.

    Raises:
        ValueError: two of them are the same object.
    """
    made: dict[int, Any] = {}
    for vector in vectors:
        envs = vector.envs if isinstance(vector, SyncVectorEnv) else [vector]
        for env in envs:
            below: Any = getattr(env, "env", env) if env is not vector else env
            own = getattr(below, "unwrapped", below)
            if id(own) in made:
                name = type(own).__name__
                raise ValueError(
                    f"The environment factory returned the same {name} in two calls: expected "
                    "another object each time, since all environments of training and tests are in "
                    f"episodes of their own. Pass the class, or lambda: {name}(...), which "
                    "makes a new one at every call."
                )
            made[id(own)] = own
