"""Every option of every group composes, builds and runs, by itself or with the method that brings
it; games with known solutions are solved.
"""

import re

import gymnasium
import numpy as np
import pytest
import torch

import rltrain
from rltrain.config.catalog import CONF
from rltrain.errors import UsageError
from tests.integration.test_frame_stack import Images
from tests.marks import slow_except


def options(group):
    return sorted(p.stem for p in (CONF / group).glob("*.yaml"))


def three_iterations(overrides, folder):
    trainer = rltrain.make_trainer(overrides, run_dir=folder)
    for _ in range(3):
        trainer.run(trainer.clock.env_steps + 1)
    trainer.test(episodes=2)
    trainer.close()


CARTPOLE = ["env=cartpole", "algo.learning_starts=10", "test.n_envs=1"]

TEAMS = {
    algo
    for algo in options("algo")
    if "recurrent_team" in (CONF / "algo" / f"{algo}.yaml").read_text(encoding="utf-8")
}
"""Methods for teams: test_every_team_method.py runs them; all others play CartPole."""

BELONGS = {"buffer": {"prioritized": "dqn", "replay": "dqn"}}
"""Parts that only some methods can use, with one that can."""

OF_METHODS = {"on_policy", "sequence", "prioritized_sequence"}
"""Buffers that run with the method that brings them."""

IMAGES = {"conv"}  # networks that see nothing else

OF_OBSERVATIONS = {"hpn", "attention", "entities", "multi_input"}
"""Networks and mixers for observations of units and of keys, which have tests of their own."""

NEEDS = {"lunarlander": "Box2D", "minatar": "minatar", "atari": "ale_py"}  # of environments

OWN_SPACES = {
    *("acrobot", "cartpole", "gymnasium", "mountaincar", "lunarlander", "minatar", "atari"),
    "trading",
}

CLUSTERS = {"ddp", "ray"}
"""They need torchrun or Ray; tests/hardware has their runs."""

LEARNING = [a for a in options("algo") if a not in TEAMS and a != "scripted"]
"""Methods for one agent; each brings a loss, a distribution and a buffer."""

PAIRS = [
    *[
        pytest.param("env", e, marks=() if e in ("smac", "cartpole") else pytest.mark.slow)
        for e in options("env")
    ],
    *[("buffer", b) for b in options("buffer") if b not in OF_METHODS],
    *[
        pytest.param("hardware", h, marks=pytest.mark.slow if h == "process" else ())
        for h in options("hardware")
        if h not in CLUSTERS and (h != "cuda" or torch.cuda.is_available())
    ],
    *[
        pytest.param(group, name, marks=pytest.mark.slow)
        for part in ("network", "mixer", "optimizer", "exploration")
        for group in [f"algo/{part}"]
        for name in options(group)
        if name not in {*IMAGES, *OF_OBSERVATIONS}
    ],
]


def words_for(small, group, name):
    """The small run with that option, and with a method and an environment that it fits."""
    method = BELONGS.get(group, {}).get(name)
    if group == "algo" and name not in TEAMS:
        method = name
    if group == "env" and name in OWN_SPACES:
        method = "dqn"
    overrides = [*small, "algo.batch_size=2"]
    if method is not None:
        # what a method explores with is its own affair
        overrides = [w for w in overrides if not w.startswith(("env=", "algo.exploration."))]
        overrides = [*overrides, *CARTPOLE, f"algo={method}"]
    if method == "pqn":
        overrides = [w for w in overrides if not w.startswith(("buffer.", "algo.learning_starts"))]
    if method == "r2d2":
        overrides.append("buffer.capacity=128")
    if group == "algo/exploration":
        overrides = [w for w in overrides if not w.startswith("algo.exploration.")]
    if group == "env" and name.startswith("smac"):
        overrides = [w for w in overrides if not w.startswith("buffer.")] + ["buffer.capacity=100"]
    if group == "env" and name in {"atari", "minatar"}:
        overrides = [*overrides, "env.max_episode_steps=20"]
    if name == "process":
        overrides = [*overrides, "hardware.n_workers=2"]
    overrides = [w for w in overrides if w.partition("=")[0] != group]
    return [*overrides, f"{group}={name}"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("group", "name"), PAIRS)
def test_every_choice_runs(single, tmp_path, group, name):
    if group == "env" and name in NEEDS:
        pytest.importorskip(NEEDS[name])
    three_iterations(words_for(single, group, name), tmp_path)


def test_learning_from_every_collect_cannot_wait(tmp_path):
    """Defect: no collect holds so many steps, so nothing was ever learned."""
    with pytest.raises(UsageError, match=r"learning_starts=500.*Type algo.learning_starts=0"):
        rltrain.make_trainer(["algo=pqn", "env=cartpole", "algo.learning_starts=500"])


