"""Every key of the shipped YAML files is read: a setting by code outside the schema, a keyword of a
part by the body of its constructor.
"""

import ast
import dataclasses
import inspect
import textwrap
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import get_type_hints

import pytest
import yaml

import rltrain
from rltrain.common.imports import locate
from rltrain.common.keywords import PASSED_WHOLE
from rltrain.config import schema
from rltrain.config.catalog import CONF
from rltrain.config.node import FACTS
from rltrain.config.schema import AlgoSettings
from rltrain.config.yaml_files import LOADER

PACKAGE = Path(rltrain.__file__).parent
RECORDS = [v for n, v in vars(schema).items() if n.endswith("Settings") and n != "Settings"]


def shipped_targets(node):
    """What the ``_target_`` nodes below a node name."""
    values = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    if isinstance(node, dict) and isinstance(node.get("_target_"), str):
        yield node["_target_"]
    for value in values:
        yield from shipped_targets(value)


@cache
def targets():
    """Every name that a ``_target_`` of the shipped files has."""
    texts = (path.read_text(encoding="utf-8") for path in CONF.rglob("*.yaml"))
    trees = (yaml.load(text, Loader=LOADER) for text in texts if "_target_" in text)
    return sorted({target for tree in trees for target in shipped_targets(tree)})


@pytest.fixture(scope="module")
def read_names():
    """The names that rltrain reads as ``part.name`` or ``tree["name"]``, outside the schema."""
    paths = [path for path in PACKAGE.rglob("*.py") if path.name != "schema.py"]
    nodes = (n for p in paths for n in ast.walk(ast.parse(p.read_text(encoding="utf-8"))))
    read = [n for n in nodes if isinstance(getattr(n, "ctx", None), ast.Load)]
    parts = {n.attr for n in read if isinstance(n, ast.Attribute)}
    trees = [n.slice for n in read if isinstance(n, ast.Subscript)]
    return parts | {each.value for each in trees if isinstance(each, ast.Constant)}


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_every_setting_is_read(record, read_names):
    unread = {f.name for f in dataclasses.fields(record)} - read_names
    assert not unread


def test_every_keyword_of_a_part_is_read(read_names):
    ours = [name for name in targets() if locate(name).__module__.startswith("rltrain.")]
    unread = {target: unread_keywords(target, read_names) for target in ours}
    assert {target: names for target, names in unread.items() if names} == {}


def unread_keywords(target, read_names):
    call = locate(target)
    if dataclasses.is_dataclass(call):
        names = {node.attr for node in ast.walk(source_of(call)) if isinstance(node, ast.Attribute)}
        keywords = {f.name for f in dataclasses.fields(call)}
    else:
        body = call.__init__ if inspect.isclass(call) else call
        if not inspect.isfunction(body):
            return set()  # no constructor of its own
        names = {node.id for node in ast.walk(source_of(body)) if isinstance(node, ast.Name)}
        keywords = {*inspect.signature(inspect.unwrap(body)).parameters} - {"self"}
        for name, record in flat_records(body).items():
            if f"asdict({name})" not in inspect.getsource(body):  # all of it goes to the game
                keywords |= {f.name for f in dataclasses.fields(record)} - read_names
    return keywords - names


def flat_records(function):
    """The dataclasses that ``flat_keywords`` takes apart, by argument."""
    if not hasattr(function, "__wrapped__"):
        return {}
    hints = get_type_hints(inspect.unwrap(function), include_extras=True)
    records = {name: hint for name, hint in hints.items() if dataclasses.is_dataclass(hint)}
    return {name: hint for name, hint in records.items() if hint.__module__ != PASSED_WHOLE}


def source_of(part):
    return ast.parse(textwrap.dedent(inspect.getsource(part)))


def test_facts_are_asked_for_by_some_part():
    asked = {name for target in targets() for name in inspect.signature(locate(target)).parameters}
    assert {name for names in FACTS.values() for name in names} <= asked


@pytest.mark.parametrize(
    ("typed", "per_env_step", "n_envs", "expected"),
    [
        (3, 0.25, 8, 3),
        ("auto", 0.25, 8, 1),
        ("auto", 0.25, 1, 4),
        ("auto", 0.1, 1, 10),  # 1 / 0.1 is more than 10 in binary fractions
        ("auto", 0.1, 32, 1),
        ("auto", 0.1, 3, 4),
        ("auto", 1e-6, 1, 64),
        ("auto", 2, 1, 1),
        ("auto", None, 8, 1),
    ],
)
def test_time_steps_of_one_iteration(typed, per_env_step, n_envs, expected):
    others = ("updates_per_episode", "max_grad_norm", "lr_factors", "reward_norm")
    given = {"steps_per_collect": typed, "updates_per_env_step": per_env_step}
    algo = AlgoSettings(batch_size=1, learning_starts=0, **given, **dict.fromkeys(others))
    assert algo.time_steps(n_envs) == expected


def test_one_iteration_makes_one_gradient_step(tmp_path):
    words = ["algo=dqn", "env=cartpole", "tuned=none", "hardware.n_envs=1", "logger=[]"]
    words += ["algo.updates_per_env_step=0.1", "algo.learning_starts=50", "algo.batch_size=8"]
    trainer = rltrain.make_trainer(words, run_dir=tmp_path / "run")
    counts = []
    trainer.callbacks.on_iteration = lambda t: counts.append((t.clock.env_steps, t.clock.updates))
    trainer.start()
    trainer.run(400)
    trainer.close()
    per_iteration = [b[1] - a[1] for a, b in pairwise(counts) if a[0] > 60]
    assert set(per_iteration) <= {0, 1}  # none where an episode's final step is among them
    env_steps, updates = counts[-1]
    assert abs(updates - (env_steps - 50) / 10) <= 1
