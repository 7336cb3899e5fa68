"""The measured programs: training runs of rltrain and other libraries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.speed.qmix_update import MAPS, smac_like
from benchmarks.speed.turns import Program

OURS = "benchmarks.speed.ours"
SOURCES: Mapping[str, tuple[str, str]] = {
    "pymarl": ("src/learners/q_learner.py", "https://github.com/oxwhirl/pymarl"),
    "epymarl": ("src/learners/q_learner.py", "https://github.com/uoe-agents/epymarl"),
    "cleanrl": ("cleanrl/dqn.py", "https://github.com/vwxyzjn/cleanrl"),
    "smaclite": ("smaclite/__init__.py", "https://github.com/uoe-agents/smaclite"),
}
"""A file in each library's source folder, and where to get the library."""

LONG = (
    "total_env_steps=1_000_000_000 test.interval=1_000_000_000 save.interval=1_000_000_000 "
    "hardware.threads=1"
)
LIKE_PYMARL = {"use_rnn": True, "obs_last_action": True, "standardise_rewards": False}


class Peers(NamedTuple):
    """Source folders of other libraries; None if not given."""

    pymarl: str | None = None
    epymarl: str | None = None
    cleanrl: str | None = None
    smaclite: str | None = None

    def pymarls(self) -> Iterator[tuple[str, str, dict[str, Any], bool]]:
        """Name, folder, settings for PyMARL's agents, and whether its step follows Gymnasium."""
        if self.pymarl:
            yield "PyMARL", self.pymarl, {}, False
        if self.epymarl:
            yield "EPyMARL", self.epymarl, dict(LIKE_PYMARL), True


def source_folder(name: str, given: str) -> str:
    """The absolute path of a library's source folder.

    Raises:
        ValueError: the folder is not its source.
    """
    file, url = SOURCES[name]
    if not (Path(given) / file).exists():
        raise ValueError(
            f"--{name} {given}: expected the source folder of {name}, which contains {file}, and "
            f"that folder does not. Type: git clone {url}, and give the folder that it creates."
        )
    return str(Path(given).resolve())


def installed(package: str) -> bool:
    return find_spec(package) is not None


def ours(
    overrides: str, warm_up: int, chunk: int, shape: str | None = None, name: str = "rltrain"
) -> Program:
    """A training run of rltrain."""
    arguments = {"overrides": overrides, "warm_up": warm_up, "chunk": chunk, "shape": shape}
    return Program(name, f"{OURS}:train", arguments)


def theirs_training(
    name: str,
    folder: str,
    config: str,
    warm_up: int,
    overrides: dict[str, Any],
    env_config: str | None = None,
    path: str | None = None,
) -> Program:
    """A training run of PyMARL or EPyMARL."""
    arguments = {
        "folder": folder,
        "config": config,
        "warm_up": warm_up,
        "overrides": overrides,
        "env_config": env_config,
        "path": path,
    }
    return Program(name, "peers.pymarl:train", arguments)


def free(name: str, modern: bool) -> dict[str, Any]:
    """Settings of PyMARL for the free environment."""
    spec = smac_like(*MAPS[name][:2])
    environment = {
        "n_agents": spec.n_agents,
        "n_actions": spec.n_actions,
        "obs_dim": spec.obs_shape[0],
        "state_dim": spec.state_dim,
        "lengths": [MAPS[name][2]],
        "modern": modern,
    }
    return {"env": "free", "env_args": environment}


def lbf() -> dict[str, Any]:
    """EPyMARL's VDN on level-based foraging, as in experiment=epymarl/lbf/vdn."""
    return {
        "use_rnn": True,
        "hidden_dim": 128,
        "lr": 3e-4,
        "epsilon_anneal_time": 200_000,
        "target_update_interval_or_tau": 0.01,
        "env_args": {"key": "lbforaging:Foraging-8x8-2p-2f-coop-v3", "time_limit": 50},
    }


def stable_baselines3(minatar: bool) -> Program:
    settings: dict[str, Any] = {"gradient_steps": 1, "learning_starts": 1_000}
    if minatar:
        settings |= {"batch_size": 32, "train_freq": 4, "buffer_size": 100_000, "net_arch": []}
        settings |= {"target_update_interval": 1_000}
    else:
        settings |= {"batch_size": 128, "train_freq": 10, "buffer_size": 10_000}
        settings |= {"target_update_interval": 500, "learning_rate": 2.5e-4, "net_arch": [120, 84]}
    arguments = {
        "env": "MinAtar/Breakout-v1" if minatar else "CartPole-v1",
        "minatar": minatar,
        "settings": settings,
        "warm_up": 2_000,
        "chunk": 200,
    }
    return Program("Stable-Baselines3", "peers.sb3:train", arguments)


def clean_rl(peers: Peers, script: str) -> list[Program]:
    """A script of CleanRL, if its folder was given."""
    if peers.cleanrl is None:
        return []
    words = ["--no-cuda", "--learning-starts", "1000", "--total-timesteps", "100000000"]
    words += ["--start-e", "0.05"]  # acts with its network, as at the end of a run
    arguments = {"folder": peers.cleanrl, "script": script, "arguments": words, "warm_up": 2_000}
    return [Program("CleanRL", "peers.cleanrl:train", arguments)]
