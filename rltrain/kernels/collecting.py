"""The loop of time steps of compiled environments and plain networks without tensors: values,
choice and step, one compiled call after the other.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from rltrain.algo.policy import Policy
from rltrain.errors import Containment
from rltrain.kernels.acting import normalized, obs_alone, shift_and_scale
from rltrain.kernels.layers.stack import Stack
from rltrain.kernels.module_watch import CompiledMethod, unreplaced
from rltrain.types import Clock, Episode, Steps

STEP = Containment("step")


def compiled_advance(rollout: Any) -> CompiledCollecting | None:
    """The counterpart of ``Rollout.advance`` for an environment and a policy that are compiled."""
    return CompiledCollecting(rollout) if CompiledCollecting.fits(rollout) else None


class CompiledCollecting:
    """``Rollout.advance`` up to the next end of an episode, for a rollout that ``fits`` accepts.

    Results are those of the plain methods, to the last bit. These make the steps at which episodes
    begin, those with values that are NaN, and all others while something is hooked or replaced.
    """

    def __init__(self, rollout: Any) -> None:
        self.parts = rollout.env, rollout.policy, *replaced_methods(rollout)
        self.stack = replaced_methods(rollout)[0].args[0]
        self.kinds = [type(rollout), *map(type, self.parts[:2]), type(rollout.policy.exploration)]

    @staticmethod
    def fits(rollout: Any) -> bool:
        """Whether its parts are compiled, and pass nothing but arrays."""
        values, choose = replaced_methods(rollout)
        return (
            type(rollout.policy) is Policy
            and rollout.opponents is None
            and not (rollout.keeps_hidden or rollout.keeps_values)
            and rollout.policy._frames is None
            and isinstance(choose, CompiledMethod)
            and isinstance(values, CompiledMethod)
            and isinstance(stack := values.args[0], Stack)
            and not (stack.draws_noise or stack.head)
            and obs_alone(rollout.policy.agents.input)
        )

    def __call__(
        self, rollout: Any, steps: Steps, t: int, clock: Clock, episodes: list[Episode]
    ) -> int:
        """Make time steps from ``t`` on; returns the one behind them."""
        env, policy = rollout.env, rollout.policy
        n = min(len(steps.last) - t, env.steps_to_limit)
        if n < 1 or env.last.any() or not self._computes(rollout):
            return type(rollout).advance(rollout, steps, t, clock, episodes)
        from rltrain.kernels import acting_kernel
        from rltrain.kernels.layers import stack_kernel

        stack, n_envs, first, in_env = self.stack, env.n_envs, t, 0.0
        if policy.agents.training != policy.noisy:
            policy.agents.train(policy.noisy)
        levels = stack.draw_levels(n_envs, "acting")
        network = levels, stack.parameters(), stack.shapes, stack.cut, *stack.outputs
        available = env.avail_actions.astype(bool, copy=False)
        epsilon, playing = np.full(n_envs, policy.exploration.epsilon(clock)), ~env.last
        drawn = policy.rng.random((n, 2, n_envs, 1))
        shape, seen = (n_envs, 1, -1), env.obs.reshape(n_envs, -1)
        statistics, rows = shift_and_scale(policy.agents), seen
        for number in drawn:
            steps.obs[t], action, terminated = env.obs, steps.action[t], steps.terminated[t]
            if statistics is not None:
                rows = normalized(seen, *statistics)
            q = stack_kernel.expected(rows, *network).reshape(shape)
            if not acting_kernel.choose(q, available, epsilon, number, action):
                break
            begun = time.perf_counter()
            with STEP:
                env.move(action, playing, env.obs, steps.reward[t], terminated)
            in_env += time.perf_counter() - begun
            t += 1
            if True in terminated.tolist():
                break
        if t < first + n:
            policy.rng.bit_generator.advance(-2 * n_envs * (first + n - t))
        if t == first:
            return type(rollout).advance(rollout, steps, t, clock, episodes)
        made = slice(first, t)
        steps.avail_actions[made], steps.state[made], steps.last[made] = available, env.state, False
        env.moved(t - first, steps.terminated[t - 1])
        policy.last_action[:] = steps.action[t - 1]
        policy._acted = q, available, steps.action[t - 1], clock
        rollout._returns += steps.reward[made].sum(0, dtype=np.float64)
        rollout._lengths += t - first
        rollout.seconds[-1] += in_env
        return t

    def _computes(self, rollout: Any) -> bool:
        """Whether nothing was replaced since this object was made."""
        parts = rollout.env, rollout.policy, *replaced_methods(rollout)
        same = all(x is y for x, y in zip(parts, self.parts, strict=True))
        plain = unreplaced([rollout, *parts[:2], rollout.policy.exploration], self.kinds)
        return same and plain and self.fits(rollout) and self.stack.compiles


def replaced_methods(rollout: Any) -> tuple[Any, Any]:
    """The methods of the policy and of its exploration that compiled code has replaced."""
    policy = rollout.policy
    return vars(policy).get("values"), vars(policy.exploration).get("choose")
