"""The agents of a match: what was typed, opened and compared before anything is played. PyTorch is
imported when the first one is opened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rltrain.common import checkpoint
from rltrain.common.checkpoint.opponent_files import BUILTIN, SCRIPTED, is_checkpoint, opponent_name
from rltrain.config.compose import compose_single
from rltrain.config.overrides import Leaves, leaves, require_one_value, typed_list, typed_value
from rltrain.config.schema import Settings
from rltrain.config.validate.checker import check
from rltrain.errors import UsageError

MANY = 1_000
"""From this many pairings on, a number of battles has to be typed."""
OWN = ("mode", "match.battles", "checkpoints")
"""Keys of the match itself."""
DEFAULTS = ("seed=0", "test.epsilon=0", "test.n_workers=null")
"""Settings of all agents, unless others are typed."""
IN_THE_LIST = "all agents of a match are in checkpoints='[A, B, builtin, closest]'"
NOT_TYPED = {
    **dict.fromkeys(("test.episodes", "episodes"), "match.battles=N are played by each pairing"),
    **dict.fromkeys(("algo", "test.opponent", "env.opponent", "env.opponents"), IN_THE_LIST),
    "checkpoint": IN_THE_LIST,
    "load_step": "a path chooses a checkpoint, RUN/checkpoints/N or RUN/checkpoints/best",
    "dataset.write": "mode=evaluate test.opponent=NAME records a dataset",
}
"""Keys that have no meaning in a match, and what has."""
KIND = ("env",)
"""Where the name of an environment stands among its options."""


@dataclass(frozen=True)
class MatchAgent:
    """One of a match. Without settings it is the environment's own, which plays one side only."""

    name: str
    source: checkpoint.Found | None = None
    settings: Settings | None = None

    @property
    def opponent(self) -> str:
        """Its name as ``test.opponent``."""
        return str(self.source.folder) if self.source else self.name

    def copied(self, parent: Path) -> MatchAgent:
        """The same with a copy of its weights in a folder, where no training removes them."""
        if self.source is None:
            return self
        checkpoint.copy_weights(self.source.folder, parent / self.name)
        return replace(self, source=replace(self.source, folder=parent / self.name))


def requested(overrides: Sequence[str]) -> tuple[list[str], int, list[str]]:
    """The match that was typed: its agents, the battles of each pairing, and the other overrides.

    Raises:
        UsageError: too few or too many agents, one of them twice, or an odd number of battles.
    """
    require_one_value(overrides)
    others = [override for override in overrides if override.partition("=")[0] not in OWN]
    _, settings = compose_single([override for override in overrides if override not in others])
    agents, battles = typed_list(settings.run.checkpoints or "[]"), settings.run.match.battles
    n = len(agents)
    if n < 2:
        raise UsageError(
            f"A match has two agents or more, got {n}: type checkpoints='[A, B, builtin, closest]' "
            "with paths of checkpoints, names of scripted policies, and builtin for the enemies of "
            "the environment itself."
        )
    if several := [name for name, times in Counter(agents).items() if times > 1]:
        raise UsageError(f"checkpoints: {several[0]} is listed twice. Keep one of them.")
    pairings = n * (n - 1) // 2
    if pairings >= MANY and typed_value(overrides, "match.battles") is None:
        raise UsageError(
            f"{n} agents are {pairings:,} pairings, with match.battles={battles} "
            f"{pairings * battles:,} battles: type match.battles=N if you mean that, or leave out "
            "some agents."
        )
    if battles % 2 and n - (BUILTIN in agents) > 1:
        raise UsageError(
            f"match.battles={battles}: the agents of a pairing play half of the battles on each "
            "side. Expected an even number."
        )
    return agents, battles, others


