"""A learning step of recurrent teams, compiled: IQL, VDN and QMIX with GRU agents on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from time import perf_counter
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from rltrain.algo.loss.td import TDLoss
from rltrain.algo.mixer.qmix import QMix
from rltrain.algo.mixer.sum import Independent, Sum
from rltrain.algo.network.agent_input import ActionAndAgent, AgentInput
from rltrain.algo.network.gru import GRUAgents
from rltrain.algo.network.packing import PackedGRU
from rltrain.interfaces import Loss
from rltrain.kernels.recurrent.target_values import Places, TargetValues
from rltrain.kernels.recurrent.threads import MeasuredThreads
from rltrain.kernels.recurrent.weights import TeamWeights, arrays, empty_sums, misfit
from rltrain.kernels.twins import computes_plainly, doubled
from rltrain.kernels.twins.table import LEARNING
from rltrain.kernels.twins.watch import Watch, watched
from rltrain.types import Batch, Clock, Model, Result

NAMES = "loss", "", "td_error_abs", "q_taken_mean", "target_mean"
N_SHARES = 8
"""Parts of a batch whose gradients are summed one after the other: the most threads of use."""


def compile_sequence_loss(
    loss: Loss,
    model: Model,
    most_threads: int | None = None,
    target_cache: int | None = None,
    required: bool = False,
) -> Loss:
    """The loss in compiled code, if it is a ``TDLoss`` of GRU agents whose values a mixing network
    of two-layer hyper-networks, a sum, or nothing joins; else the loss itself.

    Args:
        loss, model: what it computes.
        most_threads: bound where the number of threads is measured; None: PyTorch's number.
        target_cache: bytes of the target network's values that are kept; None: none.
        required: whether plain code or weights that do not fit are refused.
    """
    kind: type = type(loss)
    if kind is not TDLoss or model.critic is not None:
        return loss
    plain = cast(TDLoss, loss)
    returns = plain.returns
    extended = plain.rescale is not None or returns.munchausen is not None or returns.corrected
    if extended or not plain_agents(model.agents) or mixer_kind(model.mixer) is None:
        return loss
    if not doubled((LEARNING,), [plain, *model.modules()], required):
        return loss
    if (reason := misfit(model)) is not None:
        computes_plainly(reason, required)
        return loss
    threads = None if most_threads is None else MeasuredThreads(min(most_threads, N_SHARES))
    return CompiledSequenceLoss(plain, threads, target_cache)


def plain_agents(agents: nn.Module) -> bool:
    """Whether agents are a linear layer, a GRU cell and a linear layer."""
    if type(agents) is not GRUAgents:
        return False
    if agents.norm is not None or agents.head is not None or agents.input.norm is not None:
        return False
    parts = agents.fc1, agents.rnn, agents.fc2, agents.input, agents.input.rest
    kinds = nn.Linear, PackedGRU, nn.Linear, AgentInput, ActionAndAgent
    return all(type(x) is kind for x, kind in zip(parts, kinds, strict=True))


def mixer_kind(mixer: nn.Module) -> int | None:
    """The number that ``learning_kernel`` has for a mixer; None if it has none."""
    if type(mixer) is QMix:
        return 2 if isinstance(mixer.hyper_w_1, nn.Sequential) else None
    return {Independent: 0, Sum: 1}.get(type(mixer))


class CompiledSequenceLoss:
    """``TDLoss`` with values, errors and gradient from one compiled function.

    Args:
        loss: what it computes.
        threads: how many; None: as many as PyTorch may use.
        target_cache: bytes of ``TargetValues``; the batches' ``index`` is that of an episode.
    """

    per_agent = of_team = False
    targets: Callable[..., Tensor] | None = None

    def __init__(
        self,
        loss: TDLoss,
        threads: MeasuredThreads | None = None,
        target_cache: int | None = None,
    ) -> None:
        self.loss, self.n_step, self.threads = loss, loss.n_step, threads
        self.acted_error = loss.acted_error
        self.target_values = TargetValues(target_cache)
        self._weights: dict[Model, TeamWeights] = {}  # online and target
        self._watches: dict[Model, Watch] = {}  # by online model
        self._sums: tuple[Any, Any] | None = None  # gradients of shares, used again

    def __call__(self, online: Model, target: Model, batch: Batch, clock: Clock) -> Result:
        """As ``TDLoss``; with ``gradient``, that of the flat parameters."""
        weight = cast(GRUAgents, online.agents).fc1.weight
        others = batch.agent, batch.td_target, batch.hidden, batch.warm_up
        plain = all(field is None for field in others)
        plain = plain and watched(self._watches, online, target).plain()
        if not (plain and weight.is_cpu and weight.dtype == torch.float32):
            return self.loss(online, target, batch, clock)
        return self._step(online, target, batch)

    def _step(self, online: Model, target: Model, batch: Batch) -> Result:
        from rltrain.kernels.recurrent import learning_kernel as kernel

        windows, in_range = kernel.windows(
            batch.last.numpy(),
            batch.action.numpy(),
            batch.last_action.numpy(),
            batch.avail_actions.shape[-1],
        )
        if not in_range:
            raise IndexError("an action is out of range")
        weights = [self._weights_of(model) for model in (online, target)]
        sizes = batch.avail_actions.shape[2:]
        agents, mixers = zip(*(each.prepared(*sizes) for each in weights), strict=True)
        n_windows = len(batch.weight)
        bounds = np.linspace(0, n_windows, min(N_SHARES, n_windows) + 1).astype(np.int64)
        shares = np.stack([bounds[:-1], bounds[1:]], 1)
        inputs = batch.obs[0, 0, 0].numel(), batch.state.shape[-1]
        gradients = self._cleared(agents[0], mixers[0], len(shares), *inputs)
        priority, sums = np.zeros(n_windows, np.float32), np.zeros((len(shares), 5))
        arguments = (
            shares, windows, arrays_of(batch), agents, mixers, self._options(online, batch),
            self._places(weights[1], batch, windows[0], len(agents[1].value_bias)), gradients,
            priority, sums,
        )  # fmt: skip
        self._run(arguments)
        gradient = weights[0].gradient(gradients)
        whole = sums.sum(0)
        loss_sum, count, *_ = torch.from_numpy(whole.astype(np.float32)).unbind()
        means = torch.from_numpy((whole / max(whole[1], 1)).astype(np.float32)).unbind()
        metrics = {name: mean for name, mean in zip(NAMES, means, strict=True) if name}
        known = torch.from_numpy(gradient)
        return Result(loss_sum, count, torch.from_numpy(priority), metrics, known)

    def _run(self, arguments: tuple[Any, ...]) -> None:
        if self.threads is None:
            run(arguments, torch.get_num_threads())
            return
        begun = perf_counter()
        run(arguments, self.threads.n)
        self.threads.took(perf_counter() - begun, int(arguments[1][0].sum()))

    def _weights_of(self, model: Model) -> TeamWeights:
        if model not in self._weights:
            self._weights[model] = TeamWeights(model)
        return self._weights[model]

    def _places(self, target: TeamWeights, batch: Batch, lengths: np.ndarray, width: int) -> Places:
        """Where the target network's values of the batch are, or go."""
        sizes = (lengths + 1) * batch.action.shape[2] * width
        version = sum(weight._version for weight in target.agents)  # of ``load_state_dict``
        return self.target_values.places(arrays(target.agents), batch.index.numpy(), sizes, version)

    def _options(self, model: Model, batch: Batch) -> Any:
        from rltrain.kernels.recurrent import learning_kernel as kernel

        returns, huber = self.loss.returns, self.loss.huber
        return kernel.Options(
            gamma=np.float32(returns.gamma),
            double=bool(returns.double),
            n_step=returns.n_step,
            trace=np.float32(-1 if returns.trace is None else returns.trace),
            huber=np.float32(-1 if huber is None else huber),
            eta=np.float32(batch.eta),
            mixer=cast(int, mixer_kind(model.mixer)),
        )

    def _cleared(
        self, agents: Any, mixer: Any, n_shares: int, n_obs: int, n_state: int
    ) -> tuple[Any, Any]:
        """Zeros for the gradients of shares."""
        found = self._sums
        if found is None or len(found[0].obs) != n_shares:
            found = self._sums = empty_sums(agents, mixer, n_shares, n_obs, n_state)
        for part in found:
            for array in part:
                array.fill(0)
        return found


