"""What is measured, and beside which other libraries.

To add a measurement: a ``Case`` here; its first program is the one that others are compared with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.speed.qmix_update import MAPS, N_EPISODES, arithmetic, mixed_lengths, smac_like
from benchmarks.speed.turns import Case, Program

OURS = "benchmarks.speed.ours"
SOURCES: Mapping[str, tuple[str, str]] = {
    "pymarl": ("src/learners/q_learner.py", "https://github.com/oxwhirl/pymarl"),
    "epymarl": ("src/learners/q_learner.py", "https://github.com/uoe-agents/epymarl"),
    "cleanrl": ("cleanrl/dqn.py", "https://github.com/vwxyzjn/cleanrl"),
    "smaclite": ("smaclite/__init__.py", "https://github.com/uoe-agents/smaclite"),
}
"""A file that the source folder of each library has, and where to get it."""

CARTPOLE = (
    "algo=dqn env=cartpole tuned=none total_env_steps=1_000_000_000 test.interval=1_000_000_000 "
    "save.interval=1_000_000_000 hardware.threads=1 algo.learning_starts=1_000 "
    "algo.exploration.start=0.05 "
    "algo.batch_size=128 algo.updates_per_env_step=0.1 algo.network.hidden_sizes=[120] "
    "algo.network.head_sizes=[84] algo.max_grad_norm=null buffer.capacity=10_000"
)
LONG = (
    "total_env_steps=1_000_000_000 test.interval=1_000_000_000 save.interval=1_000_000_000 "
    "hardware.threads=1"
)
ONE_ENV = "hardware.n_envs=1 algo.steps_per_collect=1"
LIKE_PYMARL = {"use_rnn": True, "obs_last_action": True, "standardise_rewards": False}


class Peers(NamedTuple):
    """Source folders of other libraries; None where not given."""

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


def update_cases(peers: Peers, threads: int) -> Iterator[Case]:
    """QMIX updates beside a plain learner and PyMARL's."""
    for name, (n_agents, n_enemies, n_steps) in MAPS.items():
        for kind, lengths in (
            ("full length", [n_steps] * N_EPISODES),
            ("mixed lengths", mixed_lengths(n_steps)),
        ):
            shape = {
                "n_agents": n_agents,
                "n_enemies": n_enemies,
                "lengths": lengths,
                "threads": threads,
            }
            spec = smac_like(n_agents, n_enemies)
            programs = [
                Program("rltrain", f"{OURS}:update", shape, threads),
                Program(
                    "rltrain, target cache",
                    f"{OURS}:update",
                    {**shape, "target_cache": 10**9},
                    threads,
                ),
                Program("plain learner", f"{OURS}:update", {**shape, "plain": True}, threads),
            ]
            programs += [
                Program(
                    peer,
                    "peers.pymarl:update",
                    {
                        "folder": folder,
                        "lengths": lengths,
                        "overrides": {**settings, **free(name, modern)},
                    },
                    threads,
                )
                for peer, folder, settings, modern in peers.pymarls()
            ]
            yield Case(
                name=f"update {name}, {kind}, {threads} threads",
                group="update",
                unit="update",
                programs=programs,
                clock="cpu" if threads == 1 else "wall",
                arithmetic=arithmetic(spec, lengths),
                settings=f"QMIX, {N_EPISODES} episodes, mean length "
                f"{sum(lengths) / len(lengths):.0f} of {n_steps}",
            )


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


