"""Actor: actions for given observations, without affecting training."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from rltrain.algo.checks import available_or_all, require_memory, require_observations
from rltrain.algo.exploration.epsilon import FixedEpsilon
from rltrain.algo.exploration.interface import Exploration
from rltrain.algo.policy import Policy, own_actions, whole_mask
from rltrain.interfaces import Agents
from rltrain.types import Clock, EnvSpec, StateDict, module_device


class Actor:
    """Greedy or exploratory actions of agents whose recurrent state is passed in and returned.

    Args:
        agents: per-agent values (``Agents``).
        exploration: how values become actions if ``explore`` is set.
        rng: random generator for exploration.
        view: converts an observation of the environment to [N, *O]; None: no conversion.
    """

    def __init__(
        self,
        *,
        agents: Agents,
        exploration: Exploration,
        spec: EnvSpec,
        rng: np.random.Generator,
        view: Callable[[object], np.ndarray] | None = None,
    ) -> None:
        self.agents, self.exploration, self.spec, self.rng = agents, exploration, spec, rng
        self.view = view or np.asarray
        self.remembers = agents.hidden_dim > 0 or agents.uses_last_action or spec.frame_stack > 1

    def act(
        self,
        obs: Sequence[object],
        state: StateDict | None,
        explore: bool,
        avail_actions: object,
        clock: Clock,
    ) -> Any:
        """Return actions [X] for one agent, numbered as in the environment, or [X, N] for a team,
        numbered from 0; for agents with memory, also the state to pass to the next call.

        Args:
            obs: X observations, as the environment returns them.
            state: returned by the previous call; None when the X episodes begin.
            explore: explore as training does at ``clock``; otherwise greedy and without noise.
            avail_actions: [X, N, A], or [X, A] for one agent, or X tuples of one mask for each
                action component; None if all are available.

        Raises:
            ValueError: observations, masks or a state that do not fit.
        """
        seen, spec = self._seen(obs), self.spec  # [X, N, *O]
        n = len(seen)
        shape = (n, spec.n_agents, spec.n_actions)
        if isinstance(avail_actions, list | tuple):
            avail_actions = [whole_mask(one, spec) for one in avail_actions]
        available = available_or_all(avail_actions, shape, spec)
        policy = Policy(
            agents=self.agents,
            exploration=copy.copy(self.exploration) if explore else FixedEpsilon(epsilon=0.0),
            spec=spec,
            n_envs=n,
            rng=self.rng,
            noisy=explore,
        )
        if state is not None:
            require_memory(state, policy.memory(), spec.n_actions)
            policy.remember(state)
        device = module_device(self.agents)
        devices = [device] if device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):  # noise is drawn from torch's stream
            action = policy.act(seen, available, np.zeros(n, np.bool_), clock)
        actions = own_actions(action, spec)[:, 0] if spec.n_agents == 1 else action
        return (actions, policy.memory()) if self.remembers else actions

    def act_once(
        self,
        obs: object,
        state: StateDict | None,
        explore: bool,
        avail_actions: object,
        clock: Clock,
    ) -> Any:
        """``act`` for one observation; returns an int, or [N] for a team."""
        masks = None if avail_actions is None else [avail_actions]
        found = self.act([obs], state, explore, masks, clock)
        actions, *after = found if self.remembers else (found,)
        single = int(actions[0]) if actions.ndim == 1 else actions[0]
        return (single, *after) if after else single

    def _seen(self, obs: Sequence[object]) -> np.ndarray:
        """Convert observations of the environment to the networks' input, [X, N, *O]."""
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # inf is refused below
                views = [np.asarray(self.view(one)) for one in obs]
        except Exception as error:  # raised by an environment's own function
            raise ValueError(
                "observations: expected a list of observations as the environment returns them, "
                f"got {type(error).__name__}: {error}"
            ) from error
        if not views:
            raise ValueError("observations: expected one or more, got none.")
        shape = (self.spec.n_agents, *self.spec.obs_shape)
        return np.stack([require_observations(v, shape, self.spec.obs_dtype) for v in views])
