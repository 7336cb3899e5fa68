"""ProcessRollout: the environments of a run in worker processes, each with a ``Rollout``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from torch import nn

from rltrain.common.stateful import Stateful
from rltrain.hardware.env_share import Share
from rltrain.hardware.process.supervision import Supervision
from rltrain.hardware.steps import loaded_steps, saved_steps
from rltrain.interfaces import VectorEnv
from rltrain.types import Clock, Episode, StateDict, Steps

if TYPE_CHECKING:
    from rltrain.hardware.process.shared_memory import SharedExchange
    from rltrain.hardware.ray.cluster import RayExchange

RunExchange: TypeAlias = "SharedExchange | RayExchange"
"""How a run gives weights to its workers and gets steps from them."""


class ProcessRollout:
    """Collects in worker processes what one ``Rollout`` in all environments would collect.

    A worker that dies, hangs or whose environment fails is replaced: the open episodes of its
    environments are dropped, and the steps that it was collecting are collected again. The workers
    start at the first use.

    Args:
        workers: which collect.
        exchange: of their weights and steps.
        env: one environment like those of the workers, for its sizes; it is closed.
        agents: the learner's, which the workers' agents follow.
        overlap: collect the next steps while the caller learns.
        exploration: of this process, where it does not act; follows that of the first worker.
    """

    def __init__(
        self,
        *,
        workers: Supervision,
        exchange: RunExchange,
        env: VectorEnv,
        agents: nn.Module,
        overlap: bool,
        exploration: Stateful,
    ) -> None:
        self.shares, self.agents, self.overlap = workers.shares, agents, overlap
        self.about, self.spec, self.n_envs = env.about, env.spec, workers.shares[0].total
        env.close()
        self._workers, self._exchange = workers, exchange
        self.seconds, self.exploration = exchange.seconds, exploration
        self._lost = np.zeros(self.n_envs, np.bool_)  # [E] open episodes that the next Steps drop
        self._asked: tuple[int, Clock] | None = None  # what the workers are collecting
        self._ready: Steps | None = None  # collected, and not given away yet

    def collect(self, n_steps: int, clock: Clock) -> Steps:
        """The next ``n_steps`` time steps of every environment, in arrays of their own.

        With ``overlap`` the workers then begin to collect the following ones with the weights as
        they are now, so that learning from these steps does not reach them.

        Raises:
            EnvError: workers were replaced too often.
        """
        if self._asked is None and self._ready is None:
            self._begin(n_steps, clock)
        steps = self._finish()
        self._ready = None
        if self.overlap:
            self._begin(n_steps, clock.after(steps))
        return steps

    def call(self, method: str, *args: object) -> list[Any]:
        """Call a method of every environment; the results are in their order."""
        self._settle()
        return [one for each in self._ask("call", method, *args) for one in each]

    def state_dict(self) -> StateDict:
        """The state that the next ``collect`` depends on, with steps that were collected ahead."""
        self._settle()
        state: StateDict = {
            "n_envs": [share.n_envs for share in self.shares],
            "replaced": self._workers.replaced,
            "lost": self._lost.copy(),
            "ready": None if self._ready is None else saved_steps(self._ready),
            "exploration": self.exploration.state_dict(),
        }
        if self._workers.broken:
            begun, carried = max(self._workers.episodes), list(self._workers.carried)
            return {**state, "workers": None, "episodes": begun, "carried": carried}
        workers = self._ask("state_dict")
        exact = all(each["rollout"]["env"].get("exact", True) for each in workers)
        return {**state, "workers": workers, "env": {"exact": exact}}

    def load_state_dict(self, state: StateDict) -> None:
        """Continue from ``state_dict``.

        Raises:
            ValueError: the state was written with other workers.
        """
        self._load(state)
        if state["workers"] is None:
            self._abandon(int(state["episodes"]))
        else:
            self._workers.episodes = [int(each["episodes"]) for each in state["workers"]]
            self._ask_each("load_state_dict", [(each,) for each in state["workers"]])
        self._lost[:] = state["lost"]
        self._ready = None if state["ready"] is None else loaded_steps(state["ready"])

    def restart(self, state: StateDict, episodes: int) -> None:
        """Begin the episodes after the first ``episodes``; ``state`` is what outlives them."""
        self._load(state)
        if state["workers"] is None:
            self._abandon(episodes)
        else:
            self._workers.episodes = [episodes] * len(self.shares)
            self._ask_each("restart", [(each, episodes) for each in state["workers"]])

    def abandon(self, episodes: int) -> None:
        """Drop the open episodes, also from what was collected before."""
        self._asked = self._ready = None
        self._lost[:] = True
        if not self._workers.broken:
            self._abandon(episodes)

    def close(self) -> None:
        """End the workers."""
        self._workers.close()

    def _abandon(self, episodes: int) -> None:
        self._workers.episodes = [episodes] * len(self.shares)
        self._ask("abandon", episodes)

    def _load(self, state: StateDict) -> None:
        have, saved = [share.n_envs for share in self.shares], state.get("n_envs")
        if saved != have:
            raise ValueError(
                f"The saved rollout has {saved} environments in its worker processes, this run "
                f"has {have}: set hardware.n_envs and hardware.n_workers as they were."
            )
        self._asked = self._ready = None
        if state["exploration"]:
            self.exploration.load_state_dict(state["exploration"])
        workers = self._workers
        workers.replaced = int(state["replaced"])
        if state["workers"] is None:  # all are replaced
            workers.close()
            workers.replaced, workers.broken = workers.replaced + 1, False
            workers.carried = list(state["carried"])

    def _begin(self, n_steps: int, clock: Clock) -> None:
        """Let the workers collect, with the current weights."""
        self._exchange.publish(self.agents)
        self._workers.send("collect", [(n_steps, clock)] * len(self.shares))
        self._asked = n_steps, clock

    def _settle(self) -> None:
        """Wait for what the workers are collecting."""
        if self._asked is not None and not self._workers.broken:
            self._finish()

    def _finish(self) -> Steps:
        """The steps that the workers collected."""
        if self._ready is not None:
            return self._ready
        assert self._asked is not None, "the workers were asked to collect"
        (n_steps, _), answers = self._asked, self._workers.receive()
        for share, (_, lost, *_) in zip(self.shares, answers, strict=True):
            self._lost[share.envs] |= lost
        self._lost |= self._workers.take_lost()
        if answers[0][4]:
            self.exploration.load_state_dict(answers[0][4])
        fields = self._exchange.joined(n_steps, [each[3] for each in answers])
        episodes = in_order(fields["last"], self.shares, [each[0] for each in answers])
        steps = Steps(**fields, lost=self._lost.copy(), episodes=tuple(episodes))
        self._ready, self._asked, self._lost[:] = steps, None, False
        return steps

    def _ask(self, method: str, *args: object) -> list[Any]:
        return self._ask_each(method, [args] * len(self.shares))

    def _ask_each(self, method: str, args: Sequence[tuple[object, ...]]) -> list[Any]:
        answers = self._workers.ask(method, args)
        self._lost |= self._workers.take_lost()
        return answers


def in_order(
    last: np.ndarray, shares: Sequence[Share], episodes: Iterable[Sequence[Episode]]
) -> Iterator[Episode]:
    """The finished episodes of all workers by final step (``last`` [T, E]), then environment."""
    of_worker = [iter(each) for each in episodes]
    owner = [share.number for share in shares for _ in range(share.n_envs)]
    for _, e in np.argwhere(last).tolist():
        yield next(of_worker[owner[e]])
