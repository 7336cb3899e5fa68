"""ProcessTests: test episodes in worker processes, while this process does other things."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any

from torch import nn

from rltrain.errors import UsageError
from rltrain.hardware.process.shared_memory import SharedExchange
from rltrain.hardware.process.supervision import Supervision
from rltrain.interfaces import VectorEnv, Watch
from rltrain.types import Clock, Episode, StateDict


class ProcessTests:
    """Plays in worker processes the test episodes that one ``Rollout`` in all environments would
    play. The workers start at the first use; lost ones are replaced and play again.

    Args:
        workers: which play.
        exchange: of their weights.
        env: one environment like those of the workers, for ``about``; it is closed.
        agents: those whose weights are tested.
    """

    def __init__(
        self, *, workers: Supervision, exchange: SharedExchange, env: VectorEnv, agents: nn.Module
    ) -> None:
        self.shares, self.agents, self.env, self.about = workers.shares, agents, env, env.about
        env.close()
        self._workers, self._exchange = workers, exchange
        self._asked: int | None = None  # episodes that the workers are playing
        self._ready: list[Episode] | None = None  # played, and not given away yet
        self.apart = self  # tests are played in other processes

    def begin_episodes(self, n: int, seed: int, clock: Clock) -> None:
        """Let the workers play ``n`` test episodes with the weights as they are now."""
        self.abandon(0)
        self._exchange.publish(self.agents)
        self._workers.send(
            "run_episodes", [(share.test_episodes(n), seed, clock) for share in self.shares]
        )
        self._asked = n

    def finish_episodes(self, stop: Callable[[], bool] = lambda: False) -> list[Episode]:
        """The episodes that were started.

        Raises:
            EnvError: workers were replaced too often.
            Interrupted: ``stop`` returned True.
        """
        if self._ready is not None:
            episodes, self._ready = self._ready, None
            return episodes
        assert self._asked is not None, "no episodes were started"
        try:
            answers = self._workers.receive(stop)
        except Exception:
            self.abandon(0)
            raise
        n, self._asked = self._asked, None
        episodes_of: dict[int, Episode] = {}
        for share, own in zip(self.shares, answers, strict=True):
            for i, episode in enumerate(own):
                rounds, e = divmod(i, share.n_envs)
                episodes_of[rounds * share.total + share.first + e] = episode
        return [episodes_of[number] for number in range(n)]

    def run_episodes(
        self,
        n: int,
        seed: int,
        clock: Clock,
        watches: Sequence[Watch] = (),
        stop: Callable[[], bool] | None = None,
        report: Callable[[int], None] | None = None,
    ) -> list[Episode]:
        """Exactly ``n`` test episodes, those that ``Rollout.run_episodes`` would play.

        Raises:
            Interrupted: ``stop`` returned True.
            UsageError: there are ``watches``.
        """
        if watches:
            raise UsageError(
                "A callback was given a hook for the steps of tests, which are played in other "
                "processes: type test.n_workers=null."
            )
        self.begin_episodes(n, seed, clock)
        episodes = self.finish_episodes(stop or (lambda: False))
        if report is not None:
            report(n)
        return episodes

    def call(self, method: str, *args: object) -> list[Any]:
        """Call a method of every environment; the results are in their order."""
        if self._asked is not None:
            self._ready = self.finish_episodes()
        answers = self._workers.ask("call", [(method, *args)] * len(self.shares))
        return [one for each in answers for one in each]

    def carried_envs(self) -> list[StateDict]:
        """State that outlives an episode of the environments of each worker, such as tasks."""
        return [{} if each is None else each["env"] for each in self._workers.carried]

    def carry_on_envs(self, states: Sequence[StateDict]) -> None:
        """Load what ``carried_envs`` returned: the workers start again with it."""
        self._workers.close()
        self._workers.carried = [
            {"env": env} for _, env in zip(self.shares, cycle(states), strict=False)
        ]

    def abandon(self, episodes: int) -> None:
        """Drop the test that is being played."""
        if self._asked is not None:
            self._workers.close()
        self._asked = self._ready = None

    def close(self) -> None:
        """End the workers."""
        self._workers.close()
