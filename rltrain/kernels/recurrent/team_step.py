"""A learning step of recurrent teams, compiled: IQL, VDN and QMIX with GRU agents on the CPU; how
many threads compute it, and the target network's values that it keeps.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import nn

from rltrain.algo.loss.td import TDLoss
from rltrain.algo.mixer.qmix import QMix
from rltrain.algo.mixer.sum import Independent, Sum
from rltrain.algo.network.gru import GRUAgents
from rltrain.interfaces import Model
from rltrain.kernels.layers.td_step import (
    NAMES,
    CompiledLoss,
    batch_arrays,
    loss_options,
    loss_result,
)
from rltrain.kernels.recurrent.weights import TeamWeights, arrays, misfit, recurrent_only
from rltrain.types import Batch, LossResult

log = logging.getLogger("rltrain")
SKIPPED, TRIES, PERIOD, GAIN = 2, 5, 1000, 0.9
"""First steps not measured, steps of each number, steps between measurements, and the share of the
time with fewer threads that more of them have to get by with."""
N_SHARES = 8
"""Parts of a batch whose gradients are summed one after the other: the most threads of use."""
MIXERS = {Independent: 0, Sum: 1, QMix: 2}
"""The numbers that ``team_step_kernel`` has for mixers."""


def compiled_loss(
    loss: TDLoss, model: Model, most_threads: int | None, target_cache: int | None
) -> CompiledSequenceLoss | None:
    """The counterpart of a loss where a mixing network of two-layer hyper-networks, a sum, or
    nothing joins the values of recurrent agents; arguments as in ``compile_loss``.
    """
    mixer = model.mixer
    if not plain_returns(loss) or model.critic is not None or type(mixer) not in MIXERS:
        return None
    two_layers = type(mixer) is not QMix or isinstance(mixer.hyper_w_1, nn.Sequential)
    if not (two_layers and recurrent_only(model.agents)):
        return None
    threads = None if most_threads is None else MeasuredThreads(min(most_threads, N_SHARES))
    return CompiledSequenceLoss(loss, threads, target_cache)


def plain_returns(loss: TDLoss) -> bool:
    """Whether a loss has n-step or λ-returns of values as they are."""
    returns = loss.returns
    return loss.rescale is None and returns.munchausen is None and not returns.corrected


class CompiledSequenceLoss(CompiledLoss):
    """``TDLoss`` of recurrent teams.

    Args:
        loss: plain PyTorch.
        threads: how many; None: as many as PyTorch may use.
        target_cache: bytes of ``TargetValues``; the batches' ``index`` is that of an episode.
    """

    loss: TDLoss
    knows_settings, misfit = staticmethod(plain_returns), staticmethod(misfit)
    program, kernel = "sequence_step", "recurrent.team_step_kernel:step"

    def __init__(
        self,
        loss: TDLoss,
        threads: MeasuredThreads | None = None,
        target_cache: int | None = None,
    ) -> None:
        super().__init__(loss)
        self.threads, self.target_values = threads, TargetValues(target_cache)
        self._weights: dict[Model, TeamWeights] = {}  # online and target
        self._gradients = np.empty((0, 0), np.float32)  # of shares, used again

    def computes(self, online: Model, target: Model, batch: Batch) -> bool:
        """Whole windows of the whole team, in single precision on the CPU."""
        weight = cast(GRUAgents, online.agents).fc1.weight
        others = batch.agent, batch.td_target, batch.hidden, batch.warm_up
        plain = all(field is None for field in others)
        return plain and weight.is_cpu and weight.dtype == torch.float32

    def step(self, online: Model, target: Model, batch: Batch) -> LossResult:
        """All shares of the batch, on several threads."""
        from rltrain.kernels.compilation import wait
        from rltrain.kernels.recurrent import team_step_kernel as kernel

        wait("sequence_step")
        learned = batch.mask if batch.learned is None else batch.learned
        fields = batch_arrays(batch)._replace(mask=learned.contiguous().numpy())
        n_windows = len(fields.weight)
        weights = [self._team_weights(model) for model in (online, target)]
        windows, usable = kernel.windows(fields)
        if not (usable and all(each.fits(fields) for each in weights)):
            raise IndexError("the batch does not fit the network, or an action is out of range")
        sizes = fields.avail_actions.shape[2:]
        agents, mixers = zip(*(each.prepared(*sizes) for each in weights), strict=True)
        bounds = np.linspace(0, n_windows, min(N_SHARES, n_windows) + 1).astype(np.int64)
        shares = np.stack([bounds[:-1], bounds[1:]], 1)
        inputs = fields.obs.shape[3], fields.state.shape[2]
        gradients = self._cleared(len(shares), kernel.n_weights(agents[0], mixers[0], *inputs))
        priority, sums = np.zeros(n_windows, np.float32), np.zeros((len(shares), 5))
        self._run(
            (
                shares, windows, fields, agents, mixers, MIXERS[type(online.mixer)],
                loss_options(self.loss, batch.eta),
                self._places(weights[1], batch, windows[0], len(agents[1].value_bias)), gradients,
                priority, sums,
            )
        )  # fmt: skip
        for share in gradients[1:]:
            gradients[0] += share
        gradient = weights[0].gradient(
            *kernel.split_gradient(gradients[0], agents[0], mixers[0], *inputs)
        )
        return loss_result(sums.sum(0), NAMES[:3], priority, gradient)

    def _run(self, arguments: tuple[Any, ...]) -> None:
        """``team_step_kernel.step`` on several threads."""
        from rltrain.kernels.recurrent import team_step_kernel as kernel

        n_threads = torch.get_num_threads() if self.threads is None else self.threads.n
        counter, n_helpers = np.zeros(1, np.int64), min(n_threads, len(arguments[0])) - 1
        begun = perf_counter()
        helping = [helpers().submit(kernel.step, counter, *arguments) for _ in range(n_helpers)]
        kernel.step(counter, *arguments)
        for helper in helping:
            helper.result()
        if self.threads is not None:
            self.threads.took(perf_counter() - begun, int(arguments[1][0].sum()))

    def _team_weights(self, model: Model) -> TeamWeights:
        if model not in self._weights:
            self._weights[model] = TeamWeights(model)
        return self._weights[model]

    def _places(self, target: TeamWeights, batch: Batch, lengths: np.ndarray, width: int) -> Places:
        """Where the target network's values of the batch are, or go."""
        sizes = (lengths + 1) * batch.action.shape[2] * width
        version = sum(weight._version for weight in target.agents)  # of ``load_state_dict``
        return self.target_values.places(arrays(target.agents), batch.index.numpy(), sizes, version)

    def _cleared(self, n_shares: int, n_weights: int) -> np.ndarray:
        """Zeros for the gradients of shares."""
        if self._gradients.shape != (n_shares, n_weights):
            self._gradients = np.empty((n_shares, n_weights), np.float32)
        self._gradients.fill(0)
        return self._gradients


