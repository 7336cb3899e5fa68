"""Actor: actions for observations from anywhere, beside a run and without touching it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from rltrain.algo.exploration import Exploration, FixedEpsilon
from rltrain.algo.policy import Policy
from rltrain.interfaces import Agents
from rltrain.types import Clock, EnvSpec


class Actor:
    """Greedy or exploring actions of given agents; what they remember goes in and comes out.

    Args:
        agents: per-agent values (``Agents``), noise and all.
        exploration: how values become actions where ``explore`` is asked for.
        rng: a stream of its own for that.
        view: from an observation as the environment gives it to [N, *O]; None: it is so already.
        first_action: the environment's number of action 0.
    """

    def __init__(
        self,
        *,
        agents: nn.Module,
        exploration: Exploration,
        spec: EnvSpec,
        rng: np.random.Generator,
        view: Callable[[Any], np.ndarray] | None = None,
        first_action: int = 0,
    ) -> None:
        self.agents, self.exploration, self.spec, self.rng = agents, exploration, spec, rng
        self.view, self.first_action = view or np.asarray, first_action
        last_action = getattr(getattr(agents, "input", None), "last_action", False)
        recurrent = cast(Agents, agents).hidden_dim > 0
        self.remembers = recurrent or last_action or spec.frame_stack > 1

    def act(
        self,
        obs: Sequence[Any],
        state: dict[str, Any] | None,
        explore: bool,
        avail_actions: np.ndarray | None,
        clock: Clock,
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Actions [X, N], as the environment numbers them, and what to hand back next time.

        Args:
            obs: X observations.
            state: what the last call gave; None where X episodes begin.
            explore: draw as training does at ``clock``; otherwise greedy and without noise.
            avail_actions: [X, N, A]; None: all.

        Raises:
            ValueError: observations, masks or a state that do not fit.
        """
        if len(obs) == 0:
            raise ValueError("expected observations, got none.")
        seen = np.stack([np.asarray(self.view(one)) for one in obs])  # [X, N, *O]
        n, spec = len(seen), self.spec
        wanted = (n, spec.n_agents, *spec.obs_shape)
        if seen.shape != wanted:
            raise ValueError(f"expected observations {wanted[1:]}, got {seen.shape[1:]}.")
        if not np.isfinite(seen).all():
            raise ValueError("expected observations of finite numbers, got NaN or infinity.")
        if avail_actions is None:
            avail_actions = np.ones((n, spec.n_agents, spec.n_actions), np.uint8)
        available = np.asarray(avail_actions)
        if available.size != n * spec.n_agents * spec.n_actions:
            wanted = (n, spec.n_agents, spec.n_actions)
            raise ValueError(f"expected avail_actions {wanted}, got {available.shape}.")
        available = available.reshape(n, spec.n_agents, spec.n_actions)
        if not available.any(-1).all():
            raise ValueError("expected an available action for everybody, got masks of zeros only.")
        policy = Policy(
            agents=self.agents,
            exploration=copy.copy(self.exploration) if explore else FixedEpsilon(epsilon=0.0),
            spec=spec,
            n_envs=n,
            rng=self.rng,
            noisy=explore,
        )
        if state is not None:
            if not {"hidden", "last_action"} <= set(state):
                raise ValueError("expected the state that the last call gave back.")
            if len(state["last_action"]) != n:
                raise ValueError(
                    f"the state belongs to {len(state['last_action'])} observations, got {n}."
                )
            policy.remember(state)
        with torch.random.fork_rng(devices=self._devices()):  # noise is drawn from torch's stream
            action = policy.act(
                seen.astype(spec.obs_dtype, copy=False), available, np.zeros(n, np.bool_), clock
            )
        return action + self.first_action, policy.memory()

    def explores_until(self) -> int | None:
        """The env step at which training's exploration stops changing; None if it never does."""
        return self.exploration.ends_at()

    def _devices(self) -> list[torch.device]:
        device = next(self.agents.parameters()).device
        return [device] if device.type == "cuda" else []
