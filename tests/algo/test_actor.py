"""Actions for observations from outside: greedy unless asked otherwise, memory handed back, the
run untouched.
"""

import gymnasium
import numpy as np
import pytest
import torch

import rltrain

WORDS = ["hardware.n_envs=2", "test.n_envs=2", "test.episodes=2", "buffer.capacity=1000"]
WORDS += ["algo.learning_starts=20", "hardware.threads=1", "logger.wandb.mode=disabled"]


class Count(gymnasium.Env):
    """Shows the time, numbered from 5; actions 3 and 4; ends after 4 steps."""

    observation_space = gymnasium.spaces.Discrete(5, start=5)
    action_space = gymnasium.spaces.Discrete(2, start=3)

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return 5, {}

    def step(self, action):
        assert action in (3, 4)
        self.t += 1
        return 5 + self.t, float(action == 4), self.t == 4, False, {}


gymnasium.register("Count-v0", entry_point=Count)
COUNT = [*WORDS, "env=gymnasium", "env.id=Count-v0"]


def make(tmp_path, *overrides):
    return rltrain.make_trainer([*COUNT, *overrides], run_dir=tmp_path)


@pytest.fixture(scope="module")
def dqn(tmp_path_factory):
    return make(tmp_path_factory.mktemp("dqn"), "algo=dqn")


def values(trainer, t):
    """[A] of the network for one observation."""
    obs, last = torch.eye(5)[t].view(1, 1, 5), torch.full((1, 1), -1)
    with torch.no_grad():
        return trainer.learner.online.agents.eval().step(obs, last, torch.zeros(1, 1, 0))[0][0, 0]


def test_an_observation_as_the_environment_gives_it_becomes_its_best_action(dqn):
    for t in range(5):
        action = dqn.compute_single_action(5 + t)
        assert isinstance(action, int)
        assert action == 3 + int(values(dqn, t).argmax())


def test_several_observations_at_once_give_what_each_gives(dqn):
    one_by_one = [dqn.compute_single_action(5 + t) for t in range(5)]
    assert dqn.compute_actions(list(range(5, 10))).tolist() == one_by_one


def test_only_available_actions_are_chosen(dqn):
    masks = np.array([[1, 0], [0, 1]])
    assert dqn.compute_actions([5, 5], avail_actions=masks).tolist() == [3, 4]
    assert dqn.compute_single_action(5, avail_actions=masks[1]) == 4


def test_exploring_draws_as_training_does(tmp_path):
    trainer = make(tmp_path, "algo=dqn", "algo.exploration.start=1", "algo.exploration.end=1")
    greedy = trainer.compute_actions([5] * 50)
    drawn = trainer.compute_actions([5] * 50, explore=True)
    assert len(set(greedy.tolist())) == 1
    assert set(drawn.tolist()) == {3, 4}


@pytest.mark.parametrize("exploration", ["per_env", "boltzmann", "parameter_noise"])
def test_every_exploration_can_be_asked_for_any_number(tmp_path, exploration):
    trainer = make(tmp_path, "algo=dqn", f"algo/exploration={exploration}")
    assert trainer.compute_actions([5, 6, 7], explore=True).shape == (3,)


def test_noise_is_for_exploring_only(tmp_path):
    overrides = ["algo/exploration=greedy", "algo.network.noisy_sigma=50"]
    trainer = make(tmp_path, "algo=dqn", *overrides)
    assert len(set(trainer.compute_actions([5] * 3).tolist())) == 1
    before = torch.get_rng_state()
    assert {trainer.compute_single_action(5, explore=True) for _ in range(3)} <= {3, 4}
    assert torch.equal(torch.get_rng_state(), before)


def unrolled(trainer, seen):
    """Greedy actions of a recurrent network over one episode, by hand."""
    agents, last, hidden = trainer.learner.online.agents, torch.full((1, 1), -1), None
    hidden, out = torch.zeros(1, 1, agents.hidden_dim), []
    for t in seen:
        with torch.no_grad():
            q, hidden = agents.step(torch.eye(5)[t].view(1, 1, 5), last, hidden)
        last = q.argmax(-1)
        out.append(3 + int(last))
    return out, hidden


