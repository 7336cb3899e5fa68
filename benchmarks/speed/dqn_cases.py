"""Single-agent training loops, compared with other libraries."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.speed.programs import LONG, Peers, clean_rl, installed, ours, stable_baselines3
from benchmarks.speed.turns import Case, Program

CARTPOLE = (
    "algo=dqn env=cartpole tuned=none total_env_steps=1_000_000_000 test.interval=1_000_000_000 "
    "save.interval=1_000_000_000 hardware.threads=1 algo.learning_starts=1_000 "
    "algo.exploration.start=0.05 "
    "algo.batch_size=128 algo.updates_per_env_step=0.1 algo.network.hidden_sizes=[120] "
    "algo.network.head_sizes=[84] algo.max_grad_norm=null buffer.capacity=10_000"
)
ONE_ENV = "hardware.n_envs=1"


def dqn_cases(peers: Peers, threads: int) -> Iterator[Case]:
    """Single-agent training loops."""
    dqn = f"{CARTPOLE} algo.loss.double=false algo.loss.huber=null algo.optimizer.lr=2.5e-4"
    gym = f"{dqn} env.compiled=false"
    programs = [
        ours(f"{dqn} hardware.n_envs=32", warm_up=3_000, chunk=640),
        ours(f"{dqn} {ONE_ENV}", warm_up=3_000, chunk=200, name="rltrain, one environment"),
        ours(f"{gym} hardware.n_envs=32", warm_up=3_000, chunk=640, name="…, Gymnasium's CartPole"),
        ours(f"{gym} {ONE_ENV}", warm_up=3_000, chunk=200, name="…, Gymnasium's, one environment"),
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
    beside_tianshou = (
        f"env=cartpole tuned=none {LONG} hardware.n_envs=10 algo.batch_size=64 "
        "algo.updates_per_env_step=0.1 algo.learning_starts=1_000 buffer.capacity=20_000 "
        "algo.loss.n_step=3 algo.network.hidden_sizes=[128,128,128] algo.network.head_sizes=[]"
    )
    for method, settings, outputs in (
        ("rainbow", "algo.distribution.v_min=0 algo.distribution.v_max=200", "51 atoms"),
        ("qrdqn", "algo.distribution.quantiles=200 algo.exploration.start=0.1", "200 quantiles"),
    ):
        mine = f"algo={method} {settings} {beside_tianshou}"
        programs = [ours(mine, warm_up=3_000, chunk=100)]
        if installed("tianshou"):
            arguments = {
                "method": method,
                "env_id": "CartPole-v1",
                "hidden_sizes": [128, 128, 128],
                "capacity": 20_000,
                "warm_up": 1_000,
            }
            programs.append(Program("Tianshou", "peers.tianshou_runs:train", arguments))
        yield Case(
            name=f"{method} cartpole",
            group="dqn",
            unit="env step",
            programs=programs,
            settings=f"three layers of 128, {outputs}, three-step returns, batch 64, "
            "10 environments, one update per 10 env steps",
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
