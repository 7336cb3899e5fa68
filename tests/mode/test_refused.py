"""Commands of every mode that would come to nothing are refused with what to type, and before
anything is written. ``tests/data`` has the table.
"""

import shlex

import pytest

from rltrain.errors import CheckpointError, UsageError
from tests.conftest import SMALL
from tests.helpers import data_rows, over, unchanged
from tests.report.runs import write_run

MATCH = ["mode=match", "checkpoints=[closest,focus]", "match.battles=4"]
BASES = {
    "a small training": SMALL,
    "nothing": [],
    "nothing, of a checkpoint": [],
    "a sweep": ["-m", "algo=dqn", "env=cartpole"],
    "a match": MATCH,
    "a match on 3m": [*MATCH, "env=smac", "env.map_name=3m", "hardware.threads=1"],
    "a report": ["mode=report"],
    "a search": ["mode=tune", "algo=dqn", "env=cartpole"],
}
FILES = {
    "mode.yaml": "mode: tune",
    "resume.yaml": "resume: somewhere",
    "clock.yaml": "name: t-${now:%S}",
}
MANY = {
    "NUMBERS": ",".join(map(str, range(99))),
    "AGENTS": ",".join(f"agent{i}" for i in range(46)),
    "BRACKETS": "[" * 500 + "]" * 500,
}
ROWS = [*data_rows("refused_modes.txt")]


def files(folder, base):
    """What commands might read or replace, and two links that lead nowhere."""
    for name, text in FILES.items():
        (folder / name).write_text(f"{text}\n")
    for link, target in (("LINK", "LINK"), ("LINK2", "nowhere")):
        (folder / link).symlink_to(folder / target)
    for number in range(10 if base == "a report" else 0):
        algo = ("dqn", "pqn")[number % 2]
        write_run(folder / f"outputs/{algo}/run{number}", algo, seed=number // 2, values=[0, 1])


@pytest.mark.parametrize(("base", "line", "said"), ROWS)
def test_a_command_that_cannot_be_carried_out_is_refused(own_folder, command, base, line, said):
    """Defects: continued sweeps had more runs; searches said that their files had been edited."""
    if base == "a search":
        pytest.importorskip("optuna")
    files(own_folder, base)
    kind = CheckpointError if base == "nothing, of a checkpoint" else UsageError
    typed = shlex.split(line)
    for name, text in MANY.items():
        typed = [word.replace(name, text) for word in typed]
    for link in ("LINK", "LINK2") if "LINK" in line else ("",):
        words = [word.replace("LINK", link) for word in typed]
        with unchanged(own_folder), pytest.raises(kind, match=said.replace("LINK", link)) as no:
            command(*over(BASES[base], *words))
        assert "\n" not in str(no.value)
