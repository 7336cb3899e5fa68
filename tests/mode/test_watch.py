"""mode=watch: episodes in the terminal, at their speed, and their videos."""

from io import StringIO
from types import SimpleNamespace

import numpy as np
import pytest

from rltrain.battles.engine.world import U
from rltrain.battles.render.sprites import TEAMS
from rltrain.env.smac import SmacVectorEnv
from rltrain.errors import UsageError
from rltrain.logger.screen import Screen
from rltrain.mode.watch import AROUND, UnitCamera, watch
from tests.video.test_recorder import rollout

SCREEN = {"width": 60, "height": 12}


def watched(folder, screen, monkeypatch):
    """Two episodes of two steps each; returns the seconds that were waited for."""
    settings = SimpleNamespace(
        title="qmix on a game",
        choices={"env": "game"},
        run=SimpleNamespace(test=SimpleNamespace(episodes=2), seed=0),
    )
    waited = []
    fakes = {
        "build": lambda *_: rollout(1),
        "evaluation_files.home": lambda _: folder,
        "Screen": lambda: screen,
        "sleep": waited.append,
        "remarks_on_tests": lambda *_: (),
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(f"rltrain.mode.watch.{name}", fake)
    watch(settings, SimpleNamespace(step=500))
    return waited


@pytest.fixture(autouse=True)
def no_mp4(monkeypatch):
    monkeypatch.setattr("rltrain.video.recorder.write_mp4", lambda gif: gif)


def test_a_terminal_shows_images_with_the_step_and_the_return(tmp_path, monkeypatch):
    out = StringIO()
    waited = watched(tmp_path, Screen(file=out, force_terminal=True, **SCREEN), monkeypatch)
    text = out.getvalue()
    assert "▀" in text
    assert "qmix on a game · episode 2 of 2 · step 2 · return" in text
    assert "episode 1: return" in text
    assert "2 steps" in text
    assert len(waited) == 2 * (1 + 3 + 3), "every image is shown"
    assert max(waited) > 1, "a pause after the first episode"
    assert len(list((tmp_path / "recordings/500").glob("*.gif"))) == 2


def test_without_a_terminal_episodes_are_recorded_only(tmp_path, monkeypatch):
    out = StringIO()
    assert not watched(tmp_path, Screen(file=out, **SCREEN), monkeypatch)
    assert "is not a terminal" in out.getvalue()
    assert "▀" not in out.getvalue()
    assert len(list((tmp_path / "recordings/500").glob("*.gif"))) == 2


def test_a_battle_is_shown_as_far_as_its_units_are():
    env = SmacVectorEnv(map_name="3m", n_envs=1)
    env.reset(lambda e, k: 0)
    units = UnitCamera(env)
    whole = env.render([0])[0][-1]
    part = units(whole, True)
    x, y = env.drawing(0).columns["x"], env.drawing(0).columns["y"]
    ratio = (np.ptp(x) + 2 * AROUND) / (np.ptp(y) + 2 * AROUND)
    assert part.shape[1] / part.shape[0] == pytest.approx(ratio, rel=0.05)
    assert part.size < whole.size / 3
    for color in ("body", "light"):
        seen = {team[color]: (part == team[color]).all(-1).sum() for team in TEAMS}
        assert seen == {team[color]: (whole[24:-26] == team[color]).all(-1).sum() for team in TEAMS}
    env.battles.world.unit[0, U.X, 0] += 3
    assert units(whole, False).size >= part.size, "it only grows"


@pytest.mark.slow
def test_what_cannot_be_watched_is_refused(command, trained):
    with pytest.raises(UsageError, match="mode=watch: env 'two_step' cannot be drawn"):
        command("mode=watch", f"checkpoint={trained}")
    assert not (trained / "recordings").exists()
    with pytest.raises(UsageError, match="leave out record=false"):
        command("mode=watch", f"checkpoint={trained}", "record=false")


@pytest.mark.slow
def test_runs_whose_tests_other_processes_played_can_be_watched(command, own_folder, monkeypatch):
    """Defect: test.n_workers of the run was refused, and so was every other value."""
    monkeypatch.setattr("rltrain.mode.watch.sleep", lambda seconds: None)
    words = ["env=smac", "total_env_steps=30", "test.n_workers=1", "test.episodes=1", "logger=[]"]
    assert command(*words, "hydra.run.dir=run", "hardware.n_envs=1", "test.n_envs=1") == 0
    assert command("mode=watch", "checkpoint=run", "test.episodes=1") == 0
