"""Start-up warnings: settings that are valid but probably unintended.

To add one: a generator of messages, listed in ``WARNINGS``.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator

from rltrain.common.checkpoint import SPEC
from rltrain.common.space_record import mask_entries
from rltrain.config.schema import Settings
from rltrain.trainer import Trainer
from rltrain.types import Clock

log = logging.getLogger("rltrain")
LARGE = 100
"""Observations beyond this are hardly learned from."""


def warn(settings: Settings, trainer: Trainer) -> None:
    """Log every warning that applies."""
    for remark in settings.remarks:
        log.warning("%s", remark)
    for warnings in WARNINGS:
        for message in warnings(settings, trainer):
            log.warning(message)


def exploration_warnings(settings: Settings, trainer: Trainer) -> Iterator[str]:
    """Exploration that is missing, doubled, constant by accident, or much longer than the run."""
    if settings.run.dataset.read is not None:
        return
    now = trainer.actor.exploration_metrics(Clock())
    ends, total = trainer.actor.explores_until(), settings.run.total_env_steps
    keys = settings.nodes["algo.exploration"].kwargs
    network = settings.nodes["algo.network"]
    noisy = network.kwargs.get("noisy_sigma") is not None
    known = network.target.startswith("rltrain.")
    name = settings.choices.get("algo/exploration", "")
    if now.get("epsilon") == 0 and ends is None and known and not noisy:
        yield (
            "nothing explores: epsilon is 0 throughout, and the network has no noisy layers. Type "
            "algo/exploration=epsilon_greedy or algo.network.noisy_sigma=0.5."
        )
    if noisy and (now.get("epsilon", 0) > 0 or "temperature" in now):
        yield (
            f"noisy layers and algo/exploration={name} both explore. Type algo/exploration=greedy "
            "for noisy layers alone, algo.network.noisy_sigma=null for the other alone."
        )
    if {"base", "alpha"} <= set(keys) and settings.hardware.n_envs == 1:
        yield (
            f"algo/exploration={name} gives every environment an epsilon of its own, and there is "
            f"one environment: epsilon stays {keys['base']:g}. Type hardware.n_envs=8, or "
            "algo/exploration=epsilon_greedy."
        )
    if ends is not None and ends > 2 * total:
        key = next((k for k in ("env_steps", "half_life", "points") if k in keys), "env_steps")
        yield (
            f"exploration falls until env step {ends:,}, but the run ends at {total:,}, before "
            f"half of that. Set algo.exploration.{key} to less, or total_env_steps to more."
        )


def team_warnings(settings: Settings, trainer: Trainer) -> Iterator[str]:
    """Differences of a team's environment from what was typed."""
    envs = getattr(getattr(trainer.rollout, "env", None), "envs", ())
    yield from getattr(envs[0], "remarks", ()) if envs else ()


def learning_warnings(settings: Settings, trainer: Trainer) -> Iterator[str]:
    """Runs in which hardly a gradient step can be made: stored are the run's env steps and the
    final observation of every episode.
    """
    algo, total = settings.algo, settings.run.total_env_steps
    if algo is not None and settings.run.dataset.read is None and algo.learning_starts >= total:
        yield (
            "learning may never begin: it waits for "
            f"algo.learning_starts={algo.learning_starts:,} stored steps, but the run ends at env "
            f"step {total:,}. Set algo.learning_starts to less, or total_env_steps to more."
        )


LONG_PERIOD = 10
"""Polyak averaging with a longer period than this hardly moves the target network."""


def target_update_warnings(settings: Settings, trainer: Trainer) -> Iterator[str]:
    """A Polyak factor on a period that was meant for copies."""
    node = settings.nodes["algo.target_update"]
    tau = node.kwargs.get("tau", 1.0)
    periods = {k: node.kwargs.get(k) for k in ("episodes", "env_steps", "updates")}
    unit, period = next(((k, v) for k, v in periods.items() if v is not None), ("", 0))
    if tau < 1 and period > LONG_PERIOD:
        half = math.log(0.5) / math.log(1 - tau) * period
        unset = "" if unit == "updates" else f"algo.target_update.{unit}=null "
        yield (
            f"the target network moves {100 * tau:g}% of the way every {period:,} {unit} "
            f"(algo.target_update.tau={tau:g}), so that half of the way takes {half:,.0f} {unit}. "
            f"Type {unset}algo.target_update.updates=1 to move it at every gradient step, or "
            "algo.target_update.tau=1 to copy it."
        )


PRIORITY_KEYS = ("alpha", "beta", "beta_end", "beta_env_steps", "priority_floor", "eta")


