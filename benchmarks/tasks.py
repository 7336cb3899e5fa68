"""The training runs of docs/results.md: overrides, scores and published results."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.task_kinds import Task, cleanrl, control, smac, team

CARTPOLE = (
    "env=cartpole total_env_steps=100_000 algo.optimizer.lr=1e-3 "
    "algo.lr_factors=[[0,1],[100_000,0.01]] algo.exploration.env_steps=20_000"
)
"""Shared by methods on CartPole without a preset."""
NO_EXPLORATION = CARTPOLE.rpartition(" ")[0]
SQUARED = "algo.loss.n_step=3 algo.loss.huber=null"
"""Falls are rare and their errors large; the Huber loss learns slowly from them."""
GAME = (
    "total_env_steps=200_000 hardware.n_envs=8 test.interval=10_000 test.episodes=1 test.n_envs=1"
)
"""Fraction of EPyMARL's 2,000,000 env steps; greedy episodes of matrix games are deterministic."""
PQN = (
    "total_env_steps=2_000_000 algo.lr_factors=[[0,1],[2_000_000,0]] "
    "algo.exploration.env_steps=200_000 test.interval=100_000"
)
"""A fifth of the authors' frames, with schedules shortened accordingly."""
SELF_PLAY = "env.opponents={self:0.8,builtin:0.2} self_play.interval=50_000"
PREY = "env=stag_hunt total_env_steps=500_000 hardware.n_envs=1 test.episodes=16"
LONG_PREY = (
    "env=stag_hunt total_env_steps=1_000_000 hardware.n_envs=1 test.episodes=16 "
    "algo.exploration.env_steps=1_000_000"
)
QPLEX = " algo.mixer.kernels=10 algo.mixer.kernel_layers=3"
EASY_PREY = (
    "experiment=pymarl2/qmix env=stag_hunt test.episodes=16 env.miscapture=0 "
    "total_env_steps=1_050_000 algo.loss.trace=0.5 buffer.capacity=1000"
)
SETTINGS_OF_MAPS = {
    "6h_vs_8z": "algo.loss.trace=0.3 algo.exploration.env_steps=500_000",
    "3s5z_vs_3s6z": "algo.network.hidden_dim=256 algo.mixer.embed_dim=64 "
    "algo.mixer.hypernet_dim=256",
}
"""PyMARL2's own."""
STEPS_OF_MAPS = {"27m_vs_30m": 1_600_000, "3s5z_vs_3s6z": 1_000_000}
"""Env steps of the maps on which 2,000,000 take more than 100 minutes on one core."""
FIVE_MAPS = {"3m": 200, "8m": 120, "5m_vs_6m": 110, "2s3z": 200, "3s5z": 350}
"""Thousands of env steps of a run on each alone, about those of each in the common run."""


