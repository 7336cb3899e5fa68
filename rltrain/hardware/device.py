"""The machine: device, threads, allocator, the networks' seed, and a description for run.json."""

from __future__ import annotations

import ctypes
import importlib.metadata
import logging
import os
import platform
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from threading import get_ident
from typing import Any, ClassVar, Literal

import psutil
import torch

from rltrain.common.machine.torch_settings import (
    EnvContext,
    plain_settings,
    random_state,
    set_random_state,
)

log = logging.getLogger("rltrain")

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def resolve_device(name: Literal["auto", "cpu", "cuda"]) -> torch.device:
    """The device that ``hardware.device`` means here; ``auto`` is the GPU if there is one.

    Raises:
        ValueError: ``cuda`` where torch sees no GPU.
    """
    has_gpu = torch.cuda.is_available()
    if name == "cuda" and not has_gpu:
        build = "is a CPU build" if torch.version.cuda is None else "sees no CUDA GPU"
        raise ValueError(
            f"hardware.device=cuda: expected a CUDA GPU, but torch {torch.__version__} {build}. "
            "Set hardware.device=cpu or hardware.device=auto."
        )
    return torch.device("cuda" if name != "cpu" and has_gpu else "cpu")


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def set_threads(n: int) -> None:
    """Use ``n`` threads in torch, and in the numeric libraries of this process and its children.

    Libraries read their variable when they are loaded: it reaches later imports and children.
    Numba's is left alone: numba cannot raise that limit once its threads run.
    """
    torch.set_num_threads(n)
    for variable in THREAD_VARIABLES:
        os.environ[variable] = str(n)


def set_allocator_policy() -> bool:
    """Keep freed memory in the process instead of returning it to the operating system.

    Large blocks come from the heap (M_MMAP_MAX=0), which never shrinks (M_TRIM_THRESHOLD=max) and
    grows by 64 MiB (M_TOP_PAD). Returns whether it was set; elsewhere than in glibc it is not.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    mallopt.argtypes, mallopt.restype = (ctypes.c_int, ctypes.c_int), ctypes.c_int
    m_trim_threshold, m_top_pad, m_mmap_max = -1, -2, -4  # malloc.h
    return all(
        mallopt(parameter, value) == 1
        for parameter, value in ((m_mmap_max, 0), (m_trim_threshold, -1), (m_top_pad, 64 << 20))
    )


@contextmanager
def seed_networks(seed: int) -> Iterator[None]:
    """Networks made inside depend only on ``seed``; torch's own generator stays as it was.

    Only the CPU generator is set: networks are initialized there and then moved.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


@cache
def warn_of_threads() -> None:
    """Warn, once, that results depend on when threads take turns."""
    log.warning(
        "two threads of this process train at once and draw from the same generators of PyTorch "
        "and NumPy: their results cannot be repeated. Train in processes, such as those of "
        "rltrain -m seed=1,2."
    )


class TorchRandom:
    """Context in which torch's own generators are those of one owner, from their state when this
    object is made, and its settings the plain ones; outside of it they are the caller's. They are
    one for all threads: a warning if there are owners in several.
    """

    inside: ClassVar[list[int]] = []  # a thread for each owner whose turn it is

    def __init__(self) -> None:
        self.depth, self.waiting = 0, random_state()  # of whom it is not the turn
        self.seeded: dict[str, torch.Tensor] = {}  # EnvSettings.seeded, of its environments
        self.thread, self.settings = 0, ExitStack()

    def __enter__(self) -> None:
        self.depth += 1
        if self.depth == 1:
            self.thread = get_ident()
            self.inside.append(self.thread)
        if {*self.inside} != {get_ident()}:
            warn_of_threads()
        if self.depth == 1:
            self._swap()
            self.settings.enter_context(plain_settings())

    def __exit__(self, *error: object) -> None:
        self.depth -= 1
        if self.depth == 0:
            self.settings.close()
            self.inside.remove(self.thread)
            self._swap()

    def _swap(self) -> None:
        now = random_state()
        set_random_state(self.waiting)
        self.waiting = now
        apart = EnvContext.settings
        self.seeded, apart.seeded = apart.seeded, self.seeded

    def state_dict(self) -> dict[str, torch.Tensor]:
        with self:
            return random_state()

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        with self:
            set_random_state(state)


def prepare_gpu() -> None:
    """Let a GPU compute the same bits in every run, in float32 as the CPU does. What PyTorch has no
    such implementation of is warned about where it is used.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read with the first product
    torch.use_deterministic_algorithms(True, warn_only=True)
    # a property of the module's class, which type checkers do not see; filling is for debugging
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.allow_tf32 = False  # products of 10 bits, which PyTorch allows cuDNN alone
    for expected in (
        "RNN module weights are not part of single contiguous",  # but of all weights
        "Synchronization debug mode is a prototype",  # which kernels/cuda_graph.py uses
    ):
        warnings.filterwarnings("ignore", expected)


def machine() -> dict[str, Any]:
    """The machine that a result was made on, for run.json."""
    return {
        "cpu": cpu_fact("model name") or platform.processor() or platform.machine(),
        "cores": available_cores(),
        "threads": torch.get_num_threads(),  # where PyTorch computes, last bits depend on it
        "memory_bytes": psutil.virtual_memory().total,
        "gpu": torch.cuda.get_device_name(0) if torch.cuda.is_available() else None,
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": str(torch.__version__),  # with its build: +cpu, +cu130
        **{name: importlib.metadata.version(name) for name in ("numpy", "numba")},
    }


def cpu_fact(name: str) -> str:
    """A property of the processor from Linux, such as its ``flags``; empty elsewhere."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return ""
    return text.partition(name)[2].partition("\n")[0].partition(":")[2].strip()