def unread_key_warnings(settings: Settings, trainer: Trainer) -> Iterator[str]:
    """Keys that neither the chosen sampler nor the network reads."""
    node = settings.nodes.get("buffer")
    if node is None:
        return
    typed = [f"buffer.{k}" for k in PRIORITY_KEYS if f"buffer.{k}" in settings.typed]
    if typed and node.kwargs.get("sampler") == "uniform":
        yield (
            f"nothing reads {', '.join(typed)}: samples are drawn uniformly. Type "
            "buffer.sampler=proportional to draw them by priority."
        )
    if trainer.learner.online.agents.hidden_dim == 0:
        memory = {"burn_in": 0, "first_hidden": "zero"}
        unread = [k for k, idle in memory.items() if node.kwargs.get(k, idle) != idle]
        if unread:
            yield (
                f"nothing reads {', '.join(f'buffer.{k}' for k in unread)}: the network has no "
                "recurrent state. Type algo/network=gru for one that has."
            )


def stopping_warnings(settings: Settings, trainer: Trainer) -> Iterator[str]:
    """A metric to stop on that this run does not report."""
    metric = settings.run.stop.metric
    if metric is None or settings.callbacks:
        return
    why = ""
    if metric.endswith("/win_rate") and not trainer.about[SPEC]["reports_win"]:
        env = settings.choices["env"]
        why = f"env={env} does not say that its episodes are won or lost (info['win'])"
    elif metric.startswith("custom/"):
        why = "custom metrics come from callbacks, and none is set"
    elif metric == "learn/lr" and settings.algo and settings.algo.lr_factors is None:
        why = "it is reported with algo.lr_factors only"
    elif metric == "learn/clipped_target_mass" and not categorical(settings):
        why = "it is reported with algo/distribution=categorical only"
    elif metric.startswith("offline/") and settings.run.dataset.read is None:
        why = "it is reported with dataset.read only"
    elif metric.startswith("train/") and settings.run.dataset.read is not None:
        why = "a run that reads a dataset plays in tests only"
    elif metric in ("train/epsilon", "train/temperature", "train/noise_stddev"):
        reported = trainer.actor.exploration_metrics(Clock())
        if metric.removeprefix("train/") not in reported:
            why = f"algo/exploration={settings.choices.get('algo/exploration')} has none"
    if why:
        yield (
            f"the run will not stop on stop.metric={metric}: {why}. Type for example "
            "stop.metric=test/return_mean."
        )


def categorical(settings: Settings) -> bool:
    """Whether values are a categorical distribution."""
    return "atoms" in settings.nodes["algo.distribution"].kwargs


def image_warnings(settings: Settings, trainer: Trainer) -> Iterator[str]:
    """Images for a network without convolutions."""
    network, shape = settings.nodes["algo.network"].target, trainer.about[SPEC]["obs_shape"]
    plain = trainer.learner.online.agents.hidden_dim == 0 and not network.endswith(".conv_agents")
    if len(shape) == 3 and plain:
        name = settings.choices.get("algo/network", network)
        yield (
            f"observations are images {'×'.join(map(str, shape))}, and algo/network={name} takes "
            "their pixels one by one. algo/network=conv has convolutions."
        )
    space = trainer.about[SPEC]["obs_space"] or {}
    images = [key for key, one in space.get("dict", []) if {"channels", "high"} <= set(one)]
    if images and not network.endswith(".multi_input_agents"):
        name = settings.choices.get("algo/network", network)
        yield (
            f"some keys of the observations are images, and algo/network={name} takes their pixels "
            "one by one. algo/network=multi_input has convolutions for them."
        )


def space_warnings(settings: Settings, trainer: Trainer) -> Iterator[str]:
    """Observations that mean something else than the networks take them for."""
    space = trainer.about[SPEC]["obs_space"] or {}
    if masks := mask_entries(space):
        yield (
            f"the observation's entry {', '.join(masks)} is learned from and masks no actions. Put "
            "the mask of a single agent into info['action_mask'], of reset() and of every step()."
        )
    normalized = settings.nodes["algo.network"].kwargs.get("normalize_obs")
    if space.get("high", 0) > LARGE and "channels" not in space and not normalized:
        yield (
            f"observations are whole numbers as large as {space['high']} and reach the network as "
            "they are, since they are no image. Type algo.network.normalize_obs=true, if they "
            "really are so large."
        )


def memory_warnings(settings: Settings, trainer: Trainer) -> Iterator[str]:
    """A recurrent network that learns from single transitions without what came before."""
    node = settings.nodes.get("buffer")
    if node is None or trainer.learner.online.agents.hidden_dim == 0:
        return
    alone = {"sequence_length": 1, "burn_in": 0, "first_hidden": "zero"}
    if all(node.kwargs.get(key) == value for key, value in alone.items()):
        yield (
            "the network remembers, but it learns from single transitions "
            f"(buffer={settings.choices.get('buffer', 'replay')}) with nothing remembered before "
            "them. buffer=sequence has windows of several, buffer=episode whole episodes, "
            "algo/network=mlp no memory."
        )


WARNINGS: tuple[Callable[[Settings, Trainer], Iterator[str]], ...] = (
    exploration_warnings,
    team_warnings,
    learning_warnings,
    target_update_warnings,
    unread_key_warnings,
    stopping_warnings,
    image_warnings,
    space_warnings,
    memory_warnings,
)
