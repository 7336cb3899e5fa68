"""Commands of parts that do not belong together, and those that would come to nothing, are refused
with what to type, in one paragraph and before anything is written. ``tests/data`` has the table.
"""

import pytest

import rltrain
from rltrain.battles.data.map_file import SHIPPED
from rltrain.errors import RltrainError
from tests.conftest import CARTPOLE, SMALL
from tests.helpers import contents, data_rows, over, without
from tests.integration.test_maps import ENTITIES, MAPS
from tests.integration.test_maps import SMALL as BATTLES
from tests.integration.test_opponents import SMALL as OF_3M
from tests.integration.test_two_teams import DUEL

BASES = {
    "cartpole": CARTPOLE,
    "3m": OF_3M,
    "3m, against a run on 3m": [*OF_3M, "env.opponent={opponent}"],
    "3m and 5m_vs_6m": [*BATTLES, MAPS],
    "3m and 5m_vs_6m, by entities": [*BATTLES, MAPS, *ENTITIES],
    "duel": DUEL,
    "two_step": ["env=two_step"],
    "two_step, from a run of QMIX on it": [*SMALL, "checkpoint={trained_once}"],
    "two_step, in the folder of a run": [*SMALL, "hydra.run.dir={trained_once}"],
    "resume of a run of QMIX on two_step": ["resume={trained_once}"],
}
"""Small commands; names in braces are fixtures."""


@pytest.mark.parametrize(("base", "line", "said"), [*data_rows("refused_commands.txt")])
def test_a_command_that_cannot_work_is_refused(own_folder, command, request, base, line, said):
    (own_folder / "file").touch()
    words = BASES[base]
    if "algo=pqn" in line or "buffer=on_policy" in line:
        words = without(words, "algo.learning_starts")
    names = [name for name in ("opponent", "trained_once") if f"{{{name}}}" in str(words)]
    values = {name: request.getfixturevalue(name) for name in names}
    words = [word.format(**values) for word in words]
    before = [contents(folder) for folder in (own_folder, *values.values())]
    with pytest.raises(RltrainError, match=said) as refused:
        command(*over(words, *line.replace("SHIPPED", str(SHIPPED)).split()))
    assert len(str(refused.value).splitlines()) == 1
    assert [contents(folder) for folder in (own_folder, *values.values())] == before


def test_a_batch_of_all_that_is_collected_is_accepted(tmp_path):
    """Defect of the larger one: it held some of the same steps several times."""
    words = ["algo=pqn", "env=cartpole", "hardware.n_envs=2", "algo.steps_per_collect=8"]
    rltrain.make_trainer([*words, "algo.batch_size=16"], tmp_path).close()
