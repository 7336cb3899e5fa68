"""What a run can have that is saved, copied, divided or compiled: a small run for each.

A state that a promise does not hold for names it: with a ``Refused`` the command is refused in
these words, which is tested; with a text it is said why.
"""

from dataclasses import dataclass, field
from typing import Any

from tests.integration.promises.envs import Dying, Images, Keys, Masked, Team, Unequal

PROMISES = {
    "workers": "the same bytes without workers, with one and with two worker processes",
    "test_workers": "the same bytes where worker processes play the tests",
    "ray": "the same bytes with actors of Ray",
    "resume": "the same bytes after a stop amid episodes and a resume, also if it was killed later",
    "evaluate": "the last test of a run is what mode=evaluate plays",
    "export": "the exported file gives the policy's values",
    "compiled": "compiled code learns and acts as PyTorch does, within rounding",
    "disk": "the same bytes where the replay is on disk",
    "ddp": "two processes learn what one learns from their batches together",
}


class Refused(str):
    """A pattern of the message that refuses the command."""


@dataclass(frozen=True)
class State:
    """A run: overrides, an environment of ours, the promises that it is not part of, and which of
    the overrides make it this state.
    """

    words: tuple[str, ...]
    env: Any = None
    without: dict[str, str] = field(default_factory=dict)
    own: tuple[str, ...] = ()


COMMON = (
    *("tuned=none", "hardware.threads=1", "hardware.n_envs=4", "total_env_steps=120"),
    *("test.interval=60", "test.episodes=3", "test.n_envs=2", "save.interval=1000000"),
    *("log.interval=30", "algo.batch_size=8"),
)
ONE = (
    *("env=cartpole", "algo.learning_starts=40", "buffer.capacity=120"),
    "algo.network.hidden_sizes=[8]",
)
EPSILON = ("algo.exploration.env_steps=100",)
RECURRENT = (
    *("env=cartpole", "algo.learning_starts=40", "buffer.capacity=150"),
    *("algo.network.hidden_dim=8", *EPSILON),
)
TEAM = (
    *("env=matrix", "env.length=5", "buffer.capacity=14", "algo.updates_per_episode=0.7"),
    *("algo.network.hidden_dim=8", "algo.steps_per_collect=3", *EPSILON),
)
OWN = tuple(word for word in TEAM if not word.startswith("env"))
MAP = "env.map_name=3m"
BATTLE = (
    *(word for word in OWN if not word.startswith("buffer")),
    *("env=smac", MAP, "buffer.capacity=40", "algo.batch_size=2"),
    *("total_env_steps=500", "test.interval=250"),
)
BOTH_CUT = ("algo.target_update.env_steps=30",)
PQN = (
    *("algo=pqn", "env=cartpole", "algo.network.hidden_sizes=[8]", *EPSILON),
    *("algo.batch_size=16", "algo.steps_per_collect=8", "algo.updates_per_env_step=0.1"),
)
NORMALIZED = "algo.network.normalize_obs=true"
NOT_IN_RANKS = {"ddp": Refused("normalize_obs=true keeps")}
WINDOWS = ("buffer.sequence_length=4", "buffer.burn_in=3")
CONV = ("algo/network=conv", "algo.network.filters=[[4,3,2]]")
KEYS = ("algo/network=multi_input", CONV[1], "algo.network.vector_sizes=[4]")
HPN = ("algo/network=hpn", "algo.network.hyper_dim=4")
SEVERAL = (
    *("env.maps=[3m,4m_vs_3m]", "algo/network=attention", "algo.network.embed_dim=8"),
    "algo/mixer=entities",
)
OPPONENTS = (
    *("env.opponents={builtin:1,closest:1,outputs/opponent:2}", "env.opponent_epsilon=0.3"),
    "test.opponent=outputs/opponent",
)
SELF_PLAY = ("env.opponents={self:3,builtin:1}", "self_play.interval=100", "self_play.pool_size=2")
MLP = ("algo/network=mlp", "algo.network.hidden_sizes=[8]")
NOISE = {
    "workers": "every worker draws noise of its own (docs/scaling.md)",
    "ray": "every worker draws noise of its own (docs/scaling.md)",
    "ddp": "every rank draws noise of its own",
}
LAST_BITS = dict.fromkeys(
    ("workers", "ray"), "PyTorch computes it, with other last bits for other numbers of rows"
)
ONE_NOISE = dict.fromkeys(("workers", "ray", "ddp"), Refused("parameter_noise adapts one noise"))
RECORDED = Refused(r"Type .*dataset\.write=null")
PLAYED_HERE = {"test_workers": Refused(r"Type test\.n_workers=null")}
NO_CALLBACKS = Refused(r"Type callbacks=\[\]")
ON_DISK = "buffer.storage=disk"
PENALTY = "{_target_:rltrain.examples.ActionPenalty,actions:[1],weight:0.1,limit:0.2,rate:0.3}"
CURRICULUM = (
    "{_target_:rltrain.examples.Curriculum,metric:train/return_mean,threshold:9,"
    "tasks:[{gravity:9.8},{gravity:14.0},{gravity:20.0}]}"
)
OFFLINE = {
    "workers": Refused("learns without collecting"),
    "ray": Refused("learns without collecting"),
    "ddp": Refused(r"Type .*dataset\.read=null"),
}


