"""The fast pairs: every promise and every state once, several states in one run."""

from dataclasses import dataclass
from typing import Any

from rltrain.config.catalog import CONF
from tests.integration.promises.envs import Everything, Images, Keys, Team
from tests.integration.promises.states import (
    COMMON,
    EPSILON,
    ONE,
    OWN,
    RECURRENT,
    STATES,
    TEAM,
    State,
)

SHORT = ("total_env_steps=70", "test.episodes=2", "test.interval=1000000")
ALGOS = {path.stem for path in (CONF / "algo").glob("*.yaml")}


@dataclass(frozen=True)
class Mixture:
    """A run that has several states, and the promise that it is tried with."""

    promise: str
    run: State
    states: tuple[str, ...]


def mixture(promise: str, base: tuple[str, ...], *names: str, env: Any = None) -> Mixture:
    """The states of these names together."""
    return Mixture(promise, State((*COMMON, *base, *own_words(names), *SHORT), env), names)


def battles(promise: str, name: str) -> Mixture:
    """A state of its own, in fewer battles."""
    words = (*STATES[name].words, "total_env_steps=250", *SHORT[1:])
    return Mixture(promise, State(words), (name,))


def own_words(names: tuple[str, ...]) -> list[str]:
    """What makes a run these states."""
    algos = [f"algo={name}" for name in names if name in ALGOS]
    return algos + [word for name in names for word in STATES[name].own]


DQN = ("algo=dqn", *ONE, *EPSILON)
GREEDY = ("algo=dqn", *ONE)
IMAGES = ("algo=dqn", *ONE[1:], *EPSILON)
FORWARD = tuple(word for word in TEAM if "hidden_dim" not in word)
MIXTURES = (
    mixture(
        "resume",
        GREEDY,
        *["prioritized", "td_error", "beta", "n_step", "float16", "per_env", "tau", "lr_factors"],
        "on disk",
    ),
    mixture("resume", DQN, "dqn", "boltzmann", "video", "penalty"),
    mixture("resume", DQN, "parameter_noise", "curriculum", "dataset.write"),
    mixture("resume", GREEDY, "overlap", "exponential"),
    mixture("resume", IMAGES, "conv", "frame_stack of images", "on disk", env=Images),
    mixture(
        "resume",
        ("algo=vdn", *OWN),
        *("unequal agents", "dead agents", "masks", "unequal agents in groups", "trace"),
        *("prioritized_episode", "team float16", "reward standardize", "team on disk"),
        env=Everything,
    ),
    mixture(
        "resume", ("algo=iql", *OWN), "iql", "individual rewards", "independent windows", env=Team
    ),
    mixture("resume", RECURRENT, "r2d2", "lstm"),
    mixture("resume", (), "pqn"),
    mixture("disk", IMAGES, "conv", "frame_stack of images", env=Images),
    mixture("disk", ("algo=qmix", *TEAM), "qmix"),
    mixture(
        "workers", GREEDY, "normalize_obs", "frame_stack", "piecewise", "reward scale", "rmsprop"
    ),
    mixture("test_workers", DQN, "simple_q", "normalize_obs", "layer_norm, dueling"),
    mixture("ddp", ("algo=qmix", *TEAM), "qmix", "groups", "team lstm"),
    mixture("evaluate", ("algo=qmix", *TEAM), "team normalize_obs"),
    mixture("evaluate", GREEDY, "test function", "greedy"),
    mixture("evaluate", DQN, "dataset.read"),
    mixture("evaluate", RECURRENT, "drqn", "gru"),
    mixture("evaluate", FORWARD, "vdn", "mlp of a team"),
    mixture("evaluate", GREEDY, "rainbow"),
    mixture("compiled", ("algo=qmix", *TEAM), "target_cache"),
    mixture("compiled", IMAGES, "multi_input", env=Keys),
    mixture("compiled", TEAM, "qplex", "corrected"),
    mixture("compiled", TEAM, "vdn", "team munchausen"),
    battles("compiled", "hpn"),
    battles("resume", "several maps"),
    battles("resume", "opponents"),
    mixture("compiled", GREEDY, "noisy"),
    *(mixture("compiled", DQN, name) for name in ("c51", "qrdqn", "iqn", "munchausen_dqn")),
    *(mixture("compiled", TEAM, name) for name in ("qatten", "qplex_attention", "qtran")),
    *(mixture("compiled", TEAM, name) for name in ("ow_qmix", "cw_qmix")),
)
