"""Gymnasium's CartPole, Acrobot and MountainCar, stepped in batches in machine code: observations,
rewards and terminations equal to the last bit, in a sixth of the time or less.

Episodes begin in Gymnasium's objects, which also draw images; changes of their attributes, such as
``gravity``, take effect (``set_task``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

import gymnasium
import numpy as np
from gymnasium.envs.classic_control import AcrobotEnv, CartPoleEnv, MountainCarEnv
from gymnasium.wrappers import OrderEnforcing, TimeLimit

from rltrain.common.number_types import saved_array
from rltrain.env.gymnasium import GymnasiumEnv
from rltrain.env.shown import ARRAYS, shown_arrays
from rltrain.env.vector import Env, SyncVectorEnv
from rltrain.errors import EnvError
from rltrain.types import Drawing, StateDict

log = logging.getLogger("rltrain")


class Rules(NamedTuple):
    """A compiled environment."""

    kernel: str  # of ``classic_control_kernel``
    values: Callable[[Any], Sequence[float]]  # parameters read from a Gymnasium environment
    draw: Callable[[Any, np.ndarray], Drawing]  # the drawing of a state


def cart_pole(env: Any) -> Sequence[float]:
    """The values that ``CartPoleEnv.step`` reads."""
    names = "gravity masspole total_mass length polemass_length force_mag tau x_threshold"
    numbers = [getattr(env, name) for name in names.split()]
    semi_implicit = env.kinematics_integrator != "euler"
    return [*numbers, env.theta_threshold_radians, semi_implicit, env._sutton_barto_reward]


def mountain_car(env: object) -> Sequence[float]:
    """The values that ``MountainCarEnv.step`` reads."""
    names = "min_position max_position max_speed goal_position goal_velocity force gravity"
    return [getattr(env, name) for name in names.split()]


def acrobot(env: Any) -> Sequence[float]:
    """The values that ``AcrobotEnv.step`` reads.

    Raises:
        EnvError: torque noise, which is not compiled.
    """
    if env.torque_noise_max > 0:
        raise EnvError(
            f"torque_noise_max={env.torque_noise_max} of Acrobot is not compiled: type "
            "env.compiled=false."
        )
    names = "LINK_MASS_1 LINK_MASS_2 LINK_LENGTH_1 LINK_COM_POS_1 LINK_COM_POS_2 LINK_MOI"
    numbers = [getattr(env, name) for name in names.split()]
    speeds, nips = (env.MAX_VEL_1, env.MAX_VEL_2), env.book_or_nips == "nips"
    return [env.dt, *speeds, *env.AVAIL_TORQUE, *numbers, nips, 2.0]


def draw_cart_pole(env: Any, state: np.ndarray) -> Drawing:
    """The cart, and the tip of its pole."""
    x, _, angle, _ = state.tolist()
    tip = (x + 2 * env.length * np.sin(angle), 2 * env.length * np.cos(angle))
    edge = env.x_threshold
    world = {"bounds": [-edge - 0.3, -0.6, edge + 0.3, 1.6], "lines": [[[-edge, 0], [edge, 0]]]}
    return with_rods({**world, "actions": ["left", "right"], "rate": 30}, "cart tip", [(x, 0), tip])


def draw_acrobot(env: Any, state: np.ndarray) -> Drawing:
    """The tip, the joint of the two links, and the pivot."""
    first, second = state[:2].tolist()
    joint = env.LINK_LENGTH_1 * np.array([np.sin(first), -np.cos(first)])
    tip = joint + env.LINK_LENGTH_2 * np.array([np.sin(first + second), -np.cos(first + second)])
    world = {"bounds": [-2.3, -2.3, 2.3, 2.3], "lines": [[[-2.3, 1], [2.3, 1]]], "rate": 15}
    actions = {"actions": ["torque -1", "no torque", "torque 1"]}
    return with_rods(world | actions, "tip joint base", [tuple(tip), tuple(joint), (0, 0)])


def draw_mountain_car(env: Any, state: np.ndarray) -> Drawing:
    """The car on its hill, and the flag."""
    low, high = env.min_position, env.max_position
    hill = [[x, float(env._height(x))] for x in np.linspace(low, high, 60).tolist()]
    world = {"bounds": [low - 0.1, -0.1, high + 0.1, 1.3], "lines": [hill], "rate": 30}
    actions = {"actions": ["push left", "no push", "push right"]}
    places = [(x, float(env._height(x)) + 0.04) for x in (float(state[0]), env.goal_position)]
    drawing = with_rods(world | actions, "car flag", places)
    return drawing._replace(columns={**drawing.columns, "target": np.array([-1, -1])})


def with_rods(world: dict[str, Any], names: str, places: Sequence[tuple[float, float]]) -> Drawing:
    """Units, each with a rod to the next."""
    wide = 0.02 * (world["bounds"][2] - world["bounds"][0])
    looks = [
        {"name": name, "team": 2 * (k > 0), "radius": wide, "square": name == "cart", "rod": True}
        for k, name in enumerate(names.split())
    ]
    x, y = np.array(places, np.float32).T
    target = np.array([*range(1, len(looks)), -1])
    return Drawing(world | {"whole": True}, looks, {"x": x, "y": y, "target": target})


RULES: Mapping[type, Rules] = {
    AcrobotEnv: Rules("acrobot", acrobot, draw_acrobot),
    CartPoleEnv: Rules("cart_pole", cart_pole, draw_cart_pole),
    MountainCarEnv: Rules("mountain_car", mountain_car, draw_mountain_car),
}


NAMES = "Acrobot", "CartPole", "MountainCar"
"""Their ids in Gymnasium, without versions."""


def find_rules(env: gymnasium.Env) -> Rules | None:
    """The compiled counterpart of an environment returned by ``gymnasium.make``; None if there is
    none, or it is wrapped, opens a window, or differs in any bit from the installed version.
    """
    while isinstance(env, gymnasium.Wrapper) and type(env) in (OrderEnforcing, TimeLimit):
        env = env.env
    rules = None if env.render_mode == "human" else RULES.get(type(env))
    if rules is None or agrees(env, rules):
        return rules
    log.warning("%s differs from its machine code: Gymnasium steps it.", type(env).__name__)
    return None


def agrees(env: Any, rules: Rules) -> bool:
    """Whether both make the same steps from 20 random states."""
    from rltrain.env.games import classic_control_kernel as kernels

    rng, kernel = np.random.default_rng(0), getattr(kernels, rules.kernel)
    n_actions, state = int(env.action_space.n), np.zeros((1, 4))
    obs = np.zeros((1, 1, *env.observation_space.shape), np.float32)
    reward, terminated = np.zeros(1, np.float32), np.zeros(1, np.bool_)
    for _ in range(20):
        env.reset(seed=0)
        n = len(env.state)
        env.state = state[0, :n] = rng.uniform(-0.3, 0.3, n)
        action = int(rng.integers(n_actions))
        values = np.array([rules.values(env)], float)
        kernel(values, state, np.array([[action]]), np.ones(1, np.bool_), obs, reward, terminated)
        theirs = env.step(action)[:3]
        same = obs.tobytes() == theirs[0].tobytes() and state[0, :n].tolist() == [*env.state]
        if not same or (reward[0], terminated[0]) != theirs[1:]:
            return False
    return True


class ClassicControl(SyncVectorEnv):
    """``n_envs`` environments made by ``make``, stepped together.

    Args:
        rules: the compiled counterpart.
        make: builds one environment, a ``GymnasiumEnv`` in ``RULES``.
        n_envs: environments, E.
        time_limit: as in ``SyncVectorEnv``.
    """

    def __init__(
        self,
        rules: Rules,
        *,
        make: Callable[[], Env],
        n_envs: int,
        time_limit: Literal["bootstrap", "terminal"],
    ) -> None:
        from rltrain.env.games import classic_control_kernel as kernels

        super().__init__(make=make, n_envs=n_envs, time_limit=time_limit)
        self.has_drawing = True
        self._rules: Rules = rules
        self._kernel: Callable[..., int] = getattr(kernels, rules.kernel)
        self._adapters = cast(list[GymnasiumEnv], self.envs)
        values = rules.values(self._adapters[0].env.unwrapped)
        self._values = np.zeros((n_envs, len(values)))
        self._states = np.zeros((n_envs, 4))
        self._t = np.zeros(n_envs, np.int64)  # env steps of the current episodes
        limit = self.spec.max_steps
        self._limit = np.iinfo(np.int64).max if limit is None else limit

    # twin: kernels/collecting.py
    def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``action`` [E, N] to (reward [E, R], terminated [E]); a new episode where ``last``."""
        assert self._seeds is not None, "step before reset"
        self.lost[:] = False
        playing = ~self.last
        reward, terminated = np.zeros((self.n_envs, 1), np.float32), np.empty(self.n_envs, np.bool_)
        self.move(action, playing, self.obs, reward, terminated)
        begins = np.flatnonzero(self.last)
        self.moved(playing, terminated)
        for e in begins.tolist():
            self._begin(e, int(self._episode[e]) + 1)
        return reward, terminated

    def move(
        self,
        action: np.ndarray,
        playing: np.ndarray,
        obs: np.ndarray,
        reward: np.ndarray,
        terminated: np.ndarray,
    ) -> None:
        """Step the environments that are ``playing`` [E]: fill obs [E, N, O], reward [E, 1] and
        terminated [E].
        """
        results = obs, reward[:, 0], terminated
        failed = self._kernel(self._values, self._states, action, playing, *results)
        if failed >= 0:
            env = self._adapters[failed]
            env.t = int(self._t[failed]) + 1
            happened = f"{obs[failed, 0]} after the action {action[failed, 0]}"
            error = EnvError(f"{env.where()} returned the observation {happened}.")
            raise EnvError(self._failed(failed, error))

    @property
    def steps_to_limit(self) -> int:
        """Env steps until the first of the current episodes reaches the time limit."""
        return int(self._limit - self._t.max())

    def moved(self, n: int | np.ndarray, terminated: np.ndarray) -> None:
        """Count ``n`` (or [E]) calls of ``move``; only the last one, which filled ``terminated``
        [E], ended episodes.
        """
        self._t += n
        truncated = (self._t >= self._limit) & ~self.last
        np.logical_or(terminated, truncated, out=self.last)
        if self.time_limit == "terminal":
            terminated |= truncated

    def call(self, method: str, *args: object) -> list[Any]:
        """Call a method of every environment; attributes that it sets take effect immediately."""
        if self._seeds is None:
            return super().call(method, *args)
        self._to_gymnasium(range(self.n_envs))
        results = super().call(method, *args)
        for e in range(self.n_envs):
            self._from_gymnasium(e)
        return results

    def render(self, envs: Sequence[int]) -> list[list[np.ndarray]]:
        """Images, uint8 [H, W, 3], of the environments' last step."""
        self._to_gymnasium(envs)
        return super().render(envs)

    def drawing(self, e: int) -> Drawing:
        """Units and positions of the current time step of environment e."""
        return self._rules.draw(self._adapters[e].env.unwrapped, self._states[e])

    def state_dict(self) -> StateDict:
        """All arrays, and the tasks."""
        return {
            "episode": self._episode.copy(),
            **{name: getattr(self, name).copy() for name in ARRAYS},
            "t": self._t.copy(),
            "states": self._states.copy(),
            "values": self._values.copy(),
            "began_with": list(self._tasks),
            **self.carried(),
        }

    def load_state_dict(self, state: StateDict) -> None:
        """Continue exactly, after ``reset`` with the same seeds; environments whose attributes were
        set outside a task begin their next episode.

        Raises:
            ValueError: the state was written with a different number of environments, or holds what
                no such environments have.
        """
        shown = shown_arrays(self, state)
        t = saved_array("env.t", state["t"], self._t, 0, self._limit)
        states = saved_array("env.states", state["states"], self._states)
        for e in range(self.n_envs):
            self._set_task(e, state["began_with"][e])
            self._begin(e, int(shown["episode"][e]))
        for name in ARRAYS:
            getattr(self, name)[...] = shown[name]
        self._t[:], self._states[:] = t, states
        self.lost[:] = (self._values != state["values"]).any(1)
        self._go_on(state["tasks"])

    def _begin(self, e: int, k: int) -> None:
        super()._begin(e, k)
        self._t[e] = 0
        self._from_gymnasium(e)

    def _from_gymnasium(self, e: int) -> None:
        inner: Any = self._adapters[e].env.unwrapped
        self._values[e] = self._rules.values(inner)
        self._states[e, : len(inner.state)] = inner.state

    def _to_gymnasium(self, envs: Sequence[int]) -> None:
        for e in envs:
            inner: Any = self._adapters[e].env.unwrapped
            inner.state = self._states[e, : len(inner.state)].copy()
