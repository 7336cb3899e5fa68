import copy

import pytest
import torch
from torch import nn

from rltrain.types import Clock
from tests.algo.batches import make_batch, make_learner, make_model

BATCH = make_batch([4, 3, 2])

REPLACEMENTS = {
    "a parameter": lambda m: setattr(m.agents.fc2, "weight", nn.Parameter(m.agents.fc2.weight * 1)),
    "its data": lambda m: setattr(m.agents.fc2.weight, "data", m.agents.fc2.weight.data * 1),
    "a module": lambda m: setattr(m.agents, "fc2", copy.deepcopy(m.agents.fc2)),
    "a new module": lambda m: setattr(m.agents, "fc2", nn.Sequential(m.agents.fc2)),
    "by loading": lambda m: m.load_state_dict(copy.deepcopy(m.state_dict()), assign=True),
}


@pytest.mark.parametrize("how", REPLACEMENTS)
def test_replaced_parameters_are_refused_by_name(how):
    """Defect: they stayed as they were for the rest of the run, without a word."""
    learner = make_learner()
    learner.update(BATCH, Clock())
    REPLACEMENTS[how](learner.online)
    name = "its network" if how == "a new module" else r"agents\.fc"
    with pytest.raises(ValueError, match=rf"cannot train .*{name}.*were replaced"):
        learner.update(BATCH, Clock())


def test_parameters_whose_values_change_are_trained_on():
    learner, other = make_learner(), make_model(seed=1)
    learner.online.load_state_dict(other.state_dict())
    with torch.no_grad():
        learner.online.agents.fc2.weight.mul_(2)
    before = learner.online.agents.fc2.weight.detach().clone()
    learner.update(BATCH, Clock())
    assert not torch.equal(learner.online.agents.fc2.weight, before)
