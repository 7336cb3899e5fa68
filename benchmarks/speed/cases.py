"""The measurements, and the libraries that they compare.

To add one: a ``Case`` here; the other programs are compared with its first.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.speed.dqn_cases import dqn_cases
from benchmarks.speed.programs import (
    LIKE_PYMARL,
    LONG,
    OURS,
    Peers,
    clean_rl,
    free,
    installed,
    lbf,
    ours,
    stable_baselines3,
    theirs_training,
)
from benchmarks.speed.qmix_update import MAPS, N_EPISODES, arithmetic, mixed_lengths, smac_like
from benchmarks.speed.turns import Case, Program


def update_cases(peers: Peers, threads: int) -> Iterator[Case]:
    """QMIX updates, compared with a plain learner and PyMARL."""
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


def replay_cases(peers: Peers, threads: int, steps: int = 1_000_000) -> Iterator[Case]:
    """Prioritized sampling; stacks of ``steps`` Atari frames on disk and in memory."""
    arguments = {"capacity": 1_000_000, "batch_size": 256}
    yield Case(
        name="prioritized replay",
        group="replay",
        unit="sample",
        programs=[Program("rltrain", f"{OURS}:sum_tree", arguments)],
        settings="1,000,000 items: draw 256 with importance weights, set their priorities",
    )
    yield Case(
        name="replay on disk",
        group="replay",
        unit="sample",
        programs=[
            Program(f"rltrain, {s}", f"{OURS}:atari_stacks", {"capacity": steps, "storage": s})
            for s in ("disk", "memory")
        ],
        settings=f"32 windows of stacks of four from {steps:,} Atari frames of 84 × 84",
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
