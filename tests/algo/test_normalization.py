"""Running statistics of observations: exact, moved by collected steps alone, kept with the network
that sees through them. Moments of rewards: those of the real transitions of each stream.
"""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

import rltrain
from rltrain.algo.network.distribution import Scalar
from rltrain.algo.network.feed_forward import mlp_agents
from rltrain.algo.network.gru import GRUAgents
from rltrain.algo.normalization import RewardNorm, RunningNorm
from rltrain.buffer.replay import one_agent
from rltrain.errors import UsageError
from rltrain.types import Clock, EnvSpec
from tests.algo.batches import SPEC as TEAM
from tests.algo.batches import make_batch, make_learner, make_model, with_garbage

SPEC = EnvSpec(n_agents=1, n_actions=2, obs_shape=(2,))


def shown(*collects, spec=SPEC):
    norm = RunningNorm(spec=spec)
    for obs in collects:
        norm.update(np.array(obs))
    return norm


def test_mean_and_variance_by_hand():
    norm = shown([[1.0, 10.0], [3.0, 10.0]], [[5.0, 40.0]])
    assert (norm.count, norm.mean.tolist()) == (3, [3.0, 20.0])
    assert norm.variance.tolist() == pytest.approx([8 / 3, 200.0])


def test_observations_are_seen_in_standard_deviations():
    norm = shown([[1.0, 0.0], [3.0, 4.0]])
    seen = norm(torch.tensor([[2.0, 2.0], [3.0, 6.0]]))
    torch.testing.assert_close(seen, torch.tensor([[0.0, 0.0], [1.0, 2.0]]))


def test_pieces_give_what_the_whole_gives():
    x = np.random.default_rng(0).normal(1e6, 1e-2, (1000, 2))
    norm = shown(*np.split(x, [1, 2, 7, 300, 301]))
    np.testing.assert_allclose(norm.mean, x.mean(0), rtol=1e-14)
    np.testing.assert_allclose(norm.variance, x.var(0), rtol=1e-6)


def test_every_agent_and_copy_counts():
    spec = EnvSpec(n_agents=2, n_actions=2, obs_shape=(3,))
    x = np.random.default_rng(1).normal(size=(4, 5, 2, 3)).astype(np.float32)
    norm = shown(x, spec=spec)
    assert norm.count == 40
    np.testing.assert_allclose(norm.mean, x.reshape(-1, 3).astype(float).mean(0), rtol=1e-12)


def test_bytes_are_numbers_too():
    assert shown(np.array([[0, 255], [255, 255]], np.uint8)).mean.tolist() == [127.5, 255.0]


@pytest.mark.parametrize("collects", [[], [[[3.0, 4.0]]]])
def test_before_there_are_two_the_variance_is_one(collects):
    norm = shown(*collects)
    mean = torch.tensor(collects[0][0] if collects else [0.0, 0.0])
    torch.testing.assert_close(norm(mean + 2), torch.full((2,), 2.0))


def test_what_never_changed_is_zero_and_surprises_are_clipped():
    norm = shown([[5.0, 0.0], [5.0, 1.0]])
    assert norm(torch.tensor([5.0, 0.5])).tolist() == [0.0, 0.0]
    assert norm(torch.tensor([6.0, -99.0])).tolist() == [10.0, -10.0]


def test_no_observations_change_nothing():
    norm = shown([[1.0, 2.0], [2.0, 3.0]])
    norm.update(np.zeros((0, 1, 2)))
    assert norm.count == 2


def test_stacked_frames_share_the_statistics_of_one():
    norm = shown([[0.0, 0.0], [2.0, 4.0]], spec=replace(SPEC, frame_stack=2))
    seen = norm(torch.tensor([2.0, 4.0, 0.0, 0.0]))
    torch.testing.assert_close(seen, torch.tensor([1.0, 1.0, -1.0, -1.0]))


def network(**changes):
    settings = {"hidden_sizes": [4], "head_sizes": [], "dueling": False, "noisy_sigma": None}
    settings |= {"layer_norm": False, "last_action": True, "agent_id": True, "normalize_obs": True}
    return mlp_agents(spec=SPEC, distribution=Scalar(), **{**settings, **changes})


@pytest.mark.parametrize(
    "agents",
    [
        network(),
        GRUAgents(spec=SPEC, hidden_dim=4, last_action=True, agent_id=True, normalize_obs=True),
    ],
    ids=["mlp", "gru"],
)
def test_networks_see_normalized_observations_and_plain_actions(agents):
    agents.input.norm.update(np.array([[0.0, 0.0], [2.0, 4.0]]))
    x = agents.input(torch.tensor([[[2.0, 0.0]]]), torch.tensor([[1]]), None)
    torch.testing.assert_close(x, torch.tensor([[[1.0, -1.0, 0.0, 1.0]]]))


