"""The opponents of rollouts: who plays the other side, how often, and their policies."""

from __future__ import annotations

import filecmp
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rltrain.algo.exploration.epsilon import FixedEpsilon, explore
from rltrain.algo.policy import Policy
from rltrain.algo.scripted import Scripted
from rltrain.assemble.build_learner import build_agents, build_policy, load_agents
from rltrain.common import checkpoint
from rltrain.common.checkpoint import CONFIG, SPEC
from rltrain.common.checkpoint.opponent_files import (
    BUILTIN,
    KEPT_FILES,
    SELF,
    is_checkpoint,
    opponent_name,
)
from rltrain.common.seeding import (
    NETWORK_STREAM,
    OPPONENT_STREAM,
    generator,
    seed_key,
    weighted_index,
)
from rltrain.common.spec_record import excerpt, read_spec
from rltrain.config.saved_config import load_config
from rltrain.config.schema import Settings, scenario
from rltrain.config.validate.checker import check
from rltrain.config.validate.constructor import show
from rltrain.errors import CheckpointError, closest
from rltrain.hardware.device import resolve_device, seed_networks
from rltrain.hardware.env_share import Share
from rltrain.hardware.rollout_opponents import NewestSnapshot, Opponents, SelfPlay
from rltrain.interfaces import Agents, OtherSide, SidePolicy, VectorEnv
from rltrain.types import EnvSpec

RANDOM = "random"
"""The scripted policy that every other side has."""
SIZES = ("n_agents", "n_actions", "obs_shape", "obs_dtype")


def build_opponents(
    settings: Settings,
    env: VectorEnv,
    *,
    training: bool,
    agents: Agents | None = None,
    share: Share | None = None,
    pool: SelfPlay | None = None,
) -> Opponents | None:
    """The opponents of a rollout in ``env``; None where the environment's own plays all episodes.

    Args:
        agents: those that learn, for self-play.
        share: which of the environments of all rollouts are in ``env``; None = all.
        pool: that of training, for tests against its newest snapshot.

    Raises:
        ValueError: an opponent that does not fit the other side.
        CheckpointError: a checkpoint that cannot be read or is not trusted.
    """
    weights = settings.opponent_weights(training=training)
    if not settings.is_two_sided(training=training):
        return None
    side, seed, first = env.other_side, settings.run.seed, share.first if share else 0
    assert side is not None, "build_env refuses environments with one side"
    if BUILTIN in weights and not side.builtin:
        raise ValueError(
            f"{opponent_key(training)}: the other team has no policy of its own (builtin). "
            "Type random, self or a checkpoint."
        )
    names = {opponent: opponent_name(opponent) for opponent in weights}
    if len(set(names.values())) < len(names):
        raise ValueError(
            f"env.opponents: two of {', '.join(names)} have the same name in metrics and folders. "
            "Give one of the runs' folders another name."
        )
    epsilon = settings.opponents.opponent_epsilon if training and settings.opponents else 0.0
    policies: dict[str, SidePolicy | None] = dict.fromkeys(names.values())
    for opponent, name in names.items():
        if opponent in settings.opponent_folders:
            policies[name] = checkpoint_policy(settings, opponent, side, training)
        elif opponent not in (BUILTIN, SELF):
            policies[name] = scripted_policy(opponent, weights, side, training)
    return Opponents(
        side=side,
        policies=policies,
        draw=lambda rng: [*names.values()][weighted_index([*weights.values()], rng)],
        streams=lambda e, k: generator(seed, OPPONENT_STREAM, int(training), first + e, k),
        explore=explore,
        epsilon={name: 1.0 if one == RANDOM else epsilon for one, name in names.items()},
        self_play=build_self_play(settings, env, side, agents, pool) if SELF in weights else None,
    )


def build_self_play(
    settings: Settings,
    env: VectorEnv,
    side: OtherSide,
    agents: Agents | None,
    pool: SelfPlay | None,
) -> SelfPlay:
    """The pool of past weights, or for tests the newest of them.

    Raises:
        ValueError: the agents' policy cannot play the other side, or there is no pool.
    """
    if agents is None and pool is None:
        raise ValueError(
            "test.opponent=self is the newest snapshot of self-play in this process: it needs "
            "env.opponent=self, and neither workers nor test.n_workers. Type test.opponent="
            f"{BUILTIN if side.builtin else RANDOM}, a scripted policy or a checkpoint "
            "(RUN/pool/<env_steps>)."
        )
    require_equal_teams(played(settings, settings.plain["env"]), side, "env.opponent=self")

    def make() -> Policy:
        with seed_networks(seed_key(settings.run.seed, NETWORK_STREAM)):
            own = build_agents(settings, env.spec).to(resolve_device(settings.hardware.device))
        return greedy(settings, own, env.spec, side)

    if agents is None:
        assert pool is not None
        return NewestSnapshot(pool, make)
    return SelfPlay(agents=agents, make=make, **vars(settings.run.self_play))