@cache
def helpers() -> ThreadPoolExecutor:
    """Threads that compute shares besides the one that learns."""
    return ThreadPoolExecutor(N_SHARES - 1, "rltrain-learner")


class MeasuredThreads:
    """The number of threads that is fastest under the current load, measured in the first steps and
    again every ``PERIOD`` steps; the first choice and every other one are logged.

    Args:
        most: threads of use.
    """

    def __init__(self, most: int) -> None:
        self.counts = [n for n in (1, 2, 4) if n < most] + [most]
        self.best = self.counts[0]
        self._logged = 0  # last choice that was logged
        self._wait = SKIPPED if most > 1 else -1  # steps until a measurement; -1: never
        self._taken: dict[int, list[float]] = {}

    @property
    def n(self) -> int:
        """Threads of the coming step: each number in turn while they are measured."""
        if not self._taken:
            return self.best
        return min(self.counts, key=lambda n: len(self._taken[n]))

    def took(self, seconds: float, work: int) -> None:
        """Count a step of ``n`` threads; ``work`` is what its duration grows with."""
        if self._taken:
            self._taken[self.n].append(seconds / max(work, 1))
            if min(map(len, self._taken.values())) == TRIES:
                self._choose(work)
        elif self._wait == 0:
            self._taken = {n: [] for n in self.counts}
        elif self._wait > 0:
            self._wait -= 1

    def _choose(self, work: int) -> None:
        taken = {n: median(each) for n, each in self._taken.items()}
        self.best, self._taken, self._wait = 1, {}, PERIOD
        for n in self.counts[1:]:
            if taken[n] < GAIN * taken[self.best]:
                self.best = n
        if self.best != self._logged:
            times = ", ".join(f"{1e3 * t * work:.3g} ms with {n}" for n, t in taken.items())
            log.info(
                "The learner uses %d thread%s: a learning step takes %s. hardware.threads sets "
                "another number.",
                self.best,
                "" if self.best == 1 else "s",
                times,
            )
            self._logged = self.best


class Places(NamedTuple):
    """Where the target network's values of a batch's windows are, or go."""

    values: np.ndarray  # flat float32; T + 1 steps of each window, N agents, A actions
    place: np.ndarray  # [B] of a window's first value
    known: np.ndarray  # [B] whether the values are there


class TargetValues:
    """Memory for the target network's values of windows.

    Between two updates of the target, a window that is sampled again has the same values, bit for
    bit: a window's numbers do not depend on the rest of its batch. With ``max_bytes`` they are kept
    as long as they fit, until the target's weights change.

    Args:
        max_bytes: of values that are kept; None keeps none.
    """

    def __init__(self, max_bytes: int | None) -> None:
        self.capacity = 0 if max_bytes is None else max_bytes // 4
        self._values = np.empty(self.capacity, np.float32)
        self._weights: list[np.ndarray] = []
        self._version = 0
        self._place: dict[int, int] = {}  # by the index of the window
        self._end = 0  # of the values that are kept

    def places(
        self, weights: Sequence[np.ndarray], index: np.ndarray, sizes: np.ndarray, version: int = 0
    ) -> Places:
        """The places of windows ``index`` [B] with ``sizes`` [B] values each.

        Args:
            weights: of the target network.
            index: [B], which never names another window.
            sizes: [B], numbers of values.
            version: changes where weights are loaded: windows of the same index then differ.
        """
        if self.capacity == 0:
            return self._unkept(np.cumsum(sizes) - sizes, int(sizes.sum()))
        alike = map(np.array_equal, weights, self._weights)
        if version != self._version or len(weights) != len(self._weights) or not all(alike):
            self._version = version
            self._weights = [weight.copy() for weight in weights]
            self._place, self._end = {}, 0
        known = np.array([i in self._place for i in index.tolist()])
        place, end = np.empty(len(index), np.int64), self.capacity
        for k, (i, size) in enumerate(zip(index.tolist(), sizes.tolist(), strict=True)):
            if i not in self._place and self._end + size <= self.capacity:
                self._place[i] = self._end
                self._end += size
            if i in self._place:
                place[k] = self._place[i]
            else:
                place[k] = end
                end += size
        return self._unkept(place, end)._replace(known=known)

    def _unkept(self, place: np.ndarray, end: int) -> Places:
        """Places up to ``end``; the next batch overwrites what lies behind ``capacity``."""
        if len(self._values) < end:
            grown = np.empty(end, np.float32)
            grown[: self._end] = self._values[: self._end]
            self._values = grown
        return Places(self._values, place, np.zeros(len(place), np.bool_))
