"""The agents of a match: what was typed, opened and compared before anything is played."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rltrain.common import checkpoint
from rltrain.common.checkpoint.opponent_files import BUILTIN, SCRIPTED, is_checkpoint, opponent_name
from rltrain.config.compose import compose_single
from rltrain.config.overrides import Leaves, leaves
from rltrain.config.schema import Settings
from rltrain.config.validate.checker import check
from rltrain.errors import UsageError
from rltrain.mode.evaluate import open_checkpoint

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


def open_agents(typed: Sequence[str], overrides: Sequence[str]) -> list[MatchAgent]:
    """The agents that were typed, all with the same environment.

    Raises:
        CheckpointError: a checkpoint that is not there or cannot be trusted.
        UsageError: an unknown name, or agents that cannot play each other.
    """
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
