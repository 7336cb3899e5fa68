"""Files of PyMARL that hold something other than they should."""

import os
import pickle
import warnings
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
import torch

from rltrain.errors import CheckpointError
from rltrain.migrate.pymarl_files import optimizer_state, read_folder, tensors

GROUP = {"params": [0], "lr": 5e-4}
MOMENTS = {"step": 3, "square_avg": torch.zeros(2)}  # step is a number in old versions of PyTorch


def test_an_optimizers_state_is_read(tmp_path):
    saved = {"state": {0: MOMENTS}, "param_groups": [GROUP]}
    torch.save(saved, tmp_path / "opt.th")
    assert optimizer_state(tmp_path / "opt.th")["param_groups"] == [GROUP]


@pytest.mark.parametrize(
    "saved",
    [
        {"state": {}},
        {"state": [1], "param_groups": [GROUP]},
        {"state": {0: 1.0}, "param_groups": [GROUP]},
        {"state": {0: {**MOMENTS, "square_avg": 1.0}}, "param_groups": [GROUP]},
        {"state": {0: {**MOMENTS, "square_avg": -torch.ones(2)}}, "param_groups": [GROUP]},
        *({"state": {0: MOMENTS}, "param_groups": [{**GROUP, "params": [n]}]} for n in ([0], "0")),
        {"state": {0: {5: torch.ones(2)}}, "param_groups": [GROUP]},
        {"state": {}, "param_groups": 5},
        {"state": {}, "param_groups": [{"lr": 5e-4}]},
        {"state": {}, "param_groups": [{"params": [0]}]},
    ],
)
def test_something_else_than_an_optimizers_state_is_refused(tmp_path, saved):
    torch.save(saved, tmp_path / "opt.th")
    with pytest.raises(CheckpointError, match=r"opt\.th is not an optimizer's state_dict"):
        optimizer_state(tmp_path / "opt.th")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.zeros(2, 2).to(torch.float8_e4m3fn),
        lambda: torch.zeros(2, device="meta"),
        lambda: torch.quantize_per_tensor(torch.zeros(2), 0.1, 0, torch.qint8),
        lambda: torch.zeros(2, dtype=torch.complex64),
        lambda: torch.zeros(2).to_sparse(),
        lambda: torch.nested.nested_tensor([torch.zeros(1), torch.zeros(2)]),
        lambda: torch.zeros(1).expand(40_000, 40_000),
        lambda: torch.zeros(4, 4).T[:2],
        lambda: "text",
    ],
)
def test_tensors_that_are_not_stored_whole_are_refused(tmp_path, make):
    """Defect: tracebacks, and a file of 2 KB that took all memory."""
    agent, optimizer = tmp_path / "agent.th", tmp_path / "opt.th"
    for name in ("fc1.weight", None):
        torch.save({name: make()}, agent)
        with pytest.raises(CheckpointError, match=rf"agent\.th is not .*{name}' is none|None is"):
            tensors(agent)
    torch.save({"state": {0: {"square_avg": make()}}, "param_groups": [GROUP]}, optimizer)
    with pytest.raises(CheckpointError, match="is not an optimizer's state_dict"):
        optimizer_state(optimizer)


def test_brain_floats_become_single_precision(tmp_path):
    """Defect: they were refused as no numbers."""
    half = torch.tensor([1.5, -2.0], dtype=torch.bfloat16)
    torch.save({"fc1.weight": half}, tmp_path / "agent.th")
    torch.save({"state": {0: {"square_avg": half.abs()}}, "param_groups": [GROUP]}, tmp_path / "o")
    (moment,) = optimizer_state(tmp_path / "o")["state"][0].values()
    read = tensors(tmp_path / "agent.th")["fc1.weight"], moment
    assert [(x.dtype, x.tolist()) for x in read] == [
        (torch.float32, [1.5, -2.0]),
        (torch.float32, [1.5, 2.0]),
    ]


def test_what_is_larger_than_its_file_is_refused(tmp_path):
    shared, file = torch.zeros(1000), tmp_path / "agent.th"
    torch.save({str(i): shared for i in range(100)}, file)
    with pytest.raises(CheckpointError, match="no larger than the file"):
        tensors(file)
    torch.save({"x" * 1000: shared}, file)
    with pytest.raises(CheckpointError, match=r"x{60}") as found:
        tensors(file)
    assert len(str(found.value)) < 400
    torch.save({"weight": shared}, file)
    with ZipFile(file) as plain, ZipFile(tmp_path / "mixer.th", "w", ZIP_DEFLATED) as packed:
        for name in plain.namelist():
            packed.writestr(name, plain.read(name))
    with pytest.raises(CheckpointError, match="compressed"):
        tensors(tmp_path / "mixer.th")


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_weights_that_are_not_finite_are_refused(tmp_path, value):
    weights = {"fc1.weight": torch.ones(2, 2), "fc1.bias": torch.tensor([0.0, value])}
    torch.save(weights, tmp_path / "agent.th")
    with pytest.raises(CheckpointError, match=r"NaN or infinite weights \(fc1.bias\).*load_step=N"):
        tensors(tmp_path / "agent.th")


class Evil:
    """Runs a command where it is unpickled."""

    def __reduce__(self):
        return os.system, ("touch executed",)


DOUBLED = b")" + b"".join(b"q%ch%c\x86" % (i, i) for i in range(60))
"""Opcodes of a tuple of two tuples of two …, whose hash takes 2^60 steps."""
HEAVY = {
    "a key without an end": b"}" + DOUBLED + b"K\x01s.",
    "a longer beginning": b"}X\0\0\x40\0" + b"x" * (1 << 22) + b"K\x010" + DOUBLED + b".",
    "an array of 16 GB": b"cbuiltins\nbytearray\n\x8a\x05\0\0\0\0\x04\x85R.",
}


@pytest.mark.parametrize("is_zip", [True, False])
@pytest.mark.parametrize("name", HEAVY)
def test_a_small_pickle_that_takes_all_memory_or_time_is_refused(tmp_path, name, is_zip):
    path, options = tmp_path / "agent.th", {"_use_new_zipfile_serialization": is_zip}
    torch.save({}, path, **options)
    content, heavy = path.read_bytes(), b"\x80\x02" + HEAVY[name]
    if is_zip:
        with ZipFile(path, "w") as file:
            file.writestr("agent/data.pkl", heavy)
            file.writestr("agent/version", "3\n")
    else:
        path.write_bytes(content.replace(pickle.dumps({}, 2), heavy, 1))
    with pytest.raises(CheckpointError, match=r"agent\.th cannot be read \(ValueError"):
        read_folder(tmp_path, None)
    torch.save({"a": torch.ones(2)}, path, **options)
    groups = [{"params": [torch.ones(2, requires_grad=True)]} for _ in range(9)]  # one betas
    torch.save(torch.optim.Adam(groups).state_dict(), tmp_path / "opt.th", **options)
    assert read_folder(tmp_path, None).agent["a"].sum() == 2


def test_a_pickle_that_torch_did_not_write_is_refused_without_its_warning(tmp_path):
    (tmp_path / "agent.th").write_bytes(pickle.dumps(Evil()))
    with warnings.catch_warnings(action="error"), pytest.raises(CheckpointError):
        read_folder(tmp_path, None)


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / "agent.th").write_bytes(b"hello")
    with pytest.raises(CheckpointError, match=r"agent\.th cannot be read"):
        read_folder(tmp_path, None)