def loop_cases(peers: Peers, threads: int) -> Iterator[Case]:
    """Training loops of teams: acting, storing and learning, one update per episode."""
    for n_envs, mine, theirs in (
        (1, f"algo=qmix {LONG} hardware.n_envs=1", {}),
        (
            8,
            f"algo=qmix {LONG} hardware.n_envs=8 algo.updates_per_episode=0.125",
            {"runner": "parallel", "batch_size_run": 8},
        ),
    ):
        programs = [ours(mine, warm_up=4_000, chunk=480, shape="3m")]
        programs += [
            theirs_training(
                peer, folder, "qmix", 4_000, {**settings, **theirs, **free("3m", modern)}
            )
            for peer, folder, settings, modern in peers.pymarls()
        ]
        yield Case(
            name=f"loop 3m shapes, {n_envs} environments",
            group="loop",
            unit="env step",
            programs=programs,
            settings="QMIX, an environment that costs nothing, episodes of 60, one update per "
            f"{n_envs} episodes",
        )
    if installed("lbforaging"):
        programs = [ours(f"experiment=epymarl/lbf/vdn {LONG}", warm_up=3_000, chunk=200)]
        if peers.epymarl:
            programs.append(theirs_training("EPyMARL", peers.epymarl, "vdn", 3_000, lbf(), "gymma"))
        yield Case(
            name="loop lbf",
            group="loop",
            unit="env step",
            programs=programs,
            settings="VDN, EPyMARL's settings, Foraging-8x8-2p-2f-coop-v3, one update per episode",
        )
    programs = [
        ours(
            f"algo=qmix algo/optimizer=adam env=smaclite {LONG} hardware.n_envs=1",
            warm_up=4_000,
            chunk=200,
        )
    ]
    if peers.epymarl and peers.smaclite:
        settings = {**LIKE_PYMARL, "env_args": {"map_name": "2s3z", "time_limit": 120}}
        programs.append(
            theirs_training(
                "EPyMARL on SMAClite",
                peers.epymarl,
                "qmix",
                1_500,
                settings,
                "smaclite",
                peers.smaclite,
            )
        )
    yield Case(
        name="loop smaclite 2s3z",
        group="loop",
        unit="env step",
        programs=programs,
        settings="QMIX on SMAClite's rules, one environment, one update per episode",
    )
    command = "algo=qmix env=smac total_env_steps=1_000_000_000 hardware.threads="
    yield Case(
        name="loop default command",
        group="loop",
        unit="env step",
        programs=[
            ours(f"{command}1", warm_up=8_000, chunk=480),
            ours(
                f"{command}1 hardware.target_cache=1_000_000_000",
                warm_up=8_000,
                chunk=480,
                name="rltrain, target cache",
            ),
        ],
        settings="rltrain algo=qmix env=smac, with its tests and checkpoints, one thread",
    )


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


def dqn_cases(peers: Peers, threads: int) -> Iterator[Case]:
    """Training loops of a single agent."""
    dqn = f"{CARTPOLE} algo.loss.double=false algo.loss.huber=null algo.optimizer.lr=2.5e-4"
    programs = [
        ours(f"{dqn} hardware.n_envs=32", warm_up=3_000, chunk=640),
        ours(f"{dqn} {ONE_ENV}", warm_up=3_000, chunk=200, name="rltrain, one environment"),
    ]
    if installed("stable_baselines3"):
        programs.append(stable_baselines3(False))
    programs += clean_rl(peers, "dqn.py")
    yield Case(
        name="dqn cartpole",
        group="dqn",
        unit="env step",
        programs=programs,
        settings="CleanRL's settings: layers 120-84, batch 128, one update per 10 env steps; "
        "rltrain with 32 environments, and with one as the others",
    )
    c51 = CARTPOLE.replace("algo=dqn", "algo=c51").replace("[120]", "[120,84]")
    c51 = c51.replace("head_sizes=[84]", "head_sizes=[]")
    yield Case(
        name="c51 cartpole",
        group="dqn",
        unit="env step",
        programs=[
            ours(
                f"{c51} hardware.n_envs=32 algo.distribution.atoms=101 "
                "algo.distribution.v_min=-100 algo.distribution.v_max=100",
                warm_up=3_000,
                chunk=640,
            ),
            *clean_rl(peers, "c51.py"),
        ],
        settings="CleanRL's settings: layers 120-84, 101 atoms, batch 128, one update per 10 steps",
    )
    rainbow = (
        f"algo=rainbow env=cartpole tuned=none {LONG} hardware.n_envs=10 algo.batch_size=64 "
        "algo.updates_per_env_step=0.1 algo.learning_starts=1_000 buffer.capacity=20_000 "
        "algo.network.hidden_sizes=[128,128] algo.network.head_sizes=[128] "
        "algo.distribution.v_min=0 algo.distribution.v_max=200"
    )
    programs = [ours(rainbow, warm_up=3_000, chunk=100)]
    if installed("tianshou"):
        arguments = {
            "env_id": "CartPole-v1",
            "hidden_sizes": [128, 128, 128],
            "capacity": 20_000,
            "warm_up": 1_000,
        }
        programs.append(Program("Tianshou", "peers.tianshou_rainbow:train", arguments))
    yield Case(
        name="rainbow cartpole",
        group="dqn",
        unit="env step",
        programs=programs,
        settings="three layers of 128, 51 atoms, batch 64, 10 environments, one update per 10 "
        "env steps",
    )
    if installed("minatar"):
        programs = [
            ours(
                f"experiment=minatar/double_dqn env.game=breakout {LONG} "
                "algo.learning_starts=1_000 algo.loss.n_step=1",
                warm_up=3_000,
                chunk=64,
            )
        ]
        if installed("stable_baselines3"):
            programs.append(stable_baselines3(True))
        yield Case(
            name="double dqn breakout",
            group="dqn",
            unit="env step",
            programs=programs,
            settings="MinAtar Breakout, 16 filters and 128 units, batch 32, one update per 4 env "
            "steps; rltrain with 8 environments and double Q-learning, which SB3 does not have",
        )


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


