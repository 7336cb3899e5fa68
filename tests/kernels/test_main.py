"""What ``make install`` compiles is what runs use: its functions run with the code as it is."""

import pytest
import torch

from rltrain.kernels import __main__ as program


@pytest.fixture(autouse=True)
def threads():
    n_threads = torch.get_num_threads()
    yield
    torch.set_num_threads(n_threads)


def test_everything_that_is_compiled_beforehand_can_be_called():
    for compile_part in program.PARTS.values():
        compile_part()