def test_a_batch_of_more_than_is_collected_is_refused(tmp_path):
    """Defect: it held some of the same steps several times."""
    words = ["algo=pqn", "env=cartpole", "hardware.n_envs=2", "algo.steps_per_collect=8"]
    with pytest.raises(UsageError, match=r"batch_size=17: .* most 16.*Type algo.batch_size=16"):
        rltrain.make_trainer([*words, "algo.batch_size=17"], tmp_path)
    rltrain.make_trainer([*words, "algo.batch_size=16"], tmp_path).close()


class Pixels(Images):
    """Random images of 44 x 44 bytes."""

    observation_space = gymnasium.spaces.Box(0, 255, (44, 44, 1), np.uint8)
    action_space = gymnasium.spaces.Discrete(3)


gymnasium.register("Pixels-v0", entry_point=Pixels, max_episode_steps=20)


def test_the_methods_together_bring_every_loss_distribution_and_buffer():
    files = "\n".join(p.read_text(encoding="utf-8") for p in (CONF / "algo").rglob("*.yaml"))
    for group in ("algo/loss", "algo/distribution", "buffer"):
        for name in set(options(group)) - {"prioritized_episode"}:  # no method's own: test_teams
            part = group.rpartition("/")[2]
            assert re.search(rf"\b{part}(@\S+)?: {name}$", files, re.MULTILINE), name


@pytest.mark.slow
@pytest.mark.parametrize("network", sorted(IMAGES))
def test_every_network_for_images_runs(single, tmp_path, network):
    overrides = [*words_for(single, "env", "gymnasium"), f"algo/network={network}"]
    three_iterations([*overrides, "env.id=Pixels-v0", "env.frame_stack=2"], tmp_path)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("algo", slow_except(("dqn", "rainbow", "drqn"), LEARNING))
def test_every_method_for_one_agent_learns_from_what_it_stored(single, tmp_path, algo):
    trainer = rltrain.make_trainer(words_for(single, "algo", algo), run_dir=tmp_path)
    trainer.run(120 if algo != "pqn" else 500)
    trainer.test(episodes=2)
    trainer.close()
    assert trainer.clock.updates > 0
    assert {**trainer.latest, **trainer.metrics.take()}["learn/skipped_updates"] == 0


REFUSED = [
    (["algo=c51", "env=two_step", "algo/mixer=sum"], "Type algo/mixer=independent"),
    (
        ["algo=dqn", "env=two_step", "algo/mixer=sum", "buffer.agents=independent"],
        "Type algo/mixer=independent",
    ),
    (["algo=dqn", "algo.learning_starts=65"], r"learning_starts=65 .*buffer\.capacity=64"),
    (["algo=dqn", "buffer.capacity=6"], r"buffer\.capacity=6 .* set buffer\.capacity=\d+ or more"),
    (["algo=dqn", "buffer.capacity=1e12"], r"needs .* TB .* set buffer\.capacity=\d+ or less"),
    (["buffer=on_policy", "algo/loss=td"], r"Type algo/loss=td buffer=replay"),
    (["algo=dqn", "buffer=on_policy"], r"Type algo\.learning_starts=0"),
    (["buffer=replay", "algo/loss=q_lambda"], r"or algo/loss=td buffer=replay"),
    (
        ["algo/loss=quantile", "algo/distribution=categorical"],
        r"Type algo/loss=quantile algo/distribution=quantile",
    ),
    (
        ["algo=c51", "algo.distribution.v_min=5", "algo.distribution.v_max=5"],
        r"v_min < v_max .* set algo\.distribution\.v_min",
    ),
    (["algo=dqn", "buffer.max_bytes=1e15", "buffer.capacity=1e12"], r"memory are free here"),
    (["algo=qmix"], r"QMix needs a global state"),
]
"""Commands for CartPole, and what is said of them."""


@pytest.mark.parametrize(
    ("overrides", "said"), REFUSED, ids=lambda x: " ".join(x) if isinstance(x, list) else ""
)
def test_parts_that_do_not_belong_together_are_refused(single, tmp_path, overrides, said):
    single = [w for w in single if not w.startswith("env=")]
    if "on_policy" in " ".join(overrides) or "algo=pqn" in overrides:
        single = [w for w in single if not w.startswith("buffer.")]
    given = {w.partition("=")[0] for w in overrides}
    single = [w for w in [*single, *CARTPOLE] if w.partition("=")[0] not in given]
    with pytest.raises(UsageError, match=said):
        rltrain.make_trainer([*single, *overrides], run_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()


MAPS = ["3m"]

MORE_MAPS = ["27m_vs_30m", "8m", "25m", "5m_vs_6m", "8m_vs_9m", "10m_vs_11m"]

MAPS += [pytest.param(name, marks=pytest.mark.slow) for name in MORE_MAPS]


@pytest.mark.parametrize("map_name", MAPS)
def test_every_marine_map_trains(small, tmp_path, map_name):
    overrides = [w for w in small if not w.startswith("env=")]
    three_iterations(
        [*overrides, "env=smac", f"env.map_name={map_name}", "test.n_envs=2"], tmp_path
    )
