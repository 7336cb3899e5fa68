"""What comes from outside is checked before a compiled kernel reads it: each refusal names what is
wrong."""

import json
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from rltrain import kernels
from rltrain.algo.checks import BatchCheck, require_available, require_memory, require_observations
from rltrain.algo.loss.td import TDLoss
from rltrain.algo.network.packing import PackedGRU
from rltrain.kernels.layers.stack import Stack
from rltrain.kernels.layers.td_error_kernel import BatchArrays
from rltrain.kernels.layers.td_step import CompiledTDLoss
from rltrain.kernels.recurrent.packed_gru import gru
from rltrain.types import Clock, EnvSpec, LossResult
from tests.algo import wrong_inputs
from tests.algo.batches import SPEC, make_batch, make_learner, make_model
from tests.helpers import python

BATCH = make_batch([4, 3, 2])  # T = 4, B = 3, N = 2, O = 3, A = 4, S = 5
PLAIN = EnvSpec(n_agents=1, n_actions=2, obs_shape=(4,))


def check(spec=SPEC):
    return BatchCheck(spec=spec, hidden_dim=8, n_streams=1, device=torch.device("cpu"))


def plain_learner():
    """The learner whose whole update is one compiled step."""
    model = make_model("mlp", "independent", PLAIN, last_action=False)
    loss = CompiledTDLoss(TDLoss(gamma=0.99, double=True, n_step=1))
    return make_learner(model, spec=PLAIN, loss=loss)


def test_a_batch_that_fits_passes():
    check()(BATCH)
    check()(replace(BATCH, hidden=torch.zeros(3, 2, 8), td_target=torch.zeros(4, 3, 1)))