def test_copies_of_a_network_see_through_the_same_statistics():
    agents = network()
    target = copy.deepcopy(agents)
    agents.input.norm.update(np.array([[0.0, 0.0], [2.0, 4.0]]))
    assert target.input.norm.count == 2
    assert target.head is not agents.head


def test_saved_weights_bring_their_statistics():
    one, other = network(), network()
    one.input.norm.update(np.array([[0.0, 0.0], [2.0, 4.0]]))
    other.load_state_dict(one.state_dict())
    norm = other.input.norm
    assert torch.equal(norm.shift, one.input.norm.shift)
    assert torch.equal(norm.scale, one.input.norm.scale)
    assert norm.mean.dtype == torch.float64


WORDS = ["tuned=none", "algo=dqn", "env=cartpole", "algo.network.normalize_obs=true"]
WORDS += ["test.n_envs=2", "test.episodes=2", "buffer.capacity=500", "algo.learning_starts=20"]
WORDS += ["hardware.n_envs=2"]
WORDS += ["hardware.threads=1", "logger.wandb.mode=disabled", "algo.network.hidden_sizes=[8]"]


def norm_of(trainer):
    return trainer.learner.online.agents.input.norm


def stored(trainer):
    """[n, O], every observation in the replay."""
    state = trainer.buffer.state_dict()
    return np.asarray(state["steps.obs"]).reshape(-1, 4).astype(float)


def test_a_run_counts_what_it_collected_and_stores_it_raw(tmp_path):
    trainer = rltrain.make_trainer(WORDS, run_dir=tmp_path)
    trainer.run(60)
    obs, norm = stored(trainer), norm_of(trainer)
    assert norm.count == len(obs) >= 60
    np.testing.assert_allclose(norm.mean, obs.mean(0), rtol=1e-12)
    np.testing.assert_allclose(norm.variance, obs.var(0), rtol=1e-12)


def test_tests_and_questions_leave_the_statistics_alone(tmp_path):
    trainer = rltrain.make_trainer(WORDS, run_dir=tmp_path)
    trainer.run(30)
    before = {name: tensor.clone() for name, tensor in norm_of(trainer).state_dict().items()}
    trainer.test()
    trainer.compute_single_action(np.full(4, 99.0))
    after = norm_of(trainer).state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_resumed_run_goes_on_with_its_statistics(tmp_path):
    whole = rltrain.make_trainer(WORDS, run_dir=tmp_path / "whole")
    whole.run(60)
    whole.save()
    again = rltrain.make_trainer(WORDS, run_dir=tmp_path / "whole")
    again.restore(tmp_path / "whole")
    assert torch.equal(norm_of(again).squares, norm_of(whole).squares)
    assert again.learner.target.agents.input.norm is norm_of(again)
    obs = [np.array([0.01, 0.3, -0.02, 0.1])] * 2
    assert again.compute_actions(obs).tolist() == whole.compute_actions(obs).tolist()
    policy = rltrain.load_policy(tmp_path / "whole")
    assert torch.equal(policy.policy.agents.input.norm.mean, norm_of(whole).mean)


@pytest.mark.parametrize("algo", ["ow_qmix", "qtran"])
def test_a_critic_sees_the_statistics_of_what_was_collected(tmp_path, algo):
    """The agents of a central critic have statistics of their own; QTRAN's critic has none."""
    overrides = [f"algo={algo}", "env=two_step", "algo.network.normalize_obs=true"]
    overrides += ["hardware.n_envs=2", "hardware.threads=1", "logger.wandb.mode=disabled"]
    trainer = rltrain.make_trainer(overrides, run_dir=tmp_path)
    trainer.run(20)
    norms = [m for m in trainer.learner.online.modules() if isinstance(m, RunningNorm)]
    assert len(norms) == (2 if algo == "ow_qmix" else 1)
    assert norms[0].count >= 40
    for norm in norms[1:]:
        torch.testing.assert_close(norm.state_dict(), norms[0].state_dict())


def test_weights_without_statistics_do_not_fit(tmp_path):
    plain = [w for w in WORDS if "normalize" not in w]
    trainer = rltrain.make_trainer(plain, run_dir=tmp_path / "a")
    folder = trainer.save("weights")
    with pytest.raises(UsageError, match=r"algo\.network\.normalize_obs=False"):
        rltrain.make_trainer([*WORDS, f"checkpoint={folder}"], run_dir=tmp_path / "b")


