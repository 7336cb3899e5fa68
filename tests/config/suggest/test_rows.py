"""What the tables of other libraries' names say to type is accepted as it stands."""

import re
import shlex

import pytest

from rltrain import main as entry
from rltrain.config.catalog import SHIPPED
from rltrain.config.suggest.aliases import choice_aliases, tables
from rltrain.errors import UsageError
from tests.config.suggest.test_kept_arguments import composed
from tests.marks import slow_except

TEAMS = ("qmix", "vdn", "iql", "qplex", "qtran", "ow_qmix", "cw_qmix", "qatten", "qplex_attention")
ALGOS = [algo for algo in SHIPPED.options("algo") if algo != "scripted"]
VALUES = sorted(
    f"{name}={'x' if value == '*' else value}"
    for sections in tables().values()
    for section, rows in sections.items()
    for row in (rows if section != "Metrics" else ())
    for name in row.theirs.split()
    for value in row.values
)


def problem(base, word):
    """What is wrong with the answer to a value of another library's, "" for nothing."""
    try:
        composed([*base, word])
    except UsageError as error:
        said = str(error).splitlines()[0]
    else:
        return ""
    if "twice" in said:
        return said
    found = re.search(r"Type (\S+=\S+(?: \S+=\S+)*)(?: \(.*\))?\.$", said)
    typed = [each for each in shlex.split(found[1]) if each[0] != "-"] if found else []
    try:
        composed([*base, *typed])
    except UsageError as error:
        return f"{said}: {error}"
    return ""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("algo", ALGOS)
@pytest.mark.parametrize("part", slow_except([0], range(4)))
def test_what_a_value_means_is_accepted_with_every_algorithm(algo, part):
    """Defect: use_rnn=False of PyMARL was answered with algo/network=mlp twice."""
    base = [f"algo={algo}", "env=smac" if algo in TEAMS else "env=cartpole"]
    assert len(VALUES) > 150
    assert [found for word in VALUES[part::4] if (found := problem(base, word))] == []


@pytest.mark.parametrize("typed", [("td_lambda=0.8",), ("algo.loss.trace=0.8",)])
@pytest.mark.parametrize("first", [True, False])
def test_a_typed_lambda_stays_beside_q_lambda(typed, first):
    words = [*typed, "q_lambda=True"] if first else ["q_lambda=True", *typed]
    with pytest.raises(UsageError) as caught:
        composed(["algo=qmix", "env=lbf", *words])
    text = str(caught.value) + entry.in_one(caught.value, ["algo=qmix", "env=lbf", *words])
    if "In one command" in text:
        assert "algo.loss.trace=0.8 algo.loss.corrected=true" in text
    else:
        assert "Type algo.loss.corrected=true (" in text


def test_every_part_of_a_row_is_text():
    """Defect: a note with a colon became a mapping."""
    sections = [rows for library in tables().values() for rows in library.values()]
    odd = [
        row
        for rows in [*sections, *choice_aliases().values()]
        for row in rows
        for x in (row.theirs, row.ours, row.note, row.convert, *row.values.values())
        if not isinstance(x, str)
    ]
    assert odd == []
