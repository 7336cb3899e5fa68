"""The resources that a run will use: devices, processes, threads, environments, networks and
buffer; shown by the banner and kept in ``run.json``.
"""

from __future__ import annotations

from rltrain.assemble.env import n_threads
from rltrain.callback.training import Training
from rltrain.common.files import JsonObject
from rltrain.common.machine.time_and_memory import available_memory
from rltrain.config.schema import Settings
from rltrain.types import Plan, module_device


def resource_plan(settings: Settings, trainer: Training) -> JsonObject:
    """The plan in plain numbers; bytes are those of a full replay and of all copies of the
    weights.
    """
    online, run = trainer.learner.online, settings.run
    n_envs = {
        "training": 0 if run.dataset.read else settings.hardware.n_envs,
        "tests": min(run.test.n_envs, run.test.episodes),
    }
    games = trainer.rollout.about.get("backend") == "sc2"  # each environment has its own process
    workers = 0 if settings.workers is None else settings.workers.n_workers
    testers = run.test.n_workers or 0
    plan = trainer.buffer.plan()
    return {
        "device": str(module_device(online)),
        "processes": 1 + workers + testers + (sum(n_envs.values()) if games else 0),
        "workers": workers,
        "test_workers": testers,
        "threads": n_threads(settings),
        "kernels": "torch" if settings.hardware.kernels == "torch" else "compiled",
        "n_envs": n_envs,
        "parameters": {
            name: sum(p.numel() for p in part.parameters())
            for name, part in online.named_children()
        },
        "network_bytes": network_bytes(trainer),
        "replay": {
            "capacity": plan.capacity,
            "unit": "episodes" if plan.steps is None else "steps",
            "bytes_per_step": plan.bytes_per_step,
            "bytes": replay_bytes(plan),
            "max_bytes": plan.cap_bytes,
            "folder": None if plan.folder is None else str(plan.folder),
        },
        "available_memory_bytes": available_memory(),
    }


def network_bytes(trainer: Training) -> int:
    """Weights, target weights, gradients and what the optimizer keeps."""
    state = trainer.learner.state_dict()
    kept = sum(t.nbytes for part in state.values() for t in part.values() if hasattr(t, "nbytes"))
    return int(kept) + sum(p.nbytes for p in trainer.learner.online.parameters())


def replay_bytes(plan: Plan) -> int:
    """Bytes of a full replay: as many as its capacity can take, or as it may use."""
    worst = plan.worst_case_bytes
    return plan.cap_bytes if worst is None else min(worst, plan.cap_bytes)
