"""Acting: observations to actions, with what agents remember between steps."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rltrain.algo.exploration.epsilon import greedy
from rltrain.algo.exploration.interface import Exploration
from rltrain.algo.own_checks import require_actions, require_probabilities
from rltrain.common.number_types import saved_array, saved_form
from rltrain.common.spec_record import action_parts, by_component, combined
from rltrain.errors import DivergedError
from rltrain.interfaces import Agents
from rltrain.types import Clock, EnvSpec, StateDict, module_device


class Policy:
    """Actions in E environments in lockstep; carries what agents remember between steps.

    Args:
        agents: per-agent values (``Agents``).
        exploration: how values become actions.
        spec: sizes.
        n_envs: E.
        rng: this policy's own stream.
        noisy: agents act in training mode: noise and quantile levels are drawn; off in tests.
    """

    def __init__(
        self,
        *,
        agents: Agents,
        exploration: Exploration,
        spec: EnvSpec,
        n_envs: int,
        rng: np.random.Generator,
        noisy: bool = True,
    ) -> None:
        self.agents, self.noisy = agents, noisy
        self.exploration, self.rng = exploration, rng
        self._shipped = type(exploration).__module__.startswith("rltrain.")
        self._device = module_device(agents)
        self._n_actions, shape = spec.n_actions, (n_envs, spec.n_agents)
        self._hidden = torch.zeros(*shape, agents.hidden_dim, device=self._device)
        self.last_action = np.full(shape, -1, np.int64)  # [E, N]
        self._frames = Frames(spec, n_envs) if spec.frame_stack > 1 else None
        self._acted: tuple[np.ndarray, np.ndarray, np.ndarray, Clock] | None = None

    # twin: kernels/collecting.py
    def act(
        self, obs: np.ndarray, avail_actions: np.ndarray, last: np.ndarray, clock: Clock
    ) -> np.ndarray:
        """Actions of one step; where ``last`` is set they mean nothing, a new episode begins next.

        Args:
            obs: [E, N, *O].
            avail_actions: [E, N, A], non-zero = may be chosen.
            last: [E] bool.
            clock: read by the exploration.

        Returns:
            [E, N] int64

        Raises:
            DivergedError: a value is NaN.
            ValueError: an exploration of one's own chose something else.
        """
        available = avail_actions.astype(bool, copy=False)
        if self._frames is not None:
            obs = self._frames.push(obs)
        noise = self.exploration.noise()
        agents = self.agents if noise is None else noise.perturbed(self.agents, self.rng)
        hidden = self._hidden
        q, self._hidden = self.values(agents, obs, hidden)
        if math.isnan(q.max()):
            raise DivergedError(
                "The agents' values are NaN, so no action can be chosen. Look at learn/grad_norm, "
                "and lower algo.optimizer.lr."
            )
        action = self.exploration.choose(q, available, clock, self.rng)
        if not self._shipped:
            require_actions(self.exploration, action, available)
        self._acted = q, available, action, clock
        if noise is not None:
            clean, _ = self.values(self.agents, obs, hidden)
            noise.compare(clean[~last], q[~last], available[~last])
            if last[0]:
                noise.draw(self.agents, clock, self.rng)
        self.last_action[:] = action
        if last.any():
            self.forget(last)
        return action

    @property
    def acted_values(self) -> np.ndarray:
        """[E, N, 2] float32: the values of the actions of the last ``act``, and of the best
        available ones, as the agents gave them.
        """
        assert self._acted is not None, "nothing was chosen yet"
        q, available, action, _ = self._acted
        both = np.stack([action, greedy(q, available)], -1)
        return np.take_along_axis(q, both, -1).astype(np.float32, copy=False)

    @property
    def q(self) -> np.ndarray:
        """[E, N, A] float32: the values of the last ``act``."""
        assert self._acted is not None, "nothing was chosen yet"
        return self._acted[0].astype(np.float32, copy=False)

    def probability(self) -> np.ndarray:
        """[E, N]: how likely the last ``act`` was to choose what it chose; NaN where agents draw
        noise of their own, whose share is unknown.
        """
        assert self._acted is not None, "nothing was chosen yet"
        q, available, action, clock = self._acted
        if self.noisy and self.agents.draws_noise:
            return np.full(action.shape, np.nan)
        given = self.exploration.probability(q, available, action, clock)
        return require_probabilities(self.exploration, given, action, available)

    # twin: kernels/acting.py
    def values(self, agents: Agents, obs: np.ndarray, hidden: Tensor) -> tuple[np.ndarray, Tensor]:
        """The values [E, N, A] of observations [E, N, *O], and the next hidden state."""
        if agents.training != self.noisy:  # a learner or a test came in between
            agents.train(self.noisy)
        with torch.inference_mode():
            q, after = agents.step(
                self._tensor(obs).float(), self._tensor(self.last_action), hidden
            )
            return q.cpu().numpy(), after

    # twin: kernels/acting.py
    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self._device)

    @property
    def hidden(self) -> np.ndarray:
        """[E, N, H]: the recurrent state before the coming ``act`` (a copy)."""
        return self._hidden.cpu().numpy().copy()

    def forget(self, envs: np.ndarray) -> None:
        """Forget some environments ([E] bool, or their numbers): a new episode begins there."""
        with torch.inference_mode():
            self._hidden[self._tensor(np.asarray(envs))] = 0
        self.last_action[envs] = -1
        if self._frames is not None:
            self._frames.fresh[envs] = True

    def reset(self) -> None:
        """Forget every environment."""
        self.forget(np.ones(len(self.last_action), bool))

    def memory(self) -> StateDict:
        """Copies of the state that is carried between steps."""
        state: StateDict = {
            "hidden": torch.from_numpy(self.hidden),
            "last_action": torch.from_numpy(self.last_action.copy()),
        }
        if self._frames is not None:
            state["frames"] = self._frames.state_dict()
        return state

    def remember(self, state: StateDict) -> None:
        """Continue from what ``memory`` returned."""
        self._hidden = state["hidden"].to(self._device, copy=True)
        self.last_action = state["last_action"].numpy().copy()
        if self._frames is not None:
            self._frames.load_state_dict(state["frames"])

    def state_dict(self) -> StateDict:
        """The state that is carried between steps, and that of the random stream."""
        rng = self.rng.bit_generator.state
        return {**self.memory(), "rng": rng, "exploration": self.exploration.state_dict()}

    def load_state_dict(self, state: StateDict) -> None:
        """Restore what ``state_dict`` returned; ValueError for what no agents remember."""
        saved_array("policy.hidden", state["hidden"], self.hidden)
        limits = -1, self._n_actions - 1
        saved_array("policy.last_action", state["last_action"], self.last_action, *limits)
        self.remember(state)
        self.carry_on(state)

    def carry_on(self, state: StateDict) -> None:
        """Restore only what outlives an episode, whatever the number of environments: the random
        stream, and what the exploration adapts."""
        self.rng.bit_generator.state = state["rng"]
        if state.get("exploration"):
            self.exploration.load_state_dict(state["exploration"])


class Frames:
    """The last ``frame_stack`` observations of every environment, oldest first; an episode's first
    one fills the places before it.
    """

    def __init__(self, spec: EnvSpec, n_envs: int) -> None:
        shape = (n_envs, spec.n_agents, spec.frame_stack, *spec.obs_shape)
        self.frames = np.zeros(shape, spec.obs_dtype)
        self.fresh = np.ones(n_envs, bool)  # [E] no observation of this episode yet

    def push(self, obs: np.ndarray) -> np.ndarray:
        """obs [E, N, *O] to [E, N, frame_stack * O0, …]."""
        self.frames[:, :, :-1] = self.frames[:, :, 1:]
        self.frames[:, :, -1] = obs
        if self.fresh.any():
            self.frames[self.fresh] = obs[self.fresh][:, :, None]
            self.fresh[:] = False
        shape = self.frames.shape
        return self.frames.reshape(*shape[:2], shape[2] * shape[3], *shape[4:])

    def state_dict(self) -> StateDict:
        return {"frames": self.frames.copy(), "fresh": self.fresh.copy()}

    def load_state_dict(self, state: StateDict) -> None:
        self.frames[:] = saved_form("policy.frames", state["frames"], self.frames)
        self.fresh[:] = saved_form("policy.fresh", state["fresh"], self.fresh)


def own_actions(action: np.ndarray, spec: EnvSpec) -> np.ndarray:
    """``action`` [..., N] to the environment's own numbers [..., N], or, where they are
    combinations, to their components [..., N, K]; of a team whose agents' actions have different
    forms to an array of objects [N].
    """
    if spec.agents is not None:
        own = [
            to_components(
                action[..., i],
                action_parts(space),
                space.get("dtype", "int64"),
                single="discrete" in space,
            )
            for i, (*_, space) in enumerate(spec.agents)
        ]
        if len({(one.shape, one.dtype) for one in own}) == 1:
            return np.stack(own, axis=action.ndim - 1)
        mixed = np.empty(len(own), object)
        mixed[:] = own
        return mixed
    if spec.action_components is None:
        return action + spec.first_action
    return to_components(action, spec.action_components, spec.action_dtype)


def to_components(
    action: np.ndarray, parts: Sequence[tuple[int, int]], dtype: str, *, single: bool = False
) -> np.ndarray:
    """Numbers of combinations [...] to their components [..., K].

    Args:
        parts: number of values and first value of each.
        dtype: of the components.
        single: they are not combinations: return [...].
    """
    sizes, firsts = zip(*parts, strict=True)
    own = (np.stack(np.unravel_index(action, sizes), axis=-1) + np.array(firsts)).astype(dtype)
    return own[..., 0] if single else own


def whole_mask(given: object, spec: EnvSpec) -> object:
    """The mask of an agent's combined actions for Gymnasium's tuple of one mask for each component;
    anything else as it is.

    Raises:
        ValueError: masks that do not fit the components.
    """
    if spec.action_components is None or not by_component(given):
        return given
    sizes = [n for n, _ in spec.action_components]
    mask = combined(given, sizes)
    if mask is None:
        raise ValueError(
            f"avail_actions: expected a mask of 0 and 1 for each component, of {sizes} values, got "
            f"{given}."
        )
    return mask