def open_agents(typed: Sequence[str], overrides: Sequence[str]) -> list[MatchAgent]:
    """The agents that were typed, all with the same environment.

    Raises:
        CheckpointError: a checkpoint that is not there or cannot be trusted.
        UsageError: an unknown name, or agents that cannot play each other.
    """
    from rltrain.mode.evaluate import open_checkpoint

    keys = {override.lstrip("+~").partition("=")[0]: override for override in overrides}
    for key, instead in NOT_TYPED.items():
        if key in keys:
            raise UsageError(f"{keys[key]}: {instead}. Leave it out.")
    overrides = [*overrides, *(each for each in DEFAULTS if each.partition("=")[0] not in keys)]
    agents = [MatchAgent(BUILTIN)] * len(typed)
    for i, path in enumerate(typed):
        if is_checkpoint(path):
            alone = [*overrides, f"test.opponent={BUILTIN}"]
            source, settings = open_checkpoint(path, alone, None, plays=True)
            agents[i] = MatchAgent(opponent_name(str(source.folder)), source, settings)
    trained = [agent.settings for agent in agents if agent.settings is not None]
    for i, name in enumerate(typed):
        if agents[i].source is None and name != BUILTIN:
            agents[i] = MatchAgent(name, settings=scripted(name, trained, overrides))
    require_same_environment(agents)
    return agents


def scripted(name: str, trained: Sequence[Settings], overrides: Sequence[str]) -> Settings:
    """A scripted policy in the environment of the checkpoints, or in the one that was typed.

    Raises:
        UsageError: there is none by this name.
    """
    if name not in SCRIPTED:
        raise UsageError(
            f"checkpoints: '{name}' is not an agent: expected builtin, a scripted policy "
            f"({', '.join(SCRIPTED)}), or a checkpoint, and there is no such folder here."
        )
    if not trained:
        typed = [*overrides, "mode=evaluate", "algo=scripted", f"algo.policy={name}"]
        return compose_single(typed)[1]
    first = trained[0]
    tree = {**first.plain, "algo": {"_target_": "rltrain.algo.Scripted", "policy": name}}
    groups = {group: one for group, one in first.choices.items() if not group.startswith("algo/")}
    return check(tree, {**groups, "algo": "scripted"}, {})


def require_same_environment(agents: Sequence[MatchAgent]) -> None:
    """UsageError unless all agents play in the same environment, and their names differ."""
    names = Counter(agent.name for agent in agents)
    if several := [name for name, times in names.items() if times > 1]:
        raise UsageError(
            f"checkpoints: two agents have the name {several[0]}, that of the run's folder and "
            "of the checkpoint. Leave out one of them, or rename a folder."
        )
    first, *others = (agent for agent in agents if agent.settings is not None)
    here = environment(first)
    for agent in others:
        there = environment(agent)
        differ = sorted(k for k in {*here, *there} if here.get(k) != there.get(k))
        if differ:
            at, key = differ[0], ".".join(differ[0])
            n_more = 0 if at == KIND else len(differ) - 1
            more = f", and {n_more} more keys differ" if n_more else ""
            raise UsageError(
                f"checkpoints: {first.name} has {key}={here.get(at)} and {agent.name} "
                f"{key}={there.get(at)}{more}. All agents of a match play in one environment: "
                "leave out those of another map or size, or type the options that all of them are "
                "to have."
            )
    assert first.settings is not None
    if not first.settings.nodes["test.env"].asks_for("two_sided"):
        raise UsageError(
            f"A match needs an environment with two sides, and env={here[KIND]} has one: type "
            "env=smac or env=smacv2, or leave out the checkpoints of others."
        )


def environment(agent: MatchAgent) -> Leaves:
    """The name of the environment of tests and its options, without those of opponents."""
    assert agent.settings is not None
    plain = agent.settings.plain
    options: Mapping[str, object] = {"env": plain["env"], "test": {"env": plain["test"]["env"]}}
    return {KIND: agent.settings.choices["env"]} | {
        names: value
        for names, value in leaves(options)
        if not names[-1].startswith("opponent") and "opponents" not in names
    }


def playing(agent: MatchAgent, enemy: MatchAgent, episodes: int, **changes: Any) -> Settings:
    """The settings of battles of an agent against another one."""
    assert agent.settings is not None
    run = agent.settings.run
    test = replace(run.test, opponent=enemy.opponent, episodes=episodes)
    folders = {enemy.opponent: enemy.source.folder} if enemy.source else {}
    run = replace(run, test=test, **changes)
    return replace(agent.settings, run=run, opponent_folders=folders)
