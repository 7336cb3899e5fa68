"""Every option of every group composes, builds and runs, by itself or with the method that brings
it; episodes of every shipped environment follow from their seeds alone.
"""

import re

import gymnasium
import numpy as np
import pytest
import torch

import rltrain
from rltrain.api import settings_from
from rltrain.assemble.env import build_env
from rltrain.config.catalog import CONF
from tests.helpers import over, three_iterations, without
from tests.integration.test_frame_stack import Images
from tests.marks import slow_except


def options(group):
    return sorted(p.stem for p in (CONF / group).glob("*.yaml"))


CARTPOLE = ["env=cartpole", "algo.learning_starts=10", "test.n_envs=1"]
TEAMS = {
    algo
    for algo in options("algo")
    if "recurrent_team" in (CONF / "algo" / f"{algo}.yaml").read_text(encoding="utf-8")
}
"""Methods for teams: test_team_methods.py runs them; all others play CartPole."""
OF_METHODS = {"on_policy", "sequence", "prioritized_sequence"}
"""Buffers that run with the method that brings them; these two are for single agents."""
OF_ONE_AGENT = {"prioritized", "replay"}
IMAGES = {"conv"}
"""Networks that see nothing else."""
OF_OBSERVATIONS = {"hpn", "attention", "entities", "multi_input"}
"""Networks and mixers for observations of units and of keys, which have tests of their own."""
NEEDS = {"lunarlander": "Box2D", "minatar": "minatar", "atari": "ale_py"}
"""Packages of environments."""
OF_ONE = {
    *("acrobot", "cartpole", "gymnasium", "mountaincar", "lunarlander", "minatar", "atari"),
    "trading",
}
"""Environments of one agent."""
CLUSTERS = {"ddp", "ray"}
"""They need torchrun or Ray; tests/hardware has their runs."""
MORE = {
    **dict.fromkeys(("smac", "smacv2", "smaclite"), "buffer.capacity=100"),
    **dict.fromkeys(("atari", "minatar"), "env.max_episode_steps=20"),
    "r2d2": "buffer.capacity=128",
    "process": "hardware.n_workers=2",
}
"""What an option needs in a small run."""
LEARNING = [a for a in options("algo") if a not in TEAMS and a != "scripted"]
"""Methods for one agent; each brings a loss, a distribution and a buffer."""
MAPS = ("27m_vs_30m", "8m", "25m", "5m_vs_6m", "8m_vs_9m", "10m_vs_11m")
SLOW = pytest.mark.slow
PAIRS = [
    *[
        pytest.param("env", e, marks=() if e in ("smac", "cartpole") else SLOW)
        for e in options("env")
    ],
    *[("buffer", b) for b in options("buffer") if b not in OF_METHODS],
    *[
        pytest.param("hardware", h, marks=SLOW if h == "process" else ())
        for h in options("hardware")
        if h not in CLUSTERS and (h != "cuda" or torch.cuda.is_available())
    ],
    *[
        pytest.param(f"algo/{part}", name, marks=SLOW)
        for part in ("network", "mixer", "optimizer", "exploration")
        for name in options(f"algo/{part}")
        if name not in {*IMAGES, *OF_OBSERVATIONS}
    ],
    *[pytest.param("env.map_name", name, marks=SLOW) for name in MAPS],
]


def words_for(small, group, name):
    """The small run with that option, and with a method and an environment that it fits."""
    words = over(small, "algo.batch_size=2")
    if (group == "env" and name in OF_ONE) or (group == "buffer" and name in OF_ONE_AGENT):
        method = "dqn"
    else:
        method = name if group == "algo" and name not in TEAMS else None
    if method is not None:  # what a method explores with is its own affair
        words = over(without(words, "algo.exploration."), *CARTPOLE, f"algo={method}")
    if method == "pqn":
        words = without(words, "buffer.", "algo.learning_starts")
    if group == "algo/exploration":
        words = without(words, "algo.exploration.")
    if group == "env.map_name":
        words = over(words, "env=smac", MORE["smac"])
    return over(words, *([MORE[name]] if name in MORE else ()), f"{group}={name}")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("group", "name"), PAIRS)
