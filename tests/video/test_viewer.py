"""The page to look into episodes: its numbers are those that were played."""

import html
import json
import re
import shutil
import subprocess

import numpy as np
import pytest
import torch

from rltrain.algo import QMix, Sum
from rltrain.env import lbf_env, mpe_env, rware_env
from rltrain.env.games.matrix import TwoStepGames
from rltrain.env.games.stag_hunt import StagHunt
from rltrain.env.smac import SmacVectorEnv
from rltrain.errors import UsageError
from rltrain.hardware.rollout import Rollout
from rltrain.interfaces import Watch
from rltrain.types import Clock, Drawing, EnvSpec
from rltrain.video.episode_recorder import (
    EpisodeRecorder,
    mixed,
    packed,
    require_drawing,
    write_viewer,
)
from tests.env.games.test_classic_control import made
from tests.env.games.test_stag_hunt import SETTINGS
from tests.env.scripted import Zeros
from tests.env.team.test_benchmarks import LBF, MPE, RWARE
from tests.video.viewer import read_page, unpacked

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
EVIL = "</script><script>document.title='stolen_title'</script>"


class Valuing(Zeros):
    """Takes available actions by values drawn at random."""

    def __init__(self, env):
        self.rng, self.q = np.random.default_rng(3), None

    def act(self, obs, avail_actions, last, clock):
        self.q = self.rng.normal(0, 5, avail_actions.shape).astype(np.float32)
        return np.where(avail_actions, self.q, -np.inf).argmax(-1)


class Spy(Watch):
    """Keeps copies of what is true at every time step, by episode."""

    def __init__(self, policy):
        self.policy, self.steps, self.open = policy, {}, {}

    def __call__(self, env, numbers, finished):
        self.open = {}
        for e, number in enumerate(numbers):
            columns = {k: v.copy() for k, v in env.drawing(e).columns.items()}
            step = {**columns, "avail": env.avail_actions[e].copy()}
            self.steps.setdefault(number, []).append(step)
            self.open |= {} if e in finished else {e: step}

    def stepped(self, action, reward, terminated):
        for e, step in self.open.items():
            step |= {"q": self.policy.q[e], "action": action[e].copy(), "reward": reward[e].copy()}


def played(folder, env, n, **options):
    """The page of n episodes with its data, what was true, and the episodes."""
    policy = Valuing(env)
    spy, recorder = Spy(policy), EpisodeRecorder(folder, n, "some play", policy, **options)
    episodes = Rollout(env=env, policy=policy).run_episodes(n, 0, Clock(), [spy, recorder])
    (file,) = {path for paths in recorder.files.values() for path in paths}
    text = file.read_text()
    assert set(recorder.files) == set(range(n))
    return text, read_page(text), spy.steps, episodes


@pytest.mark.parametrize(
    "array",
    [
        np.random.default_rng(0).normal(0, 7, (40, 3, 5)).astype(np.float32),
        np.random.default_rng(0).uniform(-900, 900, (40, 6)).astype(np.float32),
        np.random.default_rng(0).uniform(0, 1e-4, (40, 6)).astype(np.float32),
        np.full((3, 2), 1e9),
        np.array([[0, 1], [-1, 70_000], [255, 3]]),
        np.zeros((1, 2, 3), np.bool_),
        np.zeros((0, 4), np.float32),
    ],
)
def test_packed_numbers_are_read_back(array):
    (_, *how), planes = packed("x", array)
    back = unpacked(planes, *how)
    exact = array.dtype.kind in "ib"
    spread = min(np.ptp(array), 1) / 1024 if array.size and not exact else 0
    assert np.abs(back - array).max(initial=0) <= spread + 1e-9


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
@pytest.mark.parametrize("n_bad", [1, 254, 255, 256])
def test_numbers_that_are_not_finite_are_left_out(bad, n_bad):
    """Defect: the page was not written, and the evaluation or the run ended."""
    array = np.arange(256.0).reshape(64, 4)
    array.flat[:n_bad] = bad
    (_, *how), planes = packed("x", array)
    back = unpacked(planes, *how)
    assert np.isnan(back.flat[:n_bad]).all()
    assert np.abs(back.flat[n_bad:] - array.flat[n_bad:]).max(initial=0) < 1e-3


class Odd(Valuing):
    """Values that are not finite."""

    def act(self, obs, avail_actions, last, clock):
        action = super().act(obs, avail_actions, last, clock)
        self.q[:, 0, 0], self.q[:, 1] = np.nan, np.inf
        return action


@pytest.mark.parametrize(
    ("name", "env"),
    [
        ("battle", lambda: SmacVectorEnv(map_name="3m", n_envs=1)),
        ("episodes", lambda: StagHunt(n_envs=1, **SETTINGS)),
    ],
)
def test_pages_are_numbered_past_those_that_are_there(tmp_path, name, env):
    for there in ("battle-7.html", "episodes-7.html", f"{name}-8-copy.html"):
        (tmp_path / there).write_text("mine")
    for number in (8, 9):
        world = env()
        recorder = EpisodeRecorder(tmp_path, 1, "some play", Valuing(world))
        Rollout(env=world, policy=recorder.policy).run_episodes(1, 0, Clock(), [recorder])
        assert recorder.files == {0: [tmp_path / f"{name}-{number}.html"]}
        assert (tmp_path / f"{name}-{number}.html").exists()
    assert (tmp_path / f"{name}-7.html").read_text() == "mine"


