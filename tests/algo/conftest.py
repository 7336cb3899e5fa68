"""Every test here runs with compiled kernels, and in the slow suite also without."""

import pytest

from rltrain.algo.mixer.sum import Independent
from rltrain.interfaces import Model
from rltrain.types import EnvSpec
from tests.algo import batches
from tests.algo.batches import Table, open_batch


@pytest.fixture(autouse=True, params=["compiled", pytest.param("torch", marks=pytest.mark.slow)])
def kernels(request, monkeypatch):
    monkeypatch.setattr(batches, "KERNELS", request.param)
    return request.param


@pytest.fixture
def tiny():
    """Two windows of two steps, the second one step long, one agent, two actions."""
    spec = EnvSpec(n_agents=1, n_actions=2, obs_shape=(1,))
    batch = open_batch([2, 1], spec, action=[0, 1, 1, 0], reward=[1.0, 2.0, 3.0, 0.0])
    online = Model(Table([1.0, 2.0]), Independent(spec=spec))
    target = Model(Table([10.0, 20.0]), Independent(spec=spec))
    return online, target, batch
