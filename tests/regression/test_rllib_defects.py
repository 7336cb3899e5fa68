"""Fifteen defects of RLlib's DQN trainer of the years 1.2 to 1.8 that users met: each has a test
here or elsewhere, named in ``TESTS``, that fails where the defect is copied.
"""

import ast
import functools
import json
import random
import sys
from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch

import rltrain
from rltrain.algo.targets import n_step_target
from rltrain.api import settings_from
from rltrain.logger.loggers import Loggers
from rltrain.logger.metric_files import JsonLines
from rltrain.mode.train import built
from rltrain.types import Clock

HERE = "regression/test_rllib_defects.py"
PROMISES = "integration/promises/test_promises.py"
TESTS = {
    1: ("test_trainer.py", "test_updates_per_env_step_are_exact"),
    2: (HERE, "test_a_time_limit_is_stored_as_a_cut_not_as_a_termination"),
    3: (HERE, "test_n_step_targets_discount_by_the_steps_really_summed"),
    4: ("config/test_schema.py", "test_every_keyword_of_a_part_is_read"),
    5: ("buffer/test_priorities.py", "test_new_items_enter_at_the_largest_priority_so_far"),
    6: ("algo/network/test_head.py", "test_a_dueling_categorical_head_has_a_value_for_every_atom"),
    7: ("algo/network/test_head.py", "test_noisy_layers_start_uniform_with_constant_noise"),
    8: (PROMISES, "test_a_promise_holds_for_several_states_together"),
    9: (HERE, "test_a_crashed_copy_costs_its_open_episode_and_no_other"),
    10: (HERE, "test_lines_of_metrics_hold_numbers_and_no_configuration"),
    11: (HERE, "test_a_loaded_policy_does_not_explore"),
    12: (
        "hardware/test_run_episodes.py",
        "test_run_episodes_gives_exactly_those_episodes_in_their_order",
    ),
    13: (HERE, "test_fractions_of_updates_need_no_random_numbers"),
    14: (HERE, "test_learning_starts_counts_what_is_stored"),
    15: (HERE, "test_stored_steps_are_no_objects"),
}
"""Where each defect is tested. 4: also ``test_beta_follows_the_clock``; 6: also
``test_categorical_probabilities_of_every_action_sum_to_one``; 7: also
``test_noisy_layers_are_silent_in_evaluation``.
"""