@pytest.mark.parametrize(
    "change",
    [
        {"obs": torch.zeros(5, 3, 2, 2)},
        {"obs": BATCH.obs.double()},
        {"avail_actions": BATCH.avail_actions.float()},
        {"avail_actions": BATCH.avail_actions[:-1]},
        {"state": BATCH.state[..., :4]},
        {"last_action": BATCH.last_action.int()},
        {"last_action": BATCH.last_action + 4},
        {"last": BATCH.last[:, :2]},
        {"action": BATCH.action[:, :1]},
        {"action": BATCH.action + 4},
        {"action": BATCH.action - 1},
        {"action": None},
        {"reward": BATCH.reward[..., 0]},
        {"reward": BATCH.reward.numpy()},
        {"terminated": BATCH.terminated.float()},
        {"mask": BATCH.mask.float()},
        {"mask": [[True]]},
        {"weight": torch.ones(2)},
        {"index": torch.ones(3)},
        {"hidden": torch.zeros(3, 2, 9)},
        {"td_target": torch.zeros(4, 3, 2)},
        {"mask_end": 5},
        {"burn_in": -1},
        {"eta": 1.5},
        {"whole": 1},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_batch_that_does_not_fit_is_refused_by_the_name_of_the_field(change):
    (name,) = change
    with pytest.raises(ValueError, match=rf"batch\.{name}: expected") as raised:
        check()(replace(BATCH, **change))
    assert str(raised.value).count("batch.") == 1  # and no field that is right


def test_a_loss_needs_a_gradient_from_the_first_batch_that_it_counts():
    checked, priority = check(), torch.zeros(3)
    checked(BATCH)
    for count in (0, torch.tensor(0)):  # everything is masked
        checked.result(LossResult(torch.tensor(0.0), count, priority, {}), BATCH)
    with pytest.raises(ValueError, match=r"\(algo\.loss\) returned loss_sum=2\.0 without a gradi"):
        checked.result(LossResult(torch.tensor(2.0), 4, priority, {}), BATCH)
    computed = LossResult(torch.tensor(2.0), 4, priority, {}, torch.ones(7))
    assert checked.result(computed, BATCH) is computed


def test_windows_of_one_agent_have_one_agent_and_its_number():
    one = make_batch([2, 2], replace(SPEC, n_agents=1))
    check()(replace(one, agent=torch.tensor([[0], [1]])))
    with pytest.raises(ValueError, match=r"batch\.agent: expected numbers from 0 to 1"):
        check()(replace(one, agent=torch.tensor([[0], [2]])))


@pytest.mark.parametrize(
    ("changes", "clock", "said"),
    [
        ({"weight": np.ones(2, np.float32)}, Clock(), r"got float32 \[2\] \(NumPy\)"),
        ({}, None, r"clock: expected an rltrain\.types\.Clock, got None"),
    ],
)
def test_what_looks_like_a_batch_and_a_clock_is_none(changes, clock, said):
    """Defect: float32 [2] was expected, and float32 [2] was given."""
    with pytest.raises(ValueError, match=said):
        plain_learner().update(replace(make_batch([1, 1], PLAIN), **changes), clock)


def test_stacked_frames_make_observations_wider():
    stacked = replace(SPEC, frame_stack=2)
    with pytest.raises(ValueError, match=r"batch\.obs: expected float32 \[5, 3, 2, 6\]"):
        check(stacked)(BATCH)


@pytest.mark.parametrize("action", [2, 7, -1, 10**8])
@pytest.mark.parametrize("first", [True, False])
def test_the_compiled_step_reads_nothing_outside_an_array(action, first):
    """Defect: action 10^8 was a segmentation fault. Also in later batches of a known layout, whose
    values nothing but the kernel looks at."""
    learner, batch = plain_learner(), make_batch([1, 1], PLAIN)
    if not first:
        learner.update(batch, Clock())
    wrong = replace(batch, action=torch.full_like(batch.action, action))
    with pytest.raises(ValueError, match=rf"batch\.action: expected numbers from 0 to 1.*{action}"):
        learner.update(wrong, Clock())


def test_actions_in_the_padding_do_not_matter_to_the_compiled_step():
    learner, batch = plain_learner(), make_batch([2, 1], PLAIN)
    before = learner.loss(learner.online, learner.target, batch, Clock()).gradient
    action = batch.action.clone()
    action[1, 1] = 99
    after = learner.loss(learner.online, learner.target, replace(batch, action=action), Clock())
    assert torch.equal(after.gradient, before)


SIZES = [(name, d) for name in BatchArrays._fields for d in range(getattr(BATCH, name).dim())]
SIZES.remove(("reward", 2))  # of each agent


@pytest.mark.parametrize("agents", ["mlp", "gru"])
def test_a_compiled_loss_called_without_a_learner_checks_sizes_too(agents):
    """Defect: that of recurrent teams read and wrote behind the ends of arrays."""
    model = make_model(agents, "independent" if agents == "mlp" else "qmix", agent_id=False)
    loss = kernels.compile_loss(TDLoss(gamma=0.9, double=True, n_step=1), model)
    wrong = {place: torch.cat([getattr(BATCH, place[0])] * 2, place[1]) for place in SIZES}
    if agents == "mlp":
        wrong["mask_end", 0] = 5
        del wrong["state", 2]  # which nothing reads
    for (name, _), value in wrong.items():
        with pytest.raises((IndexError, RuntimeError)):
            loss(model, model, replace(BATCH, **{name: value}), Clock())


def test_other_compiled_parts_check_sizes_too():
    stack = Stack.of(make_model("mlp", "independent", PLAIN, last_action=False).agents)
    with pytest.raises(ValueError, match="expected 4 inputs, got 5"):
        stack(np.zeros((1, 1, 5), np.float32), np.zeros((1, 1)), np.zeros((1, 1, 0)))
    cell = PackedGRU(2, 3)
    for first, n_rows in (((2, 4), [2]), ((1, 3), [2]), ((2, 3), [2, 2])):
        with pytest.raises(ValueError, match="expected 3 units"):
            gru(cell, torch.zeros(2, 2), torch.zeros(first), n_rows)


@pytest.mark.parametrize(
    "given",
    [
        np.zeros((1, 3)),
        np.full((1, 2), np.nan),
        np.full((1, 2), 1e39),
        np.array([["a", "b"]]),
        np.zeros((1, 2), complex),
        [[1, 2], [3]],
        {"a": 1},
        None,
    ],
    ids=str,
)
def test_observations_that_do_not_fit_are_refused(given):
    with pytest.raises(ValueError, match="observations: expected"):
        require_observations(given, (1, 2), "float32")


@pytest.mark.parametrize("value", [-1, 256, 0.5, np.nan, np.inf])
def test_observations_that_bytes_cannot_hold_are_refused(value):
    assert require_observations([[7.0, 255]], (1, 2), "uint8").dtype == np.uint8
    with pytest.raises(ValueError, match="observations: expected whole numbers from 0 to 255"):
        require_observations([[0, value]], (1, 2), "uint8")


@pytest.mark.parametrize(
    "given", [[[1, 0, 1]], [[0, 0]], [[1, 2]], [[np.nan, 1]], [["a", "b"]], [[1], [1]], "ab"]
)
def test_masks_that_do_not_fit_are_refused(given):
    with pytest.raises(ValueError, match="avail_actions: expected"):
        require_available(given, (1, 2))


def test_masks_may_be_of_any_type_and_leave_out_a_single_agent():
    for given in ([[1, 0]], [[True, False]], np.array([[1.0, 0.0]]), [1, 0]):
        assert require_available(given, (1, 2)).tolist() == [[True, False]]


def test_a_state_of_another_call_is_refused():
    like = {"hidden": torch.zeros(1, 2, 8), "last_action": torch.zeros(1, 2, dtype=torch.int64)}
    require_memory(dict(like), like, 4)
    for name, wrong in (
        ("hidden", torch.zeros(1, 2, 9)),
        ("hidden", np.zeros((1, 2, 8), np.float32)),
        ("last_action", torch.zeros(1, 2)),
        ("last_action", torch.full((1, 2), 4)),
    ):
        with pytest.raises(ValueError, match=rf"state\['{name}'\]: expected"):
            require_memory({**like, name: wrong}, like, 4)
    with pytest.raises(ValueError, match=r"state\['hidden'\]: expected .* got none"):
        require_memory([], like, 4)


def test_every_tensor_of_a_batch_is_checked():
    from rltrain.algo.checks import FIELDS

    others = {"mask_end", "burn_in", "eta", "whole"}
    assert set(FIELDS) == {field.name for field in fields(BATCH)} - others


def test_a_sample_of_wrong_inputs_is_refused_by_name():
    assert wrong_inputs.tried(40, kinds=("mlp", "gru"))["failures"] == []


@pytest.mark.slow
def test_no_wrong_input_crashes_or_passes():
    """1,000 random wrong shapes, dtypes and ranges for each entry point, learners of six kinds of
    networks, in its own process, which a segmentation fault would end."""
    here = Path(__file__).parents[2]
    done = python("-m", "tests.algo.wrong_inputs", "1000", cwd=here, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert set(report["tried"].values()) == {1000}
    assert report["failures"] == []
