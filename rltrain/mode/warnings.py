"""What a run is told before it begins: settings that are allowed and hardly meant."""

from __future__ import annotations

import logging

from rltrain.config.schema import Settings
from rltrain.trainer import SPEC, Trainer

log = logging.getLogger("rltrain")


def warn(settings: Settings, trainer: Trainer) -> None:
    """All of it, in the log and on the screen."""
    for remark in settings.remarks:
        log.warning("%s", remark)
    warn_of_exploration(settings, trainer)
    warn_of_learning(settings)
    warn_of_pixels(settings, trainer)
    warn_of_memory(settings, trainer)


def warn_of_exploration(settings: Settings, trainer: Trainer) -> None:
    """Say so where the exploration would still be changing when the run ends."""
    ends, total = trainer.actor.explores_until(), settings.run.total_env_steps
    if ends is None or ends < total:
        return
    keys = settings.nodes["algo.exploration"].kwargs
    key = next(k for k in ("env_steps", "half_life", "points") if k in keys)
    log.warning(
        "the exploration changes until env step %s, but the run ends at %s: it never plays as "
        "algo.exploration says at its end. Set algo.exploration.%s to less, or total_env_steps to "
        "more.",
        f"{ends:,}",
        f"{total:,}",
        key,
    )


def warn_of_learning(settings: Settings) -> None:
    """Say so where hardly a gradient step can be made: stored are the run's env steps and the final
    observation of every episode.
    """
    algo, total = settings.algo, settings.run.total_env_steps
    if algo is not None and settings.run.dataset.read is None and algo.learning_starts >= total:
        log.warning(
            "learning may never begin: it waits for algo.learning_starts=%s stored steps, but the "
            "run ends at env step %s. Set algo.learning_starts to less, or total_env_steps to "
            "more.",
            f"{algo.learning_starts:,}",
            f"{total:,}",
        )


def warn_of_pixels(settings: Settings, trainer: Trainer) -> None:
    """Say so where a network without convolutions gets images."""
    network, shape = settings.nodes["algo.network"].target, trainer.about[SPEC]["obs_shape"]
    plain = trainer.learner.online.agents.hidden_dim == 0 and not network.endswith(".conv_agents")
    if len(shape) == 3 and plain:
        log.warning(
            "observations are images %s, and algo/network=%s takes their pixels one by one. "
            "algo/network=conv has convolutions.",
            "×".join(map(str, shape)),
            settings.choices.get("algo/network", network),
        )


def warn_of_memory(settings: Settings, trainer: Trainer) -> None:
    """Say so where a recurrent network learns from single transitions without what came before."""
    node = settings.nodes.get("buffer")
    if node is None or trainer.learner.online.agents.hidden_dim == 0:
        return
    alone = {"sequence_length": 1, "burn_in": 0, "first_hidden": "zero"}
    if all(node.kwargs.get(key) == value for key, value in alone.items()):
        log.warning(
            "the network remembers, but it learns from single transitions (buffer=%s) with nothing "
            "remembered before them. buffer=sequence has windows of several, buffer=episode whole "
            "episodes, algo/network=mlp no memory.",
            settings.choices.get("buffer", "replay"),
        )
