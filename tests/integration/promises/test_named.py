"""Every class with a state and every shipped choice is in the table of states."""

import ast
from collections import defaultdict

import pytest

from rltrain.config.catalog import CONF
from rltrain.config.compose import compose_checked
from rltrain.config.python_objects import env_overrides
from tests.integration.promises.checks import CHECKS
from tests.integration.promises.named import ELSEWHERE, NOT_SAVED_IN_RUNS, SAVED_IN
from tests.integration.promises.states import ACTS_AS, PROMISES, STATES, Refused, typed_words
from tests.test_floors import PACKAGE

HOW = "Add a small run that has it to tests/integration/promises/states.py and name it there"


def classes_with_a_state():
    """Classes that define ``state_dict`` with a body, or its names, as ``module.Class`` below
    rltrain.
    """
    for path in PACKAGE.rglob("*.py"):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        text = path.read_text(encoding="utf-8")
        has = "state_dict" in text or "state_names" in text
        for node in ast.walk(ast.parse(text)) if has else ():
            if isinstance(node, ast.ClassDef) and "Protocol" not in map(ast.unparse, node.bases):
                names = {m.name for m in node.body if isinstance(m, ast.FunctionDef)}
                names |= {ast.unparse(m.targets[0]) for m in node.body if isinstance(m, ast.Assign)}
                if names & {"state_dict", "state_names"}:
                    yield f"{module}.{node.name}"


def test_every_class_with_a_state_is_in_a_state_of_the_table():
    found, named = set(classes_with_a_state()), {*SAVED_IN, *NOT_SAVED_IN_RUNS}
    assert found - named == set(), f"{HOW}, in SAVED_IN of named.py."
    assert named - found == set(), "named.py names classes that there are no more."
    assert set(SAVED_IN.values()) <= set(STATES)


def test_every_pair_is_tried_or_has_a_reason():
    assert set(CHECKS) == set(PROMISES)
    for name, state in STATES.items():
        assert set(state.without) <= set(PROMISES), name
        reasons = [why for why in state.without.values() if not isinstance(why, Refused)]
        assert all(len(why.split()) > 3 for why in reasons), name


@pytest.mark.slow
def test_every_shipped_choice_is_made_by_a_state():
    made = defaultdict(set)
    nodes = {}
    for name, state in STATES.items():
        composed = compose_checked(env_overrides([*typed_words(*state.words).values()], state.env))
        nodes[name] = [composed.tree["algo"][part] for part in ("network", "distribution")]
        for group, choice in composed.choices.items():
            made[group].add(str(choice))
    missing = []
    for path in sorted(CONF.rglob("*/*.yaml")):
        group, *deeper = path.relative_to(CONF).parent.as_posix().split("/")
        whole = "/".join((group, *deeper))
        reasons = {**ELSEWHERE.get(group, {}), **ELSEWHERE.get(whole, {})}
        if path.stem not in made[whole] and not {path.stem, "*"} & set(reasons):
            missing.append(f"{whole}={path.stem}")
    assert missing == [], f"{HOW}, or a reason in ELSEWHERE of named.py."
    for other, names in ACTS_AS.items():
        for name in names:
            assert nodes[name] == nodes[other], (name, other)