def run(arguments: tuple[Any, ...], n_threads: int) -> None:
    """``learning_kernel.step`` on several threads."""
    from rltrain.kernels.recurrent import learning_kernel as kernel

    counter = np.zeros(1, np.int64)
    n_helpers = min(n_threads, len(arguments[0])) - 1
    helping = [helpers().submit(kernel.step, counter, *arguments) for _ in range(n_helpers)]
    kernel.step(counter, *arguments)
    for helper in helping:
        helper.result()


@cache
def helpers() -> ThreadPoolExecutor:
    """Threads that compute shares beside the one that learns."""
    return ThreadPoolExecutor(N_SHARES - 1, "rltrain-learner")


def arrays_of(batch: Batch) -> Any:
    """What the kernel reads of a batch."""
    from rltrain.kernels.recurrent import learning_kernel as kernel

    learned = batch.mask if batch.learned is None else batch.learned
    return kernel.Arrays(
        batch.obs.flatten(3).contiguous().numpy(),
        batch.avail_actions.contiguous().numpy(),
        batch.state.contiguous().numpy(),
        batch.last_action.contiguous().numpy(),
        batch.action.contiguous().numpy(),
        batch.reward.contiguous().numpy(),
        batch.terminated.contiguous().numpy(),
        learned.contiguous().numpy(),
        batch.weight.numpy(),
    )
