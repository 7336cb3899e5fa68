"""Gradient steps and acting on a GPU as CUDA graphs: the operations of a step are captured once for
every layout of its inputs and launched together from then on. Launching each by itself takes Python
and PyTorch longer than a GPU needs for it.

What is captured are the plain functions: nothing is computed twice here, and an edit of them is in
the graph. What runs in a step may change while the program runs; ``captured.Parts`` notices.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial
from operator import is_not
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rltrain.algo.checks import batch_layout
from rltrain.algo.learner import Learner
from rltrain.algo.policy import Policy
from rltrain.buffer.lazy_batch import BatchMemory, PackedBatch, array_form
from rltrain.common.metrics import MetricRow
from rltrain.interfaces import Agents
from rltrain.kernels.captured import GENERATOR, Parts, cpu_random
from rltrain.kernels.module_watch import ModuleWatch
from rltrain.types import Batch, Clock, UpdateResult

log = logging.getLogger("rltrain")
WARM_UPS = 2
"""Steps before a capture, in which PyTorch and cuDNN set up what they keep."""
MOST_CAPTURES = 200
"""Captures in a row before steps are launched one operation at a time."""
ENOUGH = 100
"""Launches after which captures are counted from the beginning."""


class CannotCapture(RuntimeError):
    """A step that does more than launch operations."""


class GraphedStep:
    """``Learner.step`` of a learner on a GPU, captured where it can be.

    Every step is that of a graph, the first of a layout too, so a resumed run computes what the
    run without an interruption does.

    Args:
        required: refuse what cannot be captured.
    """

    def __init__(self, learner: Learner, required: bool) -> None:
        self.captures = Captures("gradient steps", required)
        self.watch = ModuleWatch(learner.online, learner.target, learns=True)
        self.options: tuple[Any, Any] | None = None

    def __call__(self, learner: Learner, batch: Batch, clock: Clock) -> UpdateResult:
        step = learner.gradient_step
        if step.sum_over_ranks is None and step.begun and self.watch.plain():
            if self.options is None or any(map(is_not, self.options, optimizer_tensors(learner))):
                self.options = optimizer_tensors(learner)
                self.captures.forget()
            graph = self.captures.get(
                batch_layout(batch),
                partial(parts_of_step, learner),
                partial(StepGraph, learner, batch),
            )
            if graph is not None:
                return graph.launch(batch)
        return Learner.step(learner, batch, clock)


class Captures:
    """Graphs by the layout of their inputs, while what they captured stays as it is.

    Args:
        what: is captured.
        required: refuse what cannot be captured.
    """

    def __init__(self, what: str, required: bool) -> None:
        self.what, self.required = what, required
        self._graphs: dict[Hashable, Any] = {}
        self._parts: Parts | None = None
        self._n_captures = self._n_launches = 0
        self._given_up = False

    def __deepcopy__(self, memo: object) -> Captures:
        return Captures(self.what, self.required)

    def get(
        self, layout: Hashable, parts: Callable[[], Parts], capture: Callable[[object], object]
    ) -> Any:
        """The graph of a layout, captured now if there is none; None where it cannot be.

        Args:
            parts: makes the list of what is captured.
            capture: makes the graph, in the pool of memory that it gets.

        Raises:
            ValueError: it cannot be captured, and it is required.
        """
        if self._given_up:
            return None
        if self._parts is not None and not self._parts.same():
            self.forget()
        if layout not in self._graphs:
            self._n_captures, self._n_launches = self._n_captures + 1, 0
            try:
                self._graphs[layout] = self._captured(parts, capture)
            except Exception as error:  # the step by itself raises what is wrong with it
                self._give_up(error)
                return None
        self._n_launches += 1
        if self._n_launches > ENOUGH:
            self._n_captures = 0
        return self._graphs[layout]

    def _captured(self, parts: Callable[[], Parts], capture: Callable[[object], object]) -> Any:
        if self._n_captures > MOST_CAPTURES:
            raise CannotCapture(f"they were captured {MOST_CAPTURES} times in a row")
        before, random = self._parts or parts(), cpu_random()
        graph = capture(next((graph.graph.pool() for graph in self._graphs.values()), None))
        if not before.same():
            raise CannotCapture("they change attributes of Python's objects")
        if random != cpu_random():
            raise CannotCapture("they draw random numbers on the CPU")
        self._parts = before
        return graph

    def forget(self) -> None:
        """Capture again from now on."""
        self._graphs.clear()
        self._parts = None

    def _give_up(self, error: Exception) -> None:
        self.forget()
        self._given_up = True
        reason = str(error).partition("\n")[0] or type(error).__name__
        message = f"{self.what} cannot be captured in a CUDA graph ({reason})"
        if self.required and self._n_captures <= MOST_CAPTURES:
            raise ValueError(
                f"hardware.kernels=compiled: {message}. Type hardware.kernels=auto, with which "
                "PyTorch launches one operation after the other."
            ) from error
        log.warning("%s: PyTorch launches one operation after the other.", message)


class StepGraph:
    """One captured gradient step, with memory for its batch and its results."""

    def __init__(self, learner: Learner, batch: Batch, pool: object) -> None:
        self.batch = copied(batch)
        clock: Any = NoClock()
        state = learner.state_dict()
        try:
            with warming_up():
                for _ in range(WARM_UPS):
                    Learner.step(learner, fresh(self.batch), clock)
        finally:
            learner.load_state_dict(state)
        self.graph = torch.cuda.CUDAGraph()
        with capturing(self.graph, pool):
            result = Learner.step(learner, fresh(self.batch), clock)
            on_gpu = {n: x for n, x in result.metrics.items() if isinstance(x, Tensor)}
            self.priority = result.priority.detach()
            self.row = torch.cat([x.detach().reshape(1).float() for x in on_gpu.values()])
        self.names = tuple(on_gpu)
        self.constants = {n: x for n, x in result.metrics.items() if n not in on_gpu}

    def launch(self, batch: Batch) -> UpdateResult:
        """The step on a batch of the same layout."""
        overwrite(self.batch, batch)
        self.graph.replay()
        metrics: Any = MetricRow(self.names, self.row.clone())  # the next launch writes it again
        if self.constants:
            metrics = {**metrics, **self.constants}
        return UpdateResult(self.priority.clone(), metrics)


class GraphedValues:
    """``Policy.values`` of agents on a GPU, captured where it can be."""

    def __init__(self, policy: Policy, required: bool) -> None:
        self.captures = Captures("steps of acting", required)
        self.agents, self.watch = policy.agents, ModuleWatch(policy.agents)

    def __call__(
        self, policy: Policy, agents: Agents, obs: np.ndarray, hidden: Tensor
    ) -> tuple[np.ndarray, Tensor]:
        if agents is policy.agents is self.agents and self.watch.plain():
            if agents.training != policy.noisy:
                agents.train(policy.noisy)
            inputs = obs, policy.last_action, hidden
            graph = self.captures.get(
                (obs.shape, obs.dtype.str, policy.noisy),
                partial(Parts, [agents]),
                partial(ValuesGraph, agents, *inputs),
            )
            if graph is not None:
                return graph.launch(*inputs)
        return Policy.values(policy, agents, obs, hidden)


class ValuesGraph:
    """One captured step of acting, with memory for what it reads and computes."""

    def __init__(
        self, agents: Agents, obs: np.ndarray, last_action: np.ndarray, hidden: Tensor, pool: object
    ) -> None:
        form = array_form({"obs": obs, "last_action": last_action})
        self.block = BatchMemory(form, hidden.device)
        self.packed = torch.zeros_like(self.block.memory, device=hidden.device)
        self.hidden = hidden.clone()
        self._read(obs, last_action, hidden)

        def step() -> tuple[Tensor, Tensor]:
            batch = PackedBatch.of(self.packed, self.block.places, lambda name, x: x, {})
            return agents.step(batch.obs.float(), batch.last_action, self.hidden)

        buffers = [(buffer, buffer.clone()) for buffer in agents.buffers()]
        with torch.no_grad():
            try:
                with warming_up():
                    for _ in range(WARM_UPS):
                        step()
            finally:
                for buffer, before in buffers:
                    buffer.copy_(before)
            self.graph = torch.cuda.CUDAGraph()
            with capturing(self.graph, pool):
                self.q, self.after = step()

    def _read(self, obs: np.ndarray, last_action: np.ndarray, hidden: Tensor) -> None:
        self.block.fill({"obs": obs, "last_action": last_action})
        self.packed.copy_(self.block.memory, non_blocking=True)
        if hidden.numel():
            self.hidden.copy_(hidden)

    def launch(
        self, obs: np.ndarray, last_action: np.ndarray, hidden: Tensor
    ) -> tuple[np.ndarray, Tensor]:
        """Values [E, N, A], and the next hidden state."""
        self._read(obs, last_action, hidden)
        self.graph.replay()
        after = self.after.clone() if hidden.numel() else hidden
        return self.q.cpu().numpy(), after  # waits, so the block may be written again


@contextmanager
def warming_up() -> Iterator[None]:
    """Steps before a capture: on another stream than the current one, as PyTorch wants it, and
    refused where they wait for the device, which a capture could not go on from. Torch's random
    numbers are then as they were.

    Raises:
        RuntimeError: something waits.
    """
    here, other = torch.cuda.current_stream(), torch.cuda.Stream()
    other.wait_stream(here)
    with torch.random.fork_rng([torch.cuda.current_device()]):
        before = torch.cuda.get_sync_debug_mode()
        torch.cuda.set_sync_debug_mode("error")
        try:
            with torch.cuda.stream(other):
                yield
        finally:
            torch.cuda.set_sync_debug_mode(before)
            here.wait_stream(other)


@contextmanager
def capturing(graph: torch.cuda.CUDAGraph, pool: Any) -> Iterator[None]:
    """Capture what is launched inside."""
    random = torch.cuda.get_rng_state()
    try:
        with torch.cuda.graph(graph, pool=pool):
            yield
    except BaseException:  # a broken-off capture leaves the generator in it
        generator = torch.Generator("cuda")
        generator.set_state(random)
        default = torch.cuda.default_generators[torch.cuda.current_device()]
        default.graphsafe_set_state(generator.graphsafe_get_state())
        GENERATOR["state"] = generator  # earlier graphs draw from the one before
        raise


class NoClock:
    """In place of the clock: its numbers would be captured as they are now."""

    def __getattr__(self, name: str) -> Any:
        raise CannotCapture(f"the loss reads clock.{name}")


def parts_of_step(learner: Learner) -> Parts:
    """The parts of a gradient step."""
    step = learner.gradient_step
    objects = [learner.loss, step.optimizer, step.flat, learner.reward_norm, learner.buffers]
    objects += [learner.online, learner.target]
    tables = [vars(learner), vars(step)]
    return Parts([x for x in objects if x is not None], *tables, *optimizer_tensors(learner))


def optimizer_tensors(learner: Learner) -> tuple[Any, Any]:
    """The options and the moments of a learner's optimizer."""
    step = learner.gradient_step
    return step.optimizer.param_groups[0], step.optimizer.state[step.flat.values]


def copied(batch: Batch) -> Batch:
    """A batch in memory of its own."""
    if isinstance(batch, PackedBatch) and batch.layout is not None:
        return batch.copy()
    clones: Any = {name: x.clone() for name, x in batch_tensors(batch)}
    return replace(batch, **clones)


def fresh(batch: Batch) -> Batch:
    """The same batch, of which nothing was computed yet."""
    if isinstance(batch, PackedBatch) and batch.layout is not None:
        return PackedBatch.of(batch.packed, batch.places, batch.decode, batch.settings)
    return replace(batch)


def overwrite(batch: Batch, new: Batch) -> None:
    """Write the values of another batch of the same layout into a batch."""
    if isinstance(batch, PackedBatch) and isinstance(new, PackedBatch) and batch.layout is not None:
        batch.overwrite(new)
    else:
        for (_, x), (_, value) in zip(batch_tensors(batch), batch_tensors(new), strict=True):
            x.copy_(value)


def batch_tensors(batch: Batch) -> Sequence[tuple[str, Tensor]]:
    """The fields of a batch that are tensors."""
    named = [(field.name, getattr(batch, field.name)) for field in fields(batch)]
    return [(name, x) for name, x in named if isinstance(x, Tensor)]