def typed_words(*words: str) -> dict[str, str]:
    """The last word of each key."""
    return {word.partition("=")[0]: word for word in words}


def one(algo: str = "dqn", *words: str, **settings: Any) -> State:
    """A method for one agent; with ``env`` in one of our environments."""
    base = ONE[1:] if "env" in settings else ONE
    return State((*COMMON, f"algo={algo}", *base, *EPSILON, *words), **settings, own=words)


def recurrent(algo: str, *words: str, **settings: Any) -> State:
    """A recurrent method for one agent."""
    return State((*COMMON, f"algo={algo}", *RECURRENT, *words), **settings, own=words)


def team(algo: str = "qmix", *words: str, **settings: Any) -> State:
    """A method for teams; with ``env`` in one of our environments."""
    base = OWN if "env" in settings else TEAM
    return State((*COMMON, f"algo={algo}", *base, *words), **settings, own=words)


def battle(algo: str, *words: str, elsewhere: bool = False, **settings: Any) -> State:
    """A method for teams in battles, on another map if its words say so."""
    base = (word for word in BATTLE if not elsewhere or word != MAP)
    return State((*COMMON, f"algo={algo}", *base, *words), **settings, own=words or (MAP,))


def without_epsilon(state: State, *words: str) -> State:
    """Another exploration."""
    kept = (word for word in state.words if not word.startswith("algo.exploration"))
    return State((*kept, *words), state.env, state.without, (*state.own, *words))


def of_env(algo: str, env: str, *words: str) -> State:
    """Another environment that is shipped, with short episodes."""
    base = (*ONE[1:], *EPSILON) if algo == "dqn" else OWN
    return State((*COMMON, f"algo={algo}", *base, f"env={env}", *words))


