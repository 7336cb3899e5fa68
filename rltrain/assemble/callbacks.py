"""The callbacks of a run, in order, and its loggers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rltrain import callback
from rltrain.algo.learner import Learner
from rltrain.common.conformance import conform, require_savable
from rltrain.config.combinations import require_fit
from rltrain.config.schema import Settings
from rltrain.errors import usage_errors
from rltrain.interfaces import VectorEnv
from rltrain.logger.loggers import Logger, Loggers


def build_callbacks(
    settings: Settings,
    loggers: Loggers,
    exploration: object,
    first: Sequence[callback.Callback],
    last: Sequence[callback.Callback],
) -> callback.Callbacks:
    """Build the callbacks of a run, in order: the user's own before those that test, log and save.

    Raises:
        ValueError: one of them may change batches whose target values are kept.
    """
    run, own = settings.run, [node.build() for node in settings.callbacks]
    parts = [("algo.exploration", exploration), *(("callbacks", each) for each in own)]
    watchers = callback.Callbacks(
        [
            *first,
            *own,
            callback.Test(interval=run.test.interval, loggers=loggers),
            callback.Log(interval=run.log.interval, loggers=loggers, exploration=exploration),
            callback.DrawCurve(title=settings.title),
            callback.Stop(**asdict(run.stop)),
            callback.Health(),
            callback.Save(
                interval=run.save.interval, replay_buffer=run.save.replay_buffer, parts=parts
            ),
            *last,
            # behind all that may replace some
            callback.ReplacedCode(choice=settings.hardware.kernels),
        ]
    )
    require_fit("callbacks", settings, watchers=watchers)
    for each in watchers.callbacks:
        require_savable(each, "callbacks")
    return watchers


def obs_statistics(learner: Learner) -> list[callback.Callback]:
    """Build the callbacks that keep the statistics of networks which normalize observations, those
    of a critic included; they stand before user operators, so that they count as they were seen.
    """
    parts = (learner.online.agents, learner.online.critic)
    norms = (part.obs_norm for part in parts if part is not None)
    return [callback.ObsStatistics(update=norm.update) for norm in norms if norm is not None]


def video_recorder(settings: Settings, env: VectorEnv, loggers: Loggers) -> list[callback.Callback]:
    """Build the callback that records videos of tests, if ``test.video_interval`` is set.

    Raises:
        UsageError: the environment cannot be drawn.
    """
    interval, record = settings.run.test.video_interval, settings.run.test.record
    if interval is None or not record:
        return []
    from rltrain.callback.video import RecordVideo
    from rltrain.video.episode_recorder import require_drawing
    from rltrain.video.recorder import require_drawable

    key, name = "test.video_interval", settings.choices["env"]
    if record == "html":
        require_drawing(env, name, "test.record=html", "test.record=video")
        return [RecordVideo(interval=interval, loggers=loggers, page=settings.title)]
    require_drawable(env, name, f"{key}={interval}", f"{key}=null")
    return [RecordVideo(interval=interval, loggers=loggers)]


def build_loggers(settings: Settings, run_dir: Path) -> list[Logger]:
    """Build the loggers that ``logger=[…]`` chooses.

    Raises:
        UsageError: a package that one of them needs is not installed.
    """
    nodes = [node for path, node in settings.nodes.items() if path.startswith("logger.")]
    used = [node for node in nodes if node.kwargs.get("mode") != "disabled"]
    with usage_errors():
        built = [node.build(run_dir=run_dir, config=settings.record) for node in used]
        return [conform(each, Logger, "logger") for each in built]
