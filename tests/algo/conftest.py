"""Every test here runs with compiled kernels, and in the slow suite also without."""

import pytest

from tests.algo import batches


@pytest.fixture(autouse=True, params=["compiled", pytest.param("torch", marks=pytest.mark.slow)])
def kernels(request, monkeypatch):
    monkeypatch.setattr(batches, "KERNELS", request.param)
    return request.param