def engine_cases(peers: Peers, threads: int) -> Iterator[Case]:
    """Battles with random available actions."""
    for map_name in ("3m", "8m", "2s3z", "27m_vs_30m"):
        arguments = {"map_name": map_name, "n_envs": 256, "threads": threads}
        programs = [Program("rltrain", f"{OURS}:engine", arguments, threads)]
        if peers.smaclite and map_name in ("2s3z", "27m_vs_30m"):
            theirs = {"folder": peers.smaclite, "map_name": map_name}
            programs.append(Program("SMAClite", "peers.smaclite_env:battles", theirs))
        if installed("jaxmarl"):
            theirs = {"map_name": map_name, "n_envs": 256}
            programs.append(
                Program("JaxMARL's SMAX", "peers.jaxmarl_smax:battles", theirs, threads)
            )
        yield Case(
            name=f"engine {map_name}, {threads} threads",
            group="engine",
            unit="env step",
            programs=programs,
            clock="cpu" if threads == 1 else "wall",
            settings="random available actions, 256 environments (SMAClite: one); SMAX has simpler "
            "rules",
        )


def replay_cases(peers: Peers, threads: int) -> Iterator[Case]:
    """Prioritized sampling."""
    arguments = {"capacity": 1_000_000, "batch_size": 256}
    yield Case(
        name="prioritized replay",
        group="replay",
        unit="sample",
        programs=[Program("rltrain", f"{OURS}:sum_tree", arguments)],
        settings="1,000,000 items: draw 256 with importance weights, set their priorities",
    )


def memory_cases(peers: Peers, threads: int) -> Iterator[Case]:
    """Peak of the resident memory after so many env steps."""
    programs = [ours(f"algo=dqn env=cartpole {LONG}", warm_up=2_000, chunk=800)]
    if installed("stable_baselines3"):
        programs.append(stable_baselines3(False))
    programs += clean_rl(peers, "dqn.py")
    yield Case(
        name="memory cartpole",
        group="memory",
        unit="env step",
        programs=programs,
        work=20_000,
        rounds=1,
        settings="rltrain algo=dqn env=cartpole, 20,000 env steps",
    )
    programs = [ours(f"algo=qmix env=smac {LONG}", warm_up=4_000, chunk=480)]
    programs += [
        theirs_training(peer, folder, "qmix", 4_000, {**settings, **free("3m", modern)})
        for peer, folder, settings, modern in peers.pymarls()
    ]
    yield Case(
        name="memory 3m",
        group="memory",
        unit="env step",
        programs=programs,
        work=20_000,
        rounds=1,
        settings="rltrain algo=qmix env=smac; the others in a free environment of its shapes, "
        "20,000 env steps",
    )


GROUPS = {
    "update": update_cases,
    "loop": loop_cases,
    "dqn": dqn_cases,
    "engine": engine_cases,
    "replay": replay_cases,
    "memory": memory_cases,
}