STATES: dict[str, State] = {
    # methods of one agent
    "dqn": one("dqn", *BOTH_CUT),
    "simple_q": one("simple_q"),
    "c51": one("c51", "algo.distribution.v_max=20", "algo.distribution.v_min=-20"),
    "qrdqn": one("qrdqn", "algo.distribution.quantiles=5"),
    "iqn": one("iqn", without=dict(NOISE)),
    "munchausen_dqn": one("munchausen_dqn"),
    "rainbow": without_epsilon(one("rainbow", without=dict(NOISE))),
    "noisy": without_epsilon(one("noisy", without=dict(NOISE))),
    "pqn": State(
        (*COMMON, *PQN), own=PQN, without={"disk": Refused(r"Type buffer=replay buffer\.storage")}
    ),
    "drqn": recurrent("drqn", WINDOWS[0]),
    "r2d2": recurrent("r2d2", *WINDOWS),
    # methods of teams
    **{name: team(name) for name in ("iql", "vdn", "qmix", "qatten", "qplex", "qplex_attention")},
    **{name: team(name) for name in ("qtran", "ow_qmix", "cw_qmix")},
    # networks
    "normalize_obs": one("dqn", NORMALIZED, without=dict(NOT_IN_RANKS)),
    "team normalize_obs": team("qmix", NORMALIZED, without=dict(NOT_IN_RANKS)),
    "layer_norm, dueling": one("dqn", "algo.network.layer_norm=true", "algo.network.dueling=true"),
    "mlp of a team": State(
        (*COMMON, "algo=vdn", *(word for word in TEAM if "hidden_dim" not in word), *MLP), own=MLP
    ),
    "gru": recurrent("drqn", "algo.network.layer_norm=true", WINDOWS[0]),
    "lstm": recurrent("r2d2", "algo/network=lstm", *WINDOWS, without=dict(LAST_BITS)),
    "team lstm": team("qmix", "algo/network=lstm", without=dict(LAST_BITS)),
    "several maps": battle("qmix", *SEVERAL, elsewhere=True, without=dict(LAST_BITS)),
    "hpn": battle("vdn", *HPN),
    "groups": team("qmix", "algo.network.groups=[[1],[0]]"),
    "conv": one("dqn", *CONV, env=Images),
    "multi_input": one("dqn", *KEYS, env=Keys),
    # observations and agents
    "frame_stack": one("dqn", "env.frame_stack=3"),
    "frame_stack of images": one("dqn", *CONV, "env.frame_stack=2", env=Images),
    "own team": team("qmix", env=Team),
    "two teams": of_env(
        "vdn",
        "mpe",
        *("env.game=tag", "env.team=agent", "env.opponent=random", "env.max_episode_steps=5"),
    ),
    "unequal agents": team("vdn", env=Unequal),
    "unequal agents in groups": team("vdn", "algo.network.groups=[[0],[1,2]]", env=Unequal),
    "dead agents": team("qmix", env=Dying),
    "masks": team("qmix", env=Masked),
    "individual rewards": team("iql", "env.reward=individual", env=Team),
    "battle": battle("qmix"),
    "opponents": battle("qmix", *OPPONENTS),
    "self_play": battle("qmix", *SELF_PLAY),
    # buffers
    "prioritized": one("dqn", "buffer=prioritized"),
    "td_error": one("dqn", "buffer=prioritized", "buffer.initial_priority=td_error"),
    "prioritized_episode": team("qmix", "buffer=prioritized_episode"),
    "independent windows": team(
        "iql",
        "buffer=prioritized_sequence",
        "buffer.agents=independent",
        "buffer.sequence_length=4",
        "buffer.burn_in=2",
        "buffer.capacity=150",
    ),
    "float16": one("dqn", "buffer.precision=float16"),
    "team float16": team("qmix", "buffer.precision=float16"),
    "on disk": one("dqn", ON_DISK),
    "team on disk": team("qmix", ON_DISK),
    "beta": one("dqn", "buffer=prioritized", "buffer.beta_env_steps=80"),
    # rewards and returns
    "reward scale": one(
        "dqn", "algo.reward_norm=scale", without={"ddp": Refused("algo.reward_norm=null")}
    ),
    "reward standardize": team(
        "qmix", "algo.reward_norm=standardize", without={"ddp": Refused("algo.reward_norm=null")}
    ),
    "n_step": one("dqn", "algo.loss.n_step=3"),
    "trace": team("qmix", "algo.loss.trace=0.6"),
    "corrected": team("qplex", "algo.loss.trace=0.6", "algo.loss.corrected=true"),
    "team munchausen": team("vdn", "algo.loss.munchausen=0.9", "algo.loss.double=false"),
    # exploration and schedules
    "boltzmann": one("dqn", "algo/exploration=boltzmann"),
    "exponential": without_epsilon(
        one(), "algo/exploration=exponential", "algo.exploration.half_life=40"
    ),
    "greedy": without_epsilon(one(), "algo/exploration=greedy"),
    "per_env": without_epsilon(one(), "algo/exploration=per_env"),
    "piecewise": without_epsilon(
        one(), "algo/exploration=piecewise", "algo.exploration.points=[[0,1],[60,0.3],[100,0.1]]"
    ),
    "parameter_noise": one("dqn", "algo/exploration=parameter_noise", without=dict(ONE_NOISE)),
    "lr_factors": one("dqn", "algo.lr_factors=[[0,1],[100,0.1]]"),
    "tau": one("dqn", "algo.target_update.env_steps=1", "algo.target_update.tau=0.1"),
    "rmsprop": one("dqn", "algo/optimizer=rmsprop"),
    # the machine and what is written
    "target_cache": team(
        "qmix", "hardware.target_cache=10000000", "algo.target_update.episodes=20"
    ),
    "overlap": one(
        "dqn",
        "hardware=process",
        "hardware.n_workers=2",
        "hardware.overlap=true",
        without={"ddp": "one process collects for it"},
    ),
    "dataset.write": one(
        "dqn",
        "dataset.write={folder}/data",
        without=dict.fromkeys(("workers", "ray", "ddp"), RECORDED),
    ),
    "dataset.read": one(
        "dqn", "dataset.read={dataset}", "dataset.held_out=0.2", without=dict(OFFLINE)
    ),
    "test function": one(
        "dqn", "test.function=tests.integration.promises.envs.share", without=dict(PLAYED_HERE)
    ),
    "video": one("dqn", "test.video_interval=60", without=dict(PLAYED_HERE)),
    "curriculum": one("dqn", f"callbacks=[{CURRICULUM}]", without={"ddp": NO_CALLBACKS}),
    "penalty": one("dqn", f"callbacks=[{PENALTY}]", without={"ddp": NO_CALLBACKS}),
    # other environments
    "acrobot": of_env("dqn", "acrobot", "env.max_episode_steps=12"),
    "mountaincar": of_env("dqn", "mountaincar", "env.max_episode_steps=12"),
    "trading": of_env("dqn", "trading", "env.episode_length=12"),
    "two_step": of_env("qmix", "two_step"),
    "stag_hunt": of_env("qmix", "stag_hunt", "env.max_episode_steps=6"),
    "mpe": of_env("qmix", "mpe", "env.max_episode_steps=5"),
    "lbf": of_env("qmix", "lbf", "env.id=Foraging-5x5-2p-1f-v3", "env.max_episode_steps=5"),
    "smacv2": battle("qmix", "env=smacv2", elsewhere=True),
}

ACTS_AS = {
    "dqn": (
        *("simple_q", "munchausen_dqn", "prioritized", "td_error", "float16", "beta", "n_step"),
        *("reward scale", "boltzmann", "exponential", "greedy", "per_env", "piecewise", "tau"),
        *("parameter_noise", "lr_factors", "rmsprop", "overlap", "dataset.write", "dataset.read"),
        *("test function", "video", "on disk"),
    ),
    "qmix": (
        *("iql", "vdn", "qatten", "qplex", "qplex_attention", "qtran", "ow_qmix", "cw_qmix"),
        *("prioritized_episode", "team float16", "reward standardize", "trace", "corrected"),
        *("team munchausen", "target_cache", "team on disk"),
    ),
}
"""States that act with the network of another one."""
for other, names in ACTS_AS.items():
    for name in names:
        STATES[name].without["export"] = f"the network that acts is that of {other}"

OF_OTHERS = (
    *("acrobot", "mountaincar", "trading", "two_step", "stag_hunt", "mpe", "lbf", "smacv2"),
    *("own team", "two teams", "battle", "self_play"),
)
"""States whose kind others have, or that have fast tests of their own; slow only."""