TASKS: Mapping[str, Mapping[str, Task]] = {
    "smac": {
        f"{algo}-{name}": smac(algo, name, published, seeds, env_steps)
        for algo, name, published, seeds, env_steps in (
            ("qmix", "3m", "", 1, 2_000_000),
            ("qmix", "2s3z", "99%", 2, 2_000_000),
            ("qmix", "3s5z", "97%", 2, 2_000_000),
            ("qmix", "5m_vs_6m", "70%", 2, 2_000_000),
            ("vdn", "2s3z", "97%", 2, 1_000_000),
            ("vdn", "3s5z", "84%", 2, 1_000_000),
            ("vdn", "5m_vs_6m", "70%", 2, 1_000_000),
            ("vdn", "8m", "", 2, 500_000),
            ("iql", "2s3z", "75%", 2, 1_000_000),
            ("iql", "3s5z", "10%", 2, 1_000_000),
            ("iql", "5m_vs_6m", "49%", 2, 1_000_000),
            ("iql", "8m", "", 2, 500_000),
        )
    },
    "smac_maps": {
        f"map-{name}": Task(
            f"experiment=pymarl2/qmix env.map_name={name} "
            f"total_env_steps={STEPS_OF_MAPS.get(name, 2_000_000):_} "
            f"hardware.target_cache=2e9 save.interval=500_000 save.replay_buffer=false "
            f"{SETTINGS_OF_MAPS.get(name, '')}".strip(),
            "test/win_rate",
            last=10,
            published=published,
            published_env_steps=10_050_000,
        )
        for name, published in (
            *((name, "") for name in ("3m", "2m_vs_1z", "3s_vs_3z", "3s_vs_4z")),
            *((name, "100%") for name in ("2s_vs_1sc", "8m", "2s3z", "3s5z", "1c3s5z")),
            ("MMM", ""),
            ("so_many_baneling", ""),
            ("5m_vs_6m", "90%"),
            ("8m_vs_9m", "100%"),
            ("3s_vs_5z", "100%"),
            ("10m_vs_11m", ""),
            ("6h_vs_8z", "84%"),
            ("MMM2", "100%"),
            ("2c_vs_64zg", "100%"),
            ("corridor", "100%"),
            ("3s5z_vs_3s6z", "75%"),
            ("25m", ""),
            ("bane_vs_bane", "100%"),
            ("27m_vs_30m", "100%"),
        )
    },
    "smacv2": {
        f"smacv2-{name}": Task(
            f"experiment=pymarl2/smacv2 env.map_name={scenario} total_env_steps=2_000_000",
            "test/win_rate",
            last=10,
            published=published,
            seeds=seeds,
        )
        for name, scenario, published, seeds in (
            ("protoss", "protoss_5_vs_5", "52%", 2),
            ("terran", "terran_5_vs_5", "62%", 2),
            ("zerg", "zerg_5_vs_5", "41%", 2),
            ("terran_10_vs_10", "terran_10_vs_10", "60%", 2),
            ("terran_10_vs_11", "terran_10_vs_11", "31%", 1),
            ("protoss_10_vs_10", "protoss_10_vs_10", "53%", 1),
            ("protoss_10_vs_11", "protoss_10_vs_11", "19%", 1),
            ("zerg_10_vs_10", "zerg_10_vs_10", "41%", 1),
            ("zerg_10_vs_11", "zerg_10_vs_11", "26%", 1),
        )
    }
    | {
        f"smacv2-{race}-open_loop": Task(
            f"experiment=pymarl2/smacv2 env.map_name={race}_5_vs_5 total_env_steps=2_000_000 "
            "env._target_=benchmarks.open_loop.OpenLoop env.obs_timestep_number=true",
            "test/win_rate",
            last=10,
        )
        for race in ("terran", "protoss", "zerg")
    },
    "maps": {
        **{
            f"maps-{name}": Task(
                "experiment=pymarl2/qmix algo/network=attention algo/mixer=entities "
                f"env.maps=[{maps}] total_env_steps={env_steps:_}",
                "test/win_rate",
                last=5,
            )
            for name, maps, env_steps in (
                ("five", ",".join(FIVE_MAPS), 1_000_000),
                *((name, name, 1000 * thousands) for name, thousands in FIVE_MAPS.items()),
            )
        },
    },
    "self_play": {
        f"{name}-{map_name}": Task(
            f"algo=qmix env=smac env.map_name={map_name} {opponents} total_env_steps=1_000_000 "
            "hardware.target_cache=2e9 save.interval=250_000 save.keep_last=4",
            "test/win_rate",
            last=10,
            seeds=2,
        )
        for map_name in ("8m", "2s3z")
        for name, opponents in (
            ("self_play", SELF_PLAY),
            ("builtin", "env.opponent=builtin"),
        )
    },
    "smaclite": {
        "smaclite-2s3z": Task(
            "algo=qmix algo/optimizer=adam env=smaclite env.map_name=2s3z total_env_steps=200_000 "
            "hardware.n_envs=1 algo.steps_per_collect=1 algo.target_update.episodes=null "
            "algo.target_update.updates=200",
            "test/win_rate",
            5,
            seeds=5,
        ),
    },
    "control": {
        "cartpole": control("experiment=zoo/cartpole", "500.0 ± 0.0"),
        "acrobot": control("experiment=zoo/acrobot", "-76.6 ± 11.8"),
        "mountaincar": control("experiment=zoo/mountaincar", "-100.8 ± 9.9"),
        "lunarlander": control(
            "experiment=zoo/lunarlander total_env_steps=250_000", "154.4 ± 79.2", 8, 100_000
        ),
        **{
            f"{env}-dqn": control(f"algo=dqn env={env}")
            for env in ("cartpole", "lunarlander")  # those of the other two are the zoo's
        },
        "trading": control("experiment=trading", seeds=5),
    },
    "cleanrl": {
        f"cleanrl-{algo}-{env}": cleanrl(f"{algo}_{env}", published)
        for algo, each in (
            ("dqn", ("488.7 ± 16.1", "-91.5 ± 7.2", "-195.0 ± 8.5")),
            ("c51", ("481.2 ± 20.5", "-87.7 ± 5.5", "-166.4 ± 27.9")),
            ("pqn", ("495.1 ± 6.9", "-95.6 ± 5.7", "-200.0 ± 0.0")),
        )
        for env, published in zip(("cartpole", "acrobot", "mountaincar"), each, strict=True)
    },
    "methods": {
        "cartpole-simple_q": control(f"algo=simple_q {CARTPOLE}"),
        "cartpole-c51": control(
            f"algo=c51 {CARTPOLE} algo.distribution.v_min=0 algo.distribution.v_max=100"
        ),
        "cartpole-qrdqn": control(f"algo=qrdqn {CARTPOLE}"),
        "cartpole-munchausen": control(
            f"algo=munchausen_dqn {CARTPOLE} {SQUARED} algo.batch_size=128 "
            "algo.updates_per_env_step=0.5"
        ),
        "cartpole-noisy": control(
            f"algo=noisy algo.loss.n_step=3 {NO_EXPLORATION} algo.batch_size=128 "
            "algo.updates_per_env_step=0.5 total_env_steps=60_000"
        ),
        "cartpole-rainbow": control(
            f"algo=rainbow {NO_EXPLORATION} algo.distribution.v_min=0 algo.distribution.v_max=100"
        ),
        "cartpole-iqn": control(f"algo=iqn {CARTPOLE}"),
        "cartpole-drqn": control(
            f"algo=drqn {CARTPOLE} {SQUARED} algo.target_update.env_steps=250"
        ),
        "cartpole-r2d2": control(f"algo=r2d2 {CARTPOLE} algo.target_update.env_steps=250"),
        "cartpole-pqn": control("experiment=cleanrl/pqn_cartpole algo.loss.trace=0.9"),
    },
    "minatar": {
        "breakout": control(
            "experiment=minatar/double_dqn env.game=breakout total_env_steps=2_000_000",
            "≈ 10",
            5,
            5_000_000,
        ),
        **{
            f"pqn-{game}": control(
                f"experiment=minatar/pqn env.game={game} {PQN}", published, 5, 5_000_000
            )
            for game, published in (
                ("asterix", "≈ 17"),
                ("breakout", "≈ 10"),
                ("freeway", "≈ 50"),
                ("seaquest", ""),  # its rules were corrected after the paper
                ("space_invaders", "≈ 44"),
            )
        },
        **{
            f"long-pqn-{game}": control(f"experiment=minatar/pqn env.game={game}", seeds=3)
            for game in ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
        },
    },
    "teams": {
        "lbf-vdn": team("lbf/vdn", "1.00"),
        "lbf-qmix": team("lbf/qmix", "0.96", seeds=5),
        "long-lbf-qmix": team("lbf/qmix", "0.96", 2_050_000),
        "mpe-vdn": team("mpe/vdn", ""),
        "mpe-qmix": team("mpe/qmix", ""),
        "mpe-vdn-last_reward_0": Task(
            "experiment=epymarl/mpe/vdn env=pettingzoo env.id=benchmarks.epymarl_spread:make "
            "env.time_limit=terminal env.max_episode_steps=25 total_env_steps=300_000",
            last=5,
        ),
    },
    "prey": {
        **{
            f"prey-{algo}": Task(f"algo={algo} {PREY}{more}", last=5, seeds=seeds)
            for algo, more, seeds in (
                ("vdn", "", 5),
                ("qmix", "", 5),
                ("ow_qmix", "", 3),
                ("qplex", QPLEX, 3),
            )
        },
        **{
            f"long_prey-{algo}": Task(f"algo={algo} {LONG_PREY}{more}", last=5, published=published)
            for algo, more, published in (
                ("vdn", "", "36.5 ± 0.5"),
                ("qmix", "", "34.8 ± 4.1"),
                ("ow_qmix", "", "36.8"),
                ("qplex", QPLEX, "30.5 ± 6.1"),
            )
        },
        **{
            f"easy_prey-{algo}": Task(f"algo={algo} {EASY_PREY}", last=5, published=published)
            for algo, published in (
                ("vdn", "39"),
                ("qmix", "40"),
                ("qplex", "39"),
                ("ow_qmix", "39"),
            )
        },
    },
    "matrix": {
        f"{game}-{algo}": Task(
            f"experiment=epymarl/matrix/{algo} env.game={game} {GAME}",
            published=published,
            seeds=5,
            published_env_steps=2_000_000,
        )
        for game, each in (
            ("climbing", ("195", "175", "175")),
            ("penalty_0", ("250",) * 3),
            *((f"penalty_{k}", ("50",) * 3) for k in (25, 50, 75, 100)),
        )
        for algo, published in zip(("iql", "vdn", "qmix"), each, strict=True)
    }
    | {
        f"climbing-{algo}": Task(f"experiment=epymarl/matrix/qmix algo={algo} {GAME}", seeds=5)
        for algo in ("cw_qmix", "ow_qmix", "qtran", "qatten", "qplex")
    },
}
"""Groups of tasks, one table each."""

METHODS: Mapping[str, tuple[str, ...]] = {
    **{
        name: (f"cartpole-{name}",)
        for name in ("simple_q", "dqn", "noisy", "c51", "qrdqn", "iqn", "rainbow", "drqn", "r2d2")
    },
    "munchausen_dqn": ("cartpole-munchausen",),
    "pqn": ("cartpole-pqn",),
    "ow_qmix": ("climbing-ow_qmix", "climbing-cw_qmix"),
    **{name: (f"climbing-{name}",) for name in ("qtran", "qatten", "qplex")},
}
"""Pages of docs/algorithms and the tasks that their figures show."""


def task(name: str) -> Task:
    """A task by its name.

    Raises:
        KeyError: there is none.
    """
    return {name: task for group in TASKS.values() for name, task in group.items()}[name]
