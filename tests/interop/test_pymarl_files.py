"""Files of PyMARL that hold something else than they should."""

import pytest
import torch

from rltrain.errors import CheckpointError
from rltrain.interop.pymarl_files import optimizer_state

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
        {"state": {}, "param_groups": 5},
        {"state": {}, "param_groups": [{"lr": 5e-4}]},
        {"state": {}, "param_groups": [{"params": [0]}]},
    ],
)
def test_something_else_than_an_optimizers_state_is_refused(tmp_path, saved):
    torch.save(saved, tmp_path / "opt.th")
    with pytest.raises(CheckpointError, match=r"opt\.th is no optimizer's state_dict: expected"):
        optimizer_state(tmp_path / "opt.th")
