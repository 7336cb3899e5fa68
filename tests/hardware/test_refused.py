"""What processes, workers and tests in workers cannot do is refused with what to type, and before
anything is written. ``tests/data`` has the table.
"""

import pytest

import rltrain
from rltrain.errors import UsageError
from tests.hardware.ddp.test_ranks import SMALL as RANKS
from tests.hardware.ddp.test_ranks import VARIABLES
from tests.hardware.process.test_process_rollout import PROCESS, SMALL
from tests.hardware.process.test_process_tests import WORDS
from tests.helpers import data_rows, nothing_written, over, without

ON_POLICY = ["algo=pqn", "env=cartpole", "tuned=none", "hardware.threads=1"]
BASES = {
    "two processes of torchrun": RANKS,
    "one process, hardware=ddp": RANKS,
    "one process": [*SMALL, "env=cartpole"],
    "workers": [*SMALL, *PROCESS, "env=cartpole"],
    "workers, on-policy": [*ON_POLICY, *PROCESS],
    "tests of three environments": WORDS,
}


@pytest.mark.parametrize(("base", "line", "said"), [*data_rows("refused_hardware.txt")])
def test_what_cannot_be_done_is_refused(own_folder, monkeypatch, base, line, said):
    several = base == "two processes of torchrun"
    for name, value in zip(VARIABLES, (0, 2, 0, "localhost", 1), strict=True):
        monkeypatch.setenv(name, str(value)) if several else monkeypatch.delenv(name, False)
    words = without(BASES[base], "algo.exploration") if "parameter_noise" in line else BASES[base]
    with pytest.raises(UsageError, match=said):
        rltrain.make_trainer(over(words, *line.split()), run_dir="run")
    assert nothing_written(own_folder)