def test_every_choice_runs(single, tmp_path, group, name):
    if group == "env" and name in NEEDS:
        pytest.importorskip(NEEDS[name])
    three_iterations(rltrain.make_trainer(words_for(single, group, name), tmp_path), 2)


class Pixels(Images):
    """Random images of 44 x 44 bytes."""

    observation_space = gymnasium.spaces.Box(0, 255, (44, 44, 1), np.uint8)
    action_space = gymnasium.spaces.Discrete(3)


gymnasium.register("Pixels-v0", entry_point=Pixels, max_episode_steps=20)


def test_the_methods_together_bring_every_loss_distribution_and_buffer():
    files = "\n".join(p.read_text(encoding="utf-8") for p in (CONF / "algo").rglob("*.yaml"))
    for group in ("algo/loss", "algo/distribution", "buffer"):
        for name in set(options(group)) - {"prioritized_episode"}:  # a team's own
            part = group.rpartition("/")[2]
            assert re.search(rf"\b{part}(@\S+)?: {name}$", files, re.MULTILINE), name


@pytest.mark.slow
@pytest.mark.parametrize("network", sorted(IMAGES))
def test_every_network_for_images_runs(single, tmp_path, network):
    overrides = [*words_for(single, "env", "gymnasium"), f"algo/network={network}"]
    overrides += ["env.id=Pixels-v0", "env.frame_stack=2"]
    three_iterations(rltrain.make_trainer(overrides, tmp_path), 2)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("algo", slow_except(("dqn", "rainbow", "drqn"), LEARNING))
def test_every_method_for_one_agent_learns_from_what_it_stored(single, tmp_path, algo):
    trainer = rltrain.make_trainer(words_for(single, "algo", algo), run_dir=tmp_path)
    trainer.run(120 if algo != "pqn" else 500)
    trainer.test(episodes=2)
    trainer.close()
    assert trainer.clock.updates > 0
    assert {**trainer.latest, **trainer.metrics.take()}["learn/skipped_updates"] == 0


FAST = ("cartpole", "gymnasium", "trading", "matrix", "two_step", "smac", "mpe")
"""One of each kind of environment."""
LIMIT = 8
"""Env steps of an episode."""
IDS = {"gymnasium": ["env.id=CartPole-v1"], "pettingzoo": ["env.id=mpe2.simple_spread_v3"]}


def played(env, k):
    """The observations of episode k, by actions that are drawn from what is available."""
    rng, seen = np.random.default_rng(k % 2), []
    for _ in range(LIMIT):
        seen.append((env.obs.copy(), env.avail_actions.copy(), env.state.copy()))
        if env.last[0]:
            break
        action = [rng.choice(np.flatnonzero(row)) for row in env.avail_actions[0]]
        env.step(np.array([action]))
    while not env.last[0]:
        env.step(np.array([[np.flatnonzero(row)[-1] for row in env.avail_actions[0]]]))
    env.step(np.array([[np.flatnonzero(row)[-1] for row in env.avail_actions[0]]]))
    return seen


@pytest.mark.parametrize("name", slow_except(FAST, options("env")))
def test_an_episode_does_not_depend_on_the_one_before(name):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    # in training, later games of Atari continue the random stream of the first
    algo = "dqn" if name in OF_ONE else "iql"
    settings = settings_from([f"algo={algo}", "logger=[]", f"env={name}", *IDS.get(name, ())])
    env = build_env(settings, 1, training=name != "atari")
    env.reset(lambda e, k: k % 2)
    first, other, again, other_again = (played(env, k) for k in range(4))
    env.close()
    np.testing.assert_equal(first, again)
    np.testing.assert_equal(other, other_again)
