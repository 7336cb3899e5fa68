"""Start-up warnings: settings that are valid but probably unintended, rows of
``config/combinations.yaml``, and the facts that these name.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from rltrain.callback.training import EvaluationRollouts
from rltrain.common.checkpoint import SPEC, Found
from rltrain.common.checkpoint.opponent_files import BUILTIN, SELF
from rltrain.common.files import json_object
from rltrain.common.spec_record import mask_entries
from rltrain.config.combinations import Facts
from rltrain.config.overrides import is_below, overlaid
from rltrain.config.schema import Settings
from rltrain.config.validate.constructor import brief
from rltrain.logger.screen import shown
from rltrain.mode.find_run import training_run
from rltrain.trainer import Trainer
from rltrain.types import Clock, SpecRecord

log = logging.getLogger("rltrain")


def warn(messages: Iterable[str]) -> None:
    """Log warnings, or remarks on what was chosen."""
    for message in messages:
        log.warning("%s", message)


def warnings(settings: Settings, trainer: Trainer) -> Iterator[str]:
    """Yield every warning that applies at the start of a run."""
    yield from settings.remarks
    facts = Facts(
        settings.plain,
        choices=settings.choices,
        agents=trainer.learner.online.agents,
        **schedule_facts(settings, trainer),
        **env_facts(settings, trainer.about[SPEC], trainer.rollout.about, training=True),
        two_sided_training=settings.is_two_sided(training=True),
        two_sided_tests=settings.is_two_sided(training=False),
        time_steps=trainer.steps_per_collect,
        collected=trainer.steps_per_collect * settings.hardware.n_envs,
    )
    yield from unread(settings, facts)
    if settings.run.dataset.read is None:
        yield from facts.messages("exploration", "warned")
    envs = getattr(getattr(trainer.rollout, "env", None), "envs", ())
    yield from getattr(envs[0], "remarks", ()) if envs else ()  # of a team
    yield from facts.messages("learning", "warned")
    if settings.run.stop.metric is not None and not settings.callbacks:
        yield from islice(facts.messages("stopping", "warned"), 1)
    yield from facts.messages("network", "warned")


def remarks_on_tests(
    settings: Settings, source: Found | None, rollout: EvaluationRollouts
) -> tuple[str, ...]:
    """The remarks on the choice and the rules of the checkpoints that play, and on every typed key
    that a mode which only plays test episodes does not read as it is configured.
    """
    folders = [*([source.folder] if source else []), *settings.opponent_folders.values()]
    rules = (text for folder in folders for text in other_rules(folder, rollout.about))
    chosen = (*(source.remarks if source else ()), *settings.remarks)
    facts = Facts(
        overlaid(settings.plain, asdict(settings.run)),
        choices=settings.choices,
        **env_facts(settings, rollout.env.spec.record, rollout.about, training=False),
    )
    return (*chosen, *rules, *unread(settings, facts))


def other_rules(checkpoint_folder: Path, about: Mapping[str, object]) -> tuple[str, ...]:
    """A remark if a checkpoint was trained under another version of the environment's rules than
    ``about`` the environment of this run says.
    """
    trained = json_object(training_run(checkpoint_folder) / "run.json").get("environment")
    trained = trained if isinstance(trained, dict) else {}
    before, now = trained.get("rules_version", trained.get("rules")), about.get("rules_version")
    same = {*str(before).split(", ")} & {*str(now).split(", ")}  # of several maps there may be two
    if trained.get("backend") != "native" or None in (before, now) or same:
        return ()
    return (
        f"{shown(checkpoint_folder)} was trained under version {brief(before)} of the battle rules "
        f"and plays under version {now}: win rates of the two cannot be compared. Train again to "
        "compare them.",
    )


def unread(settings: Settings, facts: Facts) -> Iterator[str]:
    """Yield a message for every typed key that nothing reads, but not of parts of one's own."""
    targets = {path: str(facts.value(f"{path}._target_")) for path in settings.nodes}
    own = [path for path, target in targets.items() if not target.startswith("rltrain.")]
    yield from facts.unread(key for key in settings.typed if not is_below(key, own))


def schedule_facts(settings: Settings, trainer: Trainer) -> dict[str, object]:
    """Return how a run explores at its start, and until when, and how fast Polyak averaging moves
    the target network.
    """
    keys = settings.nodes["algo.exploration"].kwargs
    now = trainer.actor.exploration.metrics(Clock())
    ends = (key for key in ("env_steps", "half_life", "points") if key in keys)
    explores = {
        "explores": now,
        "explored": now.get(str(settings.run.stop.metric).removeprefix("train/")),
        "explores_until": trainer.actor.exploration.ends_at(),
        "twice_total": 2 * settings.run.total_env_steps,
        "end_key": next(ends, "env_steps"),
    }
    keys = settings.nodes["algo.target_update"].kwargs
    tau, units = keys.get("tau", 1.0), ("episodes", "env_steps", "updates")
    unit = next((unit for unit in units if keys.get(unit) is not None), None)
    if unit is None or not 0 < tau < 1:
        return {**explores, "target_period": None}
    return {
        **explores,
        "target_period": keys[unit],
        "target_percent": 100 * tau,
        "target_half": math.log(0.5) / math.log1p(-tau) * keys[unit],
        "target_unit": unit,
        "target_unset": "" if unit == "updates" else f"algo.target_update.{unit}=null ",
    }


def env_facts(
    settings: Settings, spec: SpecRecord, about: Mapping[str, Any], *, training: bool
) -> dict[str, object]:
    """Return what is played, the opponents, which observations there are, and whether they, or
    parts of them, are images.
    """
    opponents = {*settings.opponent_weights(training=training)}
    shape, space = spec["obs_shape"], spec["obs_space"] or {}
    return {
        "played": about,
        "plays_itself": SELF in opponents,
        "commanded": training and not opponents <= {BUILTIN, "random"},
        "spec": spec,
        "image": "×".join(map(str, shape)) if len(shape) == 3 else None,
        "image_keys": any({"channels", "high"} <= set(one) for _, one in space.get("dict", [])),
        "masks": ", ".join(mask_entries(space)) or None,
        "any_image": "'channels'" in str((spec["obs_space"], spec["agents"])),
        "space": space,
    }