class OddWorld(StagHunt):
    """A drawing with a number that is not finite in every part of it."""

    def drawing(self, e):
        world, looks, columns = super().drawing(e)
        there = np.arange(len(looks)) > 0
        x, facing = np.where(there, columns["x"], np.nan), np.full(len(looks), -np.inf)
        looks = [{**look, "sight": np.inf} for look in looks]
        columns = {**columns, "x": x, "facing": facing, "there": there}
        return Drawing({**world, "rate": np.nan}, looks, columns)


@pytest.mark.filterwarnings("error")
def test_a_page_has_all_numbers_but_those_that_are_not_finite(tmp_path):
    env = OddWorld(n_envs=1, **SETTINGS)
    policy, mixer = Odd(env), QMix(spec=env.spec, embed_dim=8, hypernet_layers=1, hypernet_dim=8)
    recorder = EpisodeRecorder(tmp_path, 1, "odd", policy, mixer)
    Rollout(env=env, policy=policy).run_episodes(1, 0, Clock(), [recorder])
    page = read_page((tmp_path / "episodes-1.html").read_text())
    arrays, world = page["episodes"][0]["arrays"], page["episodes"][0]["world"]
    assert world["rate"] is None
    assert {look["sight"] for look in page["looks"]} == {None}
    assert np.isnan(arrays["x"][:, 0]).all()
    assert np.isfinite(arrays["x"][:, 1:]).all()
    assert np.isnan(arrays["facing"]).all()
    assert np.isnan(arrays["q"][:, 1]).all()
    assert np.isfinite(arrays["q"][:, 0, 1:]).all()


def test_numbers_of_battles_are_those_that_were_played(tmp_path):
    env = SmacVectorEnv(map_name="2s3z", n_envs=2)
    _, page, steps, episodes = played(tmp_path, env, 3)
    assert [e["return"] for e in page["episodes"]] == [e.episode_return for e in episodes]
    rng = np.random.default_rng(0)
    names = ("x", "y", "health", "shield", "cooldown", "order", "target", "sees", "avail")
    for _ in range(200):
        k = int(rng.integers(3))
        t, arrays = int(rng.integers(len(steps[k]) - 1)), page["episodes"][k]["arrays"]
        for name in (*names, "q", "action", "reward"):
            assert np.abs(arrays[name][t] - steps[k][t][name]).max() < 1e-3, name
    assert [len(steps[k]) for k in range(3)] == [e["length"] + 1 for e in page["episodes"]]
    units = [page["looks"][int(k)] for k in page["episodes"][0]["arrays"]["look"][0]]
    assert [u["name"] for u in units[:5]] == ["stalker"] * 2 + ["zealot"] * 3
    assert sorted(u["name"] for u in units[5:]) == ["stalker"] * 2 + ["zealot"] * 3
    assert [u["team"] for u in units] == [0] * 5 + [1] * 5


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("make", "options", "names"),
    [
        (StagHunt, SETTINGS, {"agent", "stag"}),
        (mpe_env, {**MPE, "game": "tag"}, {"adversary_0", "agent_0", "landmark 0"}),
        (lbf_env, {**LBF, "max_episode_steps": 9}, {"agent", "food"}),
        (made, {"id": "CartPole-v1"}, {"cart", "tip"}),
        (made, {"id": "Acrobot-v1"}, {"tip", "joint", "base"}),
        (made, {"id": "MountainCar-v0"}, {"car", "flag"}),
        (rware_env, {**RWARE, "max_episode_steps": 9}, {"robot", "shelf", "goal"}),
    ],
)
def test_games_and_particles_have_positions(make, options, names, tmp_path):
    env = make(**{**options, "n_envs": 2})
    _, page, steps, _ = played(tmp_path, env, 2)
    for k, episode in enumerate(page["episodes"]):
        for t, step in enumerate(steps[k]):
            n = len(step["x"])
            assert np.abs(episode["arrays"]["x"][t, :n] - step["x"]).max() < 1e-3
            assert np.abs(episode["arrays"]["y"][t, :n] - step["y"]).max() < 1e-3
    assert names <= {look["name"] for look in page["looks"]}
    looks = [page["looks"][int(k)] for k in page["episodes"][0]["arrays"]["look"][0] if k >= 0]
    assert [look["team"] == 0 for look in looks[: env.spec.n_agents]] == [True] * env.spec.n_agents
    assert page["episodes"][0]["arrays"]["obs"].shape[1:] == (
        env.spec.n_agents,
        *env.spec.obs_shape,
    )


