"""mode=watch: test episodes shown in the terminal while they are played, and their videos."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import monotonic, sleep

import numpy as np
from rich.console import Group
from rich.live import Live
from rich.text import Text

from rltrain.common.checkpoint import Found
from rltrain.config.schema import Settings
from rltrain.interfaces import VectorEnv, Watch
from rltrain.logger.screen import Screen
from rltrain.mode import evaluation_files
from rltrain.mode.evaluate import build
from rltrain.mode.messages.warnings import remarks_on_tests
from rltrain.types import Clock, Episode
from rltrain.video.blocks import Blocks
from rltrain.video.recorder import Recorder, make_recorder, require_drawable

PAUSE = 1.0  # seconds between two episodes
AROUND = 2.0  # cells shown around the units of a battle


def watch(settings: Settings, source: Found | None) -> None:
    """Show episodes played with the weights of a checkpoint, or by the scripted policy of ``algo``,
    if the output is a terminal, and write their videos.

    Raises:
        UsageError: an environment that cannot be drawn.
        StorageError: not every video was written.
    """
    rollout, screen = build(settings, source), Screen()
    try:
        env, n = rollout.env, settings.run.test.episodes
        require_drawable(env, settings.choices["env"], "mode=watch", "mode=evaluate")
        place = evaluation_files.home(source) or evaluation_files.results_folder()
        folder = evaluation_files.recordings_folder(place, source.step if source else 0)
        recorder, stage = make_recorder(env, folder, n), ImageDisplay(settings.title, n, screen)
        if not screen.is_terminal:
            screen.lines("The output is not a terminal, so episodes are only recorded.")
        elif isinstance(recorder, Recorder):
            stage.seconds = 1 / (env.frames_per_second or 1)
            recorder.show = stage.show
            if env.has_drawing:
                stage.cropped = UnitCamera(env)
        with stage.live:
            rollout.run_episodes(n, settings.run.seed, Clock(), [recorder, stage])
    finally:
        rollout.close()
    screen.lines(
        *evaluation_files.recording_remarks(recorder), *remarks_on_tests(settings, source, rollout)
    )
    if recorder.disk.degraded:
        raise evaluation_files.unwritten(recorder.folder)


class UnitCamera:
    """The part of an environment's images in which its units have been in the current episode."""

    def __init__(self, env: VectorEnv) -> None:
        self.env = env
        self.box = np.zeros(4)

    def __call__(self, image: np.ndarray, begins: bool) -> np.ndarray:
        """A part of the image; ``begins`` with the first image of an episode."""
        world, _, columns = self.env.drawing(0)
        if "picture" not in world:
            return image
        x0, y0, x1, _ = world["bounds"]
        left, top, right, bottom = world["picture"]
        scale, there = (right - left) / (x1 - x0), columns["health"] > 0
        x = left + (columns["x"][there] - x0) * scale
        y = bottom - (columns["y"][there] - y0) * scale
        if there.any():
            box = np.array([x.min(), y.min(), -x.max(), -y.max()]) - AROUND * scale
            self.box = box if begins else np.minimum(self.box, box)
        box = np.clip(self.box * [1, 1, -1, -1], [left, top] * 2, [right, bottom] * 2)
        left, top, right, bottom = box.astype(int)
        return image[top:bottom, left:right]


class ImageDisplay(Watch):
    """Shows the images of one environment at their speed, with a line of numbers below, and prints
    a line for each finished episode.
    """

    def __init__(self, title: str, n: int, screen: Screen) -> None:
        self.title, self.n, self.screen = title, n, screen
        self.live = Live(console=screen, auto_refresh=False, transient=True)
        self.seconds = 0.0  # that an image is shown
        self.cropped: Callable[[np.ndarray, bool], np.ndarray] = lambda image, begins: image
        self.due = monotonic()  # of the next image
        self.steps, self.total = 0, 0.0  # of the current episode

    def show(self, number: int, images: Sequence[np.ndarray]) -> None:
        """Show the next images of an episode."""
        caption = f"{self.title} · episode {number + 1} of {self.n} · step {self.steps}"
        line = Text(f"{caption} · return {self.total:.2f}", no_wrap=True, overflow="ellipsis")
        for image in (self.cropped(image, self.steps == 0) for image in images):
            sleep(max(0.0, self.due - monotonic()))
            self.due = max(self.due, monotonic() - self.seconds) + self.seconds
            self.live.update(Group(Blocks(image, self.screen.height - 2), line), refresh=True)

    def __call__(
        self, env: VectorEnv, numbers: Sequence[int], finished: Mapping[int, Episode]
    ) -> None:
        for e, episode in finished.items():
            if numbers[e] >= self.n:
                continue
            ended = "won" if episode.info.get("win") else "lost"
            ended = "drawn" if episode.info.get("draw") else ended
            won = f", {ended}" if "win" in episode.info else ""
            self.screen.print(
                f"episode {numbers[e] + 1}: return {episode.episode_return:.2f}, "
                f"{episode.length} steps{won}"
            )
            self.due += PAUSE
            self.steps, self.total = -1, 0.0  # the next step is the reset

    def stepped(self, action: np.ndarray, reward: np.ndarray, terminated: np.ndarray) -> None:
        self.steps, self.total = self.steps + 1, self.total + float(reward.mean())
