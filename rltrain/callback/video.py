"""Videos of tests during training."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from rltrain.callback.hooks import Callback, Due
from rltrain.callback.training import Training
from rltrain.hardware.rollout import Rollout
from rltrain.logger.loggers import Loggers
from rltrain.video.episode_recorder import EpisodeRecorder
from rltrain.video.recorder import Recording, make_recorder


class RecordVideo(Callback):
    """Records the first episode of a test, at step 0 and at the first test at or after each
    multiple of ``interval`` env steps, to ``recordings/<env_steps>/`` and the loggers; HTML pages
    to ``recordings/``.

    Args:
        page: title of an HTML page of the episode, which replaces the video.
    """

    state_names = ("due",)

    def __init__(self, *, interval: int, loggers: Loggers, page: str | None = None) -> None:
        self.due, self.loggers, self.page = Due(interval), loggers, page

    def on_test_start(self, trainer: Training, value: None = None) -> None:
        env_steps, trainer.tests.recorder = trainer.clock.env_steps, None
        folder = trainer.run_dir / "recordings"
        if self.due.reached(env_steps):
            with trainer.disk.attempt("a recording"):
                folder.mkdir(exist_ok=True)
                trainer.tests.recorder = self.recorder(trainer, folder)
                trainer.tests.recorder.disk = trainer.disk

    def recorder(self, trainer: Training, folder: Path) -> Recording:
        """A recorder of one episode, writing to ``folder``."""
        if self.page is None:
            return make_recorder(trainer.test_rollout.env, folder / str(trainer.clock.env_steps), 1)
        title = f"{self.page}, env step {trainer.clock.env_steps:,}"
        policy = cast(Rollout, trainer.test_rollout).policy
        return EpisodeRecorder(folder, 1, title, policy, trainer.learner.online.mixer)

    def on_test_end(self, trainer: Training, value: dict[str, float]) -> dict[str, float]:
        tests = trainer.tests
        if tests.recorder is not None:
            for path in tests.recorder.files.get(0, ()):
                if path.suffix == ".gif":
                    self.loggers.video(tests.clock, path)
            self.due(tests.clock.env_steps)  # not earlier: an interrupted test is repeated
        tests.recorder = None
        return value
