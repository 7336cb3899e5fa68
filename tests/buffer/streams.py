"""Random steps for the tests of buffers."""

from typing import Any

import numpy as np

from rltrain.types import EnvSpec, Steps

SPEC = EnvSpec(n_agents=2, n_actions=3, obs_shape=(4,), state_dim=5, n_rewards=2, max_steps=12)


class Stream:
    """Random steps of E environments with episodes of ``shortest`` … ``longest`` transitions;
    environments may crash.

    Final steps carry garbage actions and rewards, which no batch may show.
    """

    def __init__(
        self,
        seed: int,
        *,
        spec: EnvSpec = SPEC,
        n_envs: int = 3,
        longest: int = 12,
        shortest: int = 1,
    ):
        self.rng = np.random.default_rng(seed)
        self.spec, self.n_envs, self.lengths = spec, n_envs, (shortest, longest + 1)
        self.left = self.rng.integers(*self.lengths, n_envs)  # transitions until the final step

    def steps(self, n_steps: int, *, crash: float = 0.0) -> Steps:
        rng, spec, shape = self.rng, self.spec, (n_steps, self.n_envs)
        lost = rng.random(self.n_envs) < crash
        self.left[lost] = rng.integers(*self.lengths, int(lost.sum()))
        last = np.zeros(shape, np.bool_)
        terminated = np.zeros(shape, np.bool_)
        for t in range(n_steps):
            last[t] = self.left == 0
            terminated[t] = (self.left == 1) & (rng.random(self.n_envs) < 0.5)
            self.left -= 1
            fresh = rng.integers(*self.lengths, self.n_envs)
            self.left = np.where(last[t], fresh, self.left)
        obs = rng.integers(0, 255, (*shape, spec.n_agents, *spec.obs_shape))
        masks = rng.integers(0, 2, (*shape, spec.n_agents, spec.n_actions), np.uint8)
        masks[..., 0] |= ~masks.any(-1)
        return Steps(
            obs=obs.astype(spec.obs_dtype),
            avail_actions=masks,
            state=rng.random((*shape, spec.state_dim), np.float32),
            last=last,
            action=rng.integers(0, spec.n_actions, (*shape, spec.n_agents)),
            reward=rng.random((*shape, spec.n_rewards), np.float32),
            terminated=terminated,
            lost=lost,
        )


def saved(buffer: Any) -> dict[str, Any]:
    """A buffer's state with its pieces put together, as a checkpoint gives it back."""
    state = buffer.state_dict()
    return {k: np.asarray(v) if k.startswith("steps.") else v for k, v in state.items()}


def stack_frames(obs: np.ndarray, last: np.ndarray, n_frames: int) -> np.ndarray:
    """The last ``n_frames`` of the observations ``obs`` [T, N, *O] at every step, oldest first, the
    first of an episode repeated in front: [T, N, n_frames * O0, …]. ``last`` [T] ends episodes.
    """
    stacks = []
    for t in range(len(obs)):
        steps = [t]
        while len(steps) < n_frames:
            begins = steps[0] == 0 or last[steps[0] - 1]
            steps.insert(0, steps[0] if begins else steps[0] - 1)
        stacks.append(np.concatenate([obs[step] for step in steps], axis=1))
    return np.stack(stacks)


def add(steps: Steps, *buffers: Any) -> None:
    """Add the same steps to all buffers."""
    for buffer in buffers:
        buffer.add(steps)