class Endless(gymnasium.Env):
    """Shows and pays random numbers and never ends."""

    observation_space = gymnasium.spaces.Box(0, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.random(2, np.float32), {}

    def step(self, action):
        return self.np_random.random(2, np.float32), self.np_random.random(), False, False, {}


gymnasium.register("Endless-v0", entry_point=Endless)
WORDS = ["algo=dqn", "algo/network=mlp", "buffer=prioritized", "buffer.capacity=10000"]
WORDS += ["env=gymnasium", "env.id=Endless-v0", "env.max_episode_steps=5", "algo.batch_size=4"]
WORDS += ["algo.learning_starts=30", "algo.updates_per_env_step=0.3"]
WORDS += ["algo.target_update.env_steps=20", "algo.exploration.start=1", "algo.exploration.end=1"]
WORDS += ["hardware.n_envs=2", "hardware.threads=1", "test.n_envs=2", "test.interval=100"]
WORDS += ["save.interval=100", "log.interval=20", "total_env_steps=100"]
ALONE = ["hardware.n_envs=1", "test.n_envs=3"]
checked = functools.cache(lambda *overrides: settings_from([*WORDS, *overrides]))


def make(folder, *overrides, loggers=None):
    folder.mkdir(exist_ok=True)
    return built(checked(*overrides), folder, loggers)


def flat(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


@pytest.mark.parametrize("number", range(1, 16))
def test_every_defect_has_its_test(number):
    file, name = TESTS[number]
    tree = ast.parse((Path(__file__).parents[1] / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_a_time_limit_is_stored_as_a_cut_not_as_a_termination(tmp_path):
    trainer = make(tmp_path)
    trainer.run(50)
    stored = trainer.buffer.state_dict()
    assert np.asarray(stored["steps.last"]).sum() >= 8
    assert not np.asarray(stored["steps.terminated"]).any()
    batch = trainer.buffer.sample(64, trainer.clock)
    value = torch.full_like(batch.reward, 10.0)
    target = n_step_target(batch.reward, batch.terminated, batch.last, value, 0.9, 1)
    torch.testing.assert_close(target, batch.reward + 9.0)


@pytest.mark.parametrize("piece", [1, 2, 30])
def test_n_step_targets_discount_by_the_steps_really_summed(tmp_path, piece):
    trainer = make(tmp_path, "algo.loss.n_step=3")
    steps = trainer.rollout.collect(30, Clock())
    names = ("obs", "avail_actions", "state", "last", "action", "reward", "terminated")
    for t in range(0, 30, piece):  # a collect's end is not an end of the sum
        part = {name: getattr(steps, name)[t : t + piece] for name in names}
        trainer.buffer.add(replace(steps, **part))
    batch = trainer.buffer.sample(64, Clock())
    value = torch.full_like(batch.reward, 10.0)
    target = n_step_target(batch.reward, batch.terminated, batch.last, value, 0.9, 3)[0, :, 0]
    summed = set()
    for b in range(64):
        m = next((t for t in (1, 2) if batch.last[t, b]), 3)
        rewards = [0.9**k * float(batch.reward[k, b, 0]) for k in range(m)]
        assert float(target[b]) == pytest.approx(sum(rewards) + 0.9**m * 10, rel=1e-5)
        summed.add(m)
    assert summed == {1, 2, 3}


def test_a_crashed_copy_costs_its_open_episode_and_no_other(tmp_path):
    trainer = make(tmp_path)
    steps = trainer.rollout.collect(14, Clock())  # two episodes of 6 steps each, and 2 steps
    trainer.buffer.add(steps)
    trainer.buffer.add(replace(steps, lost=np.array([True, False])))
    assert trainer.buffer.n_steps == 2 * 28 - 2


def test_lines_of_metrics_hold_numbers_and_no_configuration(tmp_path):
    file = tmp_path / "metrics.jsonl"
    make(tmp_path, loggers=Loggers([JsonLines(file)])).train()
    lines = file.read_text(encoding="utf-8").splitlines()
    assert len(lines) >= 4
    for line in lines:
        assert all(isinstance(value, (int, float)) for value in json.loads(line).values())


def test_a_loaded_policy_does_not_explore(tmp_path):
    make(tmp_path).save()  # of a run with epsilon 1
    policy = rltrain.load_policy(tmp_path)
    policy.reset()
    taken = {int(policy.act(np.full((1, 2), 0.5), np.ones((1, 2)))[0]) for _ in range(30)}
    assert len(taken) == 1


def test_fractions_of_updates_need_no_random_numbers(tmp_path):
    ended = []
    for number in (1, 2):
        trainer = make(tmp_path / str(number))
        random.seed(number)
        np.random.seed(number)
        torch.manual_seed(number)
        trainer.run(60)
        ended.append((trainer.clock, flat(trainer.learner.online)))
    assert ended[0][0] == ended[1][0]
    assert torch.equal(ended[0][1], ended[1][1])


def test_learning_starts_counts_what_is_stored(tmp_path):
    first, second = make(tmp_path), make(tmp_path)
    first.run(60)
    second.restore(first.save(with_replay=False))
    second.started = True
    before = second.clock.updates
    second.run(80)
    assert second.buffer.n_steps < 30 <= second.clock.env_steps
    assert second.clock.updates == before
    second.run(100)
    assert second.clock.updates > before


def test_stored_steps_are_no_objects(tmp_path):
    trainer = make(tmp_path)
    steps = trainer.rollout.collect(2000, Clock())
    trainer.buffer.add(steps)
    before = sys.getallocatedblocks()
    trainer.buffer.add(steps)
    assert sys.getallocatedblocks() - before < 400
    assert trainer.buffer.n_steps == 8000
