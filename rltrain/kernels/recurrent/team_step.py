"""A learning step of recurrent teams, compiled: IQL, VDN and QMIX with GRU agents on the CPU."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from time import perf_counter
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from rltrain.algo.loss.td import TDLoss
from rltrain.algo.mixer.qmix import QMix
from rltrain.algo.mixer.sum import Independent, Sum
from rltrain.algo.network.gru import GRUAgents
from rltrain.interfaces import Model
from rltrain.kernels.ahead import compile_ahead, wait
from rltrain.kernels.layers.td_step import (
    NAMES,
    CompiledLoss,
    batch_arrays,
    loss_options,
    loss_result,
)
from rltrain.kernels.recurrent.target_values import Places, TargetValues
from rltrain.kernels.recurrent.threads import MeasuredThreads
from rltrain.kernels.recurrent.weights import TeamWeights, arrays, misfit, recurrent_only
from rltrain.types import Batch, LossResult

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

    def compile_ahead(self) -> None:
        """Begin to compile the step of recurrent teams."""
        from rltrain.kernels.recurrent import team_step_kernel

        compile_ahead("sequence_step", team_step_kernel.step)

    def computes(self, online: Model, target: Model, batch: Batch) -> bool:
        """Whole windows of the whole team, in single precision on the CPU."""
        weight = cast(GRUAgents, online.agents).fc1.weight
        others = batch.agent, batch.td_target, batch.hidden, batch.warm_up
        plain = all(field is None for field in others)
        return plain and weight.is_cpu and weight.dtype == torch.float32

    def step(self, online: Model, target: Model, batch: Batch) -> LossResult:
        """All shares of the batch, on several threads."""
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
        if self.threads is None:
            run(arguments, torch.get_num_threads())
            return
        begun = perf_counter()
        run(arguments, self.threads.n)
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


def run(arguments: tuple[Any, ...], n_threads: int) -> None:
    """``team_step_kernel.step`` on several threads."""
    from rltrain.kernels.recurrent import team_step_kernel as kernel

    counter = np.zeros(1, np.int64)
    n_helpers = min(n_threads, len(arguments[0])) - 1
    helping = [helpers().submit(kernel.step, counter, *arguments) for _ in range(n_helpers)]
    kernel.step(counter, *arguments)
    for helper in helping:
        helper.result()


@cache
def helpers() -> ThreadPoolExecutor:
    """Threads that compute shares besides the one that learns."""
    return ThreadPoolExecutor(N_SHARES - 1, "rltrain-learner")
