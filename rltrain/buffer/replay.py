"""ReplayBuffer: the newest steps of every environment, sampled as windows of T transitions.

The learned transitions of a window begin at any step with T successors and required predecessors. A
window belongs to one episode. Its burn-in precedes that step and is shorter near the start of the
episode: otherwise the first transitions of episodes would never be learned.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from rich.filesize import decimal
from torch import Tensor

from rltrain.buffer.fields import Precision, n_bytes, step_fields
from rltrain.buffer.place import Place
from rltrain.buffer.priorities import (
    ActedError,
    ActedPriorities,
    WindowSampling,
    new_priorities,
)
from rltrain.buffer.step_check import StepCheck, require_total
from rltrain.buffer.store import BLOCK
from rltrain.buffer.windows import WindowStarts, look_back, read_windows
from rltrain.common.keywords import flat_keywords
from rltrain.common.number_types import MOST_COUNTED, Count, Whole, require_range, saved_array
from rltrain.errors import require_n_envs
from rltrain.types import Batch, Clock, EnvSpec, Plan, StateDict, Steps


class ReplayBuffer:
    """The newest ``capacity`` steps of all environments together, including final steps.

    Args:
        spec, n_envs: sizes, and environments E.
        device, rng: device of the batches; draws the windows.
        n_step: rewards summed by the loss; a window has ``burn_in + sequence_length + n_step - 1``
            transitions.
        hidden_dim: H of the agents, 0 without recurrent states.
        total_env_steps: length of the run.
        capacity: maximum number of stored steps.
        place: the fields of ``Place``.
        precision: how observations and states are stored; uint8 observations stay uint8.
        sampling: the fields of ``WindowSampling``.
        acted_error: absolute TD errors from the values while acting, ``Loss.acted_error``.
        sequence_length: learned transitions per window.
        burn_in: preceding transitions that only warm up the recurrent state (R2D2; Kapturowski et
            al., 2019), fewer near the start of an episode.
        first_hidden: initial recurrent state of a window: ``zero``, or ``stored`` while acting.
        agents: ``lockstep``: a window shows the whole team; ``independent``: one agent.

    Raises:
        ValueError: too little memory or capacity, or ``agents`` does not fit the rewards.
    """

    @flat_keywords
    def __init__(
        self,
        *,
        spec: EnvSpec,
        n_envs: int,
        device: torch.device,
        rng: np.random.Generator,
        n_step: int,
        hidden_dim: int,
        total_env_steps: int,
        capacity: Count,
        place: Place,
        precision: Precision,
        sampling: WindowSampling,
        sequence_length: Count,
        burn_in: Whole,
        first_hidden: Literal["zero", "stored"],
        agents: Literal["lockstep", "independent"],
        acted_error: ActedError | None = None,
    ) -> None:
        self.spec, self.n_envs, self.device, self.rng = spec, n_envs, device, rng
        self.capacity, self.burn_in, self.n_step = capacity, burn_in, n_step
        self.eta = sampling.eta
        self.length = burn_in + sequence_length + n_step - 1  # T
        self.steps_per_env = -(-capacity // n_envs)
        n_agents = 1 if agents == "lockstep" else spec.n_agents
        if n_agents > 1 and spec.n_rewards not in (1, spec.n_agents):
            raise ValueError("buffer.agents=independent needs one reward, or one per agent.")
        self.per_agent = n_agents > 1
        if sampling.initial_priority == "max":
            acted_error = None
        self.keeps_hidden = hidden_dim > 0 and first_hidden == "stored"
        self.keeps_values = acted_error is not None
        stored_dim = hidden_dim if self.keeps_hidden else 0
        fields = step_fields(spec, precision, stored_dim, self.keeps_values)
        self._step_check = StepCheck(spec, n_envs, fields)
        step_bytes = n_bytes(fields) * place.copies
        n_blocks = n_envs * (self.steps_per_env // BLOCK + 3)
        self._place = place
        needed = n_blocks * BLOCK * step_bytes
        if needed > place.cap:
            fits = (place.cap // step_bytes // n_envs - 3 * BLOCK) * n_envs
            smaller = f"set buffer.capacity={fits} or less, or" if fits > 0 else "set"
            raise ValueError(
                f"The buffer needs {decimal(needed, precision=2)} for buffer.capacity={capacity} "
                f"steps ({step_bytes} bytes each), but may use {decimal(place.cap, precision=2)}: "
                f"{smaller} buffer.max_bytes={needed} or more."
            )
        place.require_free(needed, capacity)
        looks_back = max(spec.frame_stack - 1, 1)
        least = self.length + looks_back + 2  # two starts, at most one of them final
        if self.steps_per_env < least:
            raise ValueError(
                f"buffer.capacity={capacity} steps over {n_envs} environments cannot hold one "
                f"window of {self.length} transitions in each: set buffer.capacity="
                f"{least * n_envs} or more."
            )
        self.store = place.store(
            spec=spec, n_envs=n_envs, n_blocks=n_blocks, fields=fields, device=device
        )
        learned = {"n_learned": sequence_length, "n_step": n_step, "n_agents": n_agents}
        self.starts = WindowStarts(
            self.store,
            length=self.length,
            looks_back=looks_back,
            steps_per_env=self.steps_per_env,
            n_agents=n_agents,
            priorities=sampling.priorities(total_env_steps),
            initial=acted_error
            and ActedPriorities(self.store, acted_error, eta=sampling.eta, **learned),
        )
        self._open = np.zeros(n_envs, np.int64)  # [E] first step of the open episode

    @property
    def n_steps(self) -> int:
        """Number of stored steps."""
        return int((self.store.end - self.store.begin).sum())

    @property
    def full(self) -> bool:
        """Whether new steps replace old ones."""
        return bool((self.store.begin > 0).any())

    def plan(self) -> Plan:
        """Sizes for the banner."""
        n_bytes = self.store.n_blocks * BLOCK * self.store.bytes_per_step * self._place.copies
        return Plan(
            bytes_per_step=self.store.bytes_per_step,
            worst_case_bytes=n_bytes,
            cap_bytes=n_bytes,
            capacity=self.capacity,
            steps=self.capacity,
            folder=self._place.path,
        )

    def check(self, batch_size: int) -> None:
        """Refuse a batch of more windows than stored steps, which would repeat windows.

        Raises:
            ValueError: states what to type.
        """
        if batch_size > self.capacity:
            raise ValueError(
                f"algo.batch_size={batch_size} windows are more than buffer.capacity="
                f"{self.capacity} steps: every batch would repeat them. Type algo.batch_size="
                f"{self.capacity} or less, or buffer.capacity={batch_size} or more."
            )

    def add(self, steps: Steps) -> None:
        """Store T steps of all E environments.

        Raises:
            ValueError: the steps do not fit the environments (see ``StepCheck``).
        """
        self._step_check(steps)
        for e in np.flatnonzero(steps.lost).tolist():  # its open episode is removed
            first, start = self.store.end.copy(), max(self._open[e], self.store.begin[e])
            first[e] = start
            self.starts.remove(first, self.store.end)
            self.store.rewind(e, int(start))
            # windows of earlier episodes end at their own final step, which is stored
            self.starts.stop[e] = min(self.starts.stop[e], start)
        n = min(BLOCK, self.steps_per_env)  # no step is removed before it is stored
        for t in range(0, len(steps.last), n):
            part = {name: getattr(steps, name)[t : t + n] for name in self.store.arrays}
            self._make_room(len(part["last"]))
            first = self.store.end.copy()
            self.store.append(part)
            for offset, e in np.argwhere(part["last"]).tolist():
                self._open[e] = first[e] + offset + 1
            self.starts.grow()

    def finish(self) -> None:
        """Let windows begin up to the final steps, which need no successors."""
        self.starts.grow(ended=True)

    def ready(self, batch_size: int) -> bool:
        """Whether a window can begin anywhere."""
        return self.starts.any()

    # twin: kernels/learning.py
    def sample(self, batch_size: int, clock: Clock) -> Batch:
        """Sample ``batch_size`` windows with replacement; ``index`` holds the items of their starts
        (see ``WindowStarts``), the clock determines beta.
        """
        return self.gather_batch(*self.starts.draw(batch_size, self.rng, clock))

    def update_priority(self, index: Tensor, priority: Tensor) -> None:
        """Set the priorities [B] of the windows ``index`` [B], if sampling is proportional."""
        if self.starts.priorities is not None:
            self.starts.priorities.update(*new_priorities(index, priority))

    def _make_room(self, n_steps: int) -> None:
        """Remove the oldest steps of every environment to make room for ``n_steps`` new ones."""
        first = np.maximum(self.store.end + n_steps - self.steps_per_env, self.store.begin)
        if (first == self.store.begin).all():
            return
        before = self.starts.oldest
        self.store.release_all(first)
        self.starts.remove(before, self.starts.oldest)

    # twin: kernels/learning.py
    def gather_batch(
        self,
        env: np.ndarray,
        step: np.ndarray,
        agent: np.ndarray | None,
        item: np.ndarray,
        weight: np.ndarray | None,
    ) -> Batch:
        """Windows whose learned transitions begin at ``step`` [B] of environment ``env`` [B]."""
        store, n_learned = self.store, self.length - self.n_step + 1 - self.burn_in
        start = step
        if self.burn_in > 0:
            start = look_back(store, self.starts.oldest, env, step, self.burn_in)
        fields, rows = read_windows(store, env, start, self.length, step - start, n_learned)
        if self.keeps_hidden:
            rows["hidden"] = store.rows(env, start)
        ones = np.ones(len(item), np.float32)
        fields["weight"] = ones if weight is None else weight.astype(np.float32)
        fields["index"] = item
        settings = {
            "mask_end": self.burn_in + n_learned,
            "burn_in": self.burn_in,
            "eta": self.eta,
            "whole": self.length == 1,  # a start has a transition
        }
        batch = store.batch(fields, rows, settings)
        return batch if agent is None else one_agent(batch, torch.from_numpy(agent).to(self.device))

    def state_dict(self) -> StateDict:
        """Steps by environment, priorities, and the generator."""
        lengths = self.store.end - self.store.begin
        rows = self.store.consecutive_rows(np.arange(self.n_envs), self.store.begin, lengths)
        return {
            "n_envs": self.n_envs,
            "rng": self.rng.bit_generator.state,
            "steps_per_env": self.steps_per_env,
            "length": self.length,
            "begin": self.store.begin.copy(),
            "end": self.store.end.copy(),
            "open": self._open.copy(),
            **self.starts.state_dict(),
            **self.store.saved_steps(rows),
        }

    def load_state_dict(self, state: StateDict) -> None:
        """Continue from ``state_dict``.

        Raises:
            ValueError: the state belongs to another environment or to other settings, or holds what
                no run stores.
        """
        require_n_envs("buffer", state["n_envs"], self.n_envs)
        window = "algo.loss.n_step, buffer.sequence_length and buffer.burn_in"
        items, sampler = len(state.get("priority", ())), "buffer.sampler and buffer.agents"
        sizes = {
            "steps per environment": (
                state["steps_per_env"],
                self.steps_per_env,
                "buffer.capacity",
            ),
            "transitions in a window": (state["length"], self.length, window),
            "priorities": (items, self.starts.n_items, sampler),
        }
        for what, (saved, here, keys) in sizes.items():
            if saved != here:
                raise ValueError(
                    f"The saved buffer has {saved} {what}, this one {here}: use the {keys} that it "
                    "was written with."
                )
        n_saved = self.store.saved_length(state)
        end = saved_array("the buffer's end", state["end"], self.store.end, 0, MOST_COUNTED)
        n_steps = end - state["begin"]
        require_range("the buffer's end - begin", n_steps, 0, self.steps_per_env)
        begun = saved_array("the buffer's open", state["open"], self._open, 0)
        require_range("the buffer's end - open", end - begun, 0)
        require_total(int(n_steps.sum()), n_saved)
        self.store.restore(state)
        first = 0
        for e, n in enumerate(n_steps.tolist()):
            self.store.append_saved(e, state, first, n)
            first += n
        self._open[:] = begun
        self.starts.load_state_dict(state)
        self.rng.bit_generator.state = state["rng"]

    def saved(self, with_steps: bool) -> None:
        self.store.saved(with_steps)

    def close(self) -> None:
        self.store.close()


def one_agent(batch: Batch, agent: Tensor) -> Batch:
    """The same windows with only ``agent`` [B] of each team: N = 1."""

    def chosen(x: Tensor) -> Tensor:
        index = agent.view(1, -1, 1, *[1] * (x.dim() - 3)).expand(len(x), -1, 1, *x.shape[3:])
        return x.gather(2, index)

    n_agents = batch.action.shape[2]
    own_reward = batch.reward.shape[2] == n_agents and n_agents > 1
    hidden = batch.hidden
    if hidden is not None:
        hidden = chosen(hidden.unsqueeze(0)).squeeze(0)
    return replace(
        batch,
        obs=chosen(batch.obs),
        avail_actions=chosen(batch.avail_actions),
        last_action=chosen(batch.last_action),
        action=chosen(batch.action),
        reward=chosen(batch.reward) if own_reward else batch.reward,
        hidden=hidden,
        agent=agent.unsqueeze(1),
    )