def test_memory_goes_out_and_comes_back(tmp_path):
    trainer = make(tmp_path, "algo=drqn")
    by_hand, hidden = unrolled(trainer, [0, 3, 1, 4])
    state, found = None, []
    for t in (0, 3, 1, 4):
        action, state = trainer.compute_single_action(5 + t, state)
        found.append(action)
    assert found == by_hand
    torch.testing.assert_close(state["hidden"], hidden)


def test_stacked_frames_are_remembered_too(tmp_path):
    trainer = make(tmp_path, "algo=dqn", "env.frame_stack=2")
    _, state = trainer.compute_single_action(6)
    _, state = trainer.compute_single_action(8, state)
    assert state["frames"]["frames"][0, 0].argmax(-1).tolist() == [1, 3]


def test_teams_are_asked_with_all_their_observations(small, tmp_path):
    trainer = rltrain.make_trainer(small, run_dir=tmp_path)
    obs = np.eye(3, dtype=np.float32)[[0, 0]]
    actions, state = trainer.compute_single_action(obs)
    assert actions.shape == (2,)
    actions, state = trainer.compute_actions([obs, obs, obs])
    assert actions.shape == (3, 2)
    with pytest.raises(
        ValueError,
        match=r"state\['hidden'\]: expected float32 \[1, 2, 64\].*got float32 \[3, 2, 64\]",
    ):
        trainer.compute_single_action(obs, state)
    said = r"observations: expected the shape \(2, 3\), got \(2, 4\)"
    with pytest.raises(ValueError, match=said):
        trainer.compute_single_action(np.zeros((2, 4)))


def test_asking_does_not_change_the_run(tmp_path):
    overrides = ["algo=dqn", "algo.network.noisy_sigma=0.5"]
    weights = []
    for asked in (False, True):
        trainer = make(tmp_path / str(asked), *overrides)
        for until in (20, 40, 60):
            trainer.run(until)
            if asked:
                trainer.compute_single_action(5, explore=True)
                trainer.compute_actions([5, 6, 7])
        parts = trainer.learner.online.parameters()
        weights.append(torch.cat([p.detach().flatten() for p in parts]))
    assert torch.equal(*weights)


def test_asking_for_noisy_actions_does_not_change_the_run(tmp_path):
    """Defect: the first one who asked drew the noise that the run then acted with."""
    runs = [make(tmp_path / n, "algo=dqn", "algo/exploration=parameter_noise") for n in "ab"]
    runs[0].compute_single_action(5, explore=True)
    assert runs[0].rollout.policy.exploration.noisy is None
    for trainer in runs:
        trainer.run(60)
    one, two = (trainer.buffer.state_dict()["steps.action"] for trainer in runs)
    assert np.array_equal(np.asarray(one), np.asarray(two))


def test_what_does_not_fit_is_refused(dqn):
    with pytest.raises(ValueError, match="observations: expected one or more, got none"):
        dqn.compute_actions([])
    said = r"avail_actions: expected the shape \(1, 1, 2\), got \(1, 3\)"
    with pytest.raises(ValueError, match=said):
        dqn.compute_single_action(5, avail_actions=np.ones(3))
    with pytest.raises(ValueError, match=r"state\['hidden'\]: expected .* got none"):
        dqn.compute_single_action(5, state={"x": 1})


def test_a_restored_trainer_acts_as_the_one_that_was_saved(tmp_path):
    first = make(tmp_path, "algo=dqn")
    first.run(60)
    first.save()
    again = make(tmp_path, "algo=dqn", "seed=7")
    again.restore(tmp_path)
    seen = list(range(5, 10))
    assert again.compute_actions(seen).tolist() == first.compute_actions(seen).tolist()