def test_a_value_of_the_team_and_its_derivatives():
    spec = EnvSpec(n_agents=2, n_actions=3, obs_shape=(4,), state_dim=5)
    rng = np.random.default_rng(0)
    arrays = {
        "q": rng.normal(size=(4, 2, 3)).astype(np.float32),
        "action": rng.integers(3, size=(4, 2)),
        "avail": np.ones((5, 2, 3), np.uint8),
    }
    state = rng.normal(size=(5, 5)).astype(np.float32)
    chosen = np.take_along_axis(arrays["q"], arrays["action"][..., None], -1)[..., 0]
    summed = mixed(Sum(spec=spec), arrays, state)
    assert summed["q_tot"] == pytest.approx(chosen.sum(-1))
    assert (summed["weight"] == 1).all()
    torch.manual_seed(0)
    qmix = QMix(spec=spec, embed_dim=8, hypernet_layers=1, hypernet_dim=8)
    found, small = mixed(qmix, arrays, state), 1e-2
    arrays["q"][:, 1] += small  # of the second agent alone
    moved = mixed(qmix, arrays, state)["q_tot"]
    assert (moved - found["q_tot"]) / small == pytest.approx(found["weight"][:, 1], abs=2e-2)


def test_an_environment_without_positions_is_refused():
    with pytest.raises(UsageError, match=r"record=html: env 'two_step' does not report posit"):
        require_drawing(TwoStepGames(n_envs=1), "two_step", "record=html", "record=video")


def test_ten_battles_take_little_space(tmp_path):
    env = SmacVectorEnv(map_name="MMM2", n_envs=5)
    text, *_ = played(tmp_path, env, 5)  # of values drawn at random, which compress badly
    assert len(text) < 1.5e6 / 2


def test_a_name_is_no_script(tmp_path):
    _, page, *_ = played(tmp_path, StagHunt(n_envs=1, **SETTINGS), 1)
    write_viewer(tmp_path / "evil.html", {**page, "title": EVIL, "episodes": []}, [])
    text = (tmp_path / "evil.html").read_text()
    assert "stolen_title" not in text
    assert text.count("<script") == text.count("</script>") == 2
    assert not re.search(r"https?://|\bsrc=|@import|url\(", text)


LOOK = """
const wait = setInterval(() => {
  if (document.querySelector("main").hidden) return;
  clearInterval(wait);
  const found = MOMENTS.map(([k, t, i]) => {
    openEpisode(k, t);
    choose(i);
    return [...at("x", t), ...at("y", t), ...at("health", t), ...at("q", t, i)];
  });
  press({ key: "End", target: document.body, preventDefault() {} });
  const { clientWidth: width, scrollWidth: needs } = document.documentElement;
  const texts = { title: document.title, heading: $("title").textContent };
  const shown = $("panel").textContent, last = [view.time, nSteps()];
  parent.postMessage(JSON.stringify({ found, width, needs, ...texts, shown, last }), "*");
}, 50);
"""


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
@pytest.mark.parametrize("width", [400, 1280])
def test_browser_shows_the_numbers_that_were_played(tmp_path, width):
    env = SmacVectorEnv(map_name="2s3z", n_envs=2)
    policy = Valuing(env)
    spy = Spy(policy)
    recorder = EpisodeRecorder(tmp_path, 2, EVIL, policy)
    Rollout(env=env, policy=policy).run_episodes(2, 0, Clock(), [spy, recorder])
    rng, moments = np.random.default_rng(0), []
    for k in rng.integers(2, size=200).tolist():
        moments.append([k, int(rng.integers(len(spy.steps[k]) - 1)), int(rng.integers(5))])
    text = (tmp_path / "battle-1.html").read_text()
    text = re.sub("<meta http-equiv[^>]*>", "", text)  # which lets no other script run
    script = LOOK.replace("MOMENTS", json.dumps(moments))
    page = text.replace("</body>", f"<script>{script}</script></body>")
    (tmp_path / "look.html").write_text(page)
    write = "<script>onmessage = (told) => { document.body.textContent = told.data }</script>"
    frame = f'<iframe src="look.html" width={width} height=900 style="border: 0"></iframe>'
    (tmp_path / "frame.html").write_text(f"<!doctype html><body>{frame}{write}</body>")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--dump-dom"]
    options += ["--window-size=1400,900", f"--user-data-dir={tmp_path}/p"]
    options += ["--virtual-time-budget=20000", f"file://{tmp_path}/frame.html"]
    dom = subprocess.run([CHROMIUM, *options], capture_output=True, text=True, timeout=300).stdout
    seen = json.loads(html.unescape(dom.partition("<body>")[2].partition("</body>")[0]))
    for (k, t, i), numbers in zip(moments, seen["found"], strict=True):
        step = spy.steps[k][t]
        expected = [*step["x"], *step["y"], *step["health"], *step["q"][i]]
        assert np.abs(np.array(numbers) - expected).max() < 1e-3
    assert seen["title"] == seen["heading"] == EVIL
    assert seen["width"] == seen["needs"] == width
    assert seen["last"][0] == seen["last"][1]
    assert "History" in seen["shown"]