@pytest.mark.parametrize(
    "overrides",
    [
        pytest.param(["algo=pqn"], marks=pytest.mark.slow),
        pytest.param(["algo=rainbow"], marks=pytest.mark.slow),
        ["algo=dqn", "algo/exploration=parameter_noise", "env.frame_stack=3"],
        pytest.param(["algo=drqn"], marks=pytest.mark.slow),
    ],
    ids=lambda overrides: overrides[0],
)
def test_other_methods_normalize_too(tmp_path, overrides):
    given = [w for w in WORDS if not w.startswith(("algo=", "algo.network.hidden"))]
    if overrides == ["algo=pqn"]:
        given = [w for w in given if not w.startswith(("buffer.", "algo.learning"))]
    trainer = rltrain.make_trainer([*given, *overrides], run_dir=tmp_path)
    trainer.run(60 if overrides != ["algo=pqn"] else 200)
    assert trainer.clock.updates > 0
    assert norm_of(trainer).count >= 60
    assert torch.isfinite(torch.cat([p.ravel() for p in trainer.learner.online.parameters()])).all()


LENGTHS = [4, 2]
BATCH = make_batch(LENGTHS)
REAL = [BATCH.reward[t, b, 0].item() for b, length in enumerate(LENGTHS) for t in range(length)]


def reward_norm(kind="standardize", n_rewards=1):
    return RewardNorm(kind=kind, n_rewards=n_rewards, device=torch.device("cpu"))


@pytest.mark.parametrize("kind", ["scale", "standardize"])
def test_moments_are_those_of_the_real_transitions(kind):
    normalize = reward_norm(kind)
    reward = normalize(with_garbage(BATCH, LENGTHS)).reward[:, 0, 0]
    shift = np.mean(REAL) if kind == "standardize" else 0
    expected = (np.array(REAL[:4]) - shift) / np.std(REAL)
    np.testing.assert_allclose(reward, expected, rtol=1e-5)


def test_moments_of_two_batches_are_those_of_both():
    other = make_batch([3], seed=5)
    normalize = reward_norm()
    normalize(BATCH)
    normalize(other)
    both = REAL + other.reward[:, 0, 0].tolist()
    assert normalize.mean.item() == pytest.approx(np.mean(both))
    assert (normalize.squares / normalize.count).item() == pytest.approx(np.var(both))


def test_streams_have_moments_of_their_own():
    batch = replace(BATCH, reward=torch.cat([BATCH.reward, 10 * BATCH.reward], -1))
    reward = reward_norm("scale", n_rewards=2)(batch).reward
    torch.testing.assert_close(reward[..., 0], reward[..., 1])


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, 0.1, -1e-3, 1e4])
@pytest.mark.parametrize("kind", ["scale", "standardize"])
def test_a_reward_that_never_changes_is_not_divided(kind, value):
    """Defect: it was multiplied by 10,000, and learning diverged."""
    constant = replace(BATCH, reward=torch.full_like(BATCH.reward, value))
    normalize = reward_norm(kind)
    for _ in range(5):
        found = normalize(constant).reward[0, 0, 0]
    assert found == pytest.approx(value if kind == "scale" else 0, abs=1e-9)


def test_a_reward_that_is_not_finite_does_not_enter_the_moments():
    normalize, batch = reward_norm(), replace(BATCH, reward=BATCH.reward.clone())
    batch.reward[0, 0] = torch.nan
    normalize(batch)
    assert normalize.mean.item() == pytest.approx(np.mean(REAL[1:]))


def test_a_restored_learner_goes_on_with_the_moments():
    made = lambda: make_learner(make_model(mixer="sum"), reward_norm=reward_norm())  # noqa: E731
    learners = [made(), made()]
    learners[0].update(BATCH, Clock())
    learners[1].load_state_dict(learners[0].state_dict())
    weights = [learner.update(BATCH, Clock(updates=1)) for learner in learners]
    assert weights[0].metrics["loss"] == weights[1].metrics["loss"]
    torch.testing.assert_close(*(each.online.state_dict() for each in learners), rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["scale", "standardize"])
def test_windows_of_one_agent_each_have_the_moments_of_its_stream(kind):
    reward = torch.randn(1, 400, 2, generator=torch.Generator().manual_seed(0))
    reward = reward * torch.tensor([1.0, 100.0]) + torch.tensor([3.0, 0.0])
    together = make_batch([1] * 400, spec=replace(TEAM, n_agents=2, n_rewards=2))
    together = replace(together, reward=reward)
    agent = torch.arange(400) % 2
    normalize, each = (reward_norm(kind, n_rewards=2) for _ in range(2))
    alone = each(one_agent(together, agent))
    assert alone.reward.shape == (1, 400, 1)
    for i in range(2):
        mine = reward[0, agent == i, i].numpy()
        shift = mine.mean() if kind == "standardize" else 0
        found = alone.reward[0, agent == i, 0]
        np.testing.assert_allclose(found, (mine - shift) / mine.std(), rtol=1e-4)
    normalize(together)
    np.testing.assert_allclose(each.count, normalize.count / 2)