def opponent_key(training: bool) -> str:
    """The key that names an opponent."""
    return "env.opponent" if training else "test.opponent"


def scripted_policy(
    name: str, weights: Mapping[str, float], side: OtherSide, training: bool
) -> Scripted:
    """A scripted policy of the other side.

    Args:
        weights: all opponents, and how often each plays.

    Raises:
        ValueError: there is none by this name.
    """
    keywords: dict[str, Any] = {"policy": name, "env": side}
    key = opponent_key(training)
    try:
        return Scripted(epsilon=0.0, rng=np.random.default_rng(0), **keywords)
    except ValueError as error:
        known = [BUILTIN, SELF, *side.policies.split(", ")]
        near = {one: closest(one, known, n=1) for one in weights if not is_checkpoint(one)}
        named = {(*near.get(one, ()), one)[0]: weight for one, weight in weights.items()}
        meant = f"'env.opponents={show(named)}'" if len(named) > 1 else f"{key}={min(named)}"
        raise ValueError(
            f"{key}={name} is not a checkpoint, since there is no such folder here, and {error}."
            + (f" Did you mean {meant}?" if near[name] else "")
        ) from error


def checkpoint_policy(settings: Settings, opponent: str, side: OtherSide, training: bool) -> Policy:
    """The policy of a checkpoint, which plays the other side.

    Raises:
        ValueError: it belongs to another environment, map or team.
        CheckpointError: its spec is damaged.
    """
    folder, key = settings.opponent_folders[opponent], f"{opponent_key(training)}={opponent}"
    trust = f"trust=[{','.join(settings.run.trust)}]"
    with checkpoint.unless_removed(folder):
        tree, choices, _ = load_config(folder / f"{CONFIG}.json", [trust], learns=False, env=False)
    own = check(tree, choices, {})
    if own.algo is None:
        raise ValueError(f"{key} is a scripted policy without weights: type its name instead.")
    try:
        spec = read_spec(checkpoint.read(folder, SPEC))
    except ValueError as error:
        raise CheckpointError(f"{folder} has a damaged spec.json: {error!s:.300}") from error
    env = settings.plain["env"] | ({} if training else settings.plain["test"]["env"])
    require_team(own, spec, played(settings, env), env.get("map_file"), side, key)
    agents = load_agents(own, spec, resolve_device(settings.hardware.device), folder)
    return greedy(settings, agents, spec, side)


def greedy(settings: Settings, agents: Agents, spec: EnvSpec, side: OtherSide) -> Policy:
    """The policy of agents that play the other side."""
    rng = np.random.default_rng(0)  # nothing is drawn from it
    return build_policy(settings, agents, FixedEpsilon(epsilon=0.0), spec, side.n_envs, rng)


def require_team(
    own: Settings, spec: EnvSpec, here: str, file: str | None, side: OtherSide, key: str
) -> None:
    """ValueError unless a checkpoint's policy can play the other side in ``here``."""
    env = own.plain["env"]
    same = {"map_file": file} if same_map(env.get("map_file"), file) else {}
    trained = played(own, env | same)
    if trained != here:
        raise ValueError(
            f"{key} was trained on {excerpt(trained, here)}, and this run is on {here}: expected a "
            f"checkpoint of the same map or game. A scripted policy ({side.policies}) plays all."
        )
    theirs = [name for name, *_ in spec.agents or ()]
    if not theirs or theirs != [name for name, *_ in side.spec.agents or ()]:
        require_equal_teams(here, side, key)
    for name in SIZES:
        if getattr(spec, name) != getattr(side.spec, name):
            raise ValueError(
                f"{key} has {name} {getattr(spec, name)!s:.80}, and the other side of this run "
                f"{getattr(side.spec, name)}: expected a checkpoint that was trained with the same "
                "options of observations and actions (env.obs_…, env.conic_fov, env.kwargs)."
            )


def require_equal_teams(here: str, side: OtherSide, key: str) -> None:
    """ValueError unless a policy of the agents fits the other side."""
    if not side.same_team:
        raise ValueError(
            f"{key} commands the agents of {here}, and the other side has other units: "
            "a trained policy plays it only if it was trained as that team (env.team), or where "
            f"both teams {side.equal_teams}. A scripted policy ({side.policies}) plays every team."
        )


def same_map(own: str | None, here: str | None) -> bool:
    """Whether both are files of one content, as far as the run of a checkpoint keeps its own."""
    if not (own and here and Path(own).parent.name == KEPT_FILES and Path(own).is_file()):
        return bool(own and here)
    return filecmp.cmp(own, Path(here).expanduser(), shallow=False)


def played(settings: Settings, env: Mapping[str, Any]) -> str:
    """The environment, and what is played in it: maps, the file of one, a map, a game or an id."""
    found = scenario(env, ("maps", "map_file", "map_name", "game", "id"))
    return " ".join([settings.choices["env"], *found.split()])
