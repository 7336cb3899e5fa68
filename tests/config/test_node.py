"""A part whose ``_target_`` is typed starts from its own keywords, judged by its annotations; one
that refuses its keywords names the key that they belong to.
"""

import json

import pytest

from rltrain.api import settings_from
from rltrain.config import node
from rltrain.config.catalog import CONF, Catalog
from rltrain.config.compose import compose_choices
from rltrain.config.node import FACTS, Node
from rltrain.config.saved_config import apply, load_config
from rltrain.config.validate.constructor import convert, expected
from rltrain.errors import UsageError

MODULE = """
from __future__ import annotations
from typing import TYPE_CHECKING, Annotated, Literal
from pydantic import Field
from torch import nn
if TYPE_CHECKING:
    from somewhere import EnvSpec

class Net(nn.Module):
    def __init__(self, *, spec: EnvSpec, distribution, width: Annotated[int, Field(ge=2)] = 32,
                 sizes: tuple[int, ...] = (1, 2), kind: Literal["a", "b"] = "a", anything=None):
        super().__init__()

class Needy:
    def __init__(self, *, spec, scale: float):
        pass

def free(params, *, lr: float, **options):
    pass

def game(*, n_envs, training, record, opponents: int = 1):
    pass
"""
NET = "algo.network._target_=own_nodes.Net"


@pytest.fixture(autouse=True)
def module(tmp_path, monkeypatch):
    (tmp_path / "own_nodes.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))


def network(*overrides):
    return settings_from(["algo=dqn", "env=cartpole", *overrides]).nodes["algo.network"].kwargs


def refused(*overrides):
    with pytest.raises(UsageError) as caught:
        settings_from(["algo=dqn", "env=cartpole", *overrides])
    return str(caught.value)


def test_a_typed_part_has_none_of_the_keywords_it_replaces():
    own = {"width": 32, "sizes": (1, 2), "kind": "a", "anything": None}
    assert network(NET) == own
    assert network("experiment=cleanrl/dqn_cartpole", NET) == own


@pytest.mark.parametrize(
    "overrides",
    [
        [NET, "+algo.network.width=3"],
        [NET, "algo.network.width=3"],
        ["algo.network.width=3", NET],
        ["algo.network={_target_: own_nodes.Net, width: 3}"],
        [NET, "algo.network.width=3.0"],
    ],
    ids=" ".join,
)
def test_a_typed_part_takes_its_own_keywords(overrides):
    assert network(*overrides)["width"] == 3


def test_values_are_converted_as_the_annotations_say():
    given = network(NET, "algo.network.sizes=[4,5e1]", "algo.network.anything={a: [1]}")
    assert (given["sizes"], given["anything"]) == ((4, 50), {"a": [1]})


SAID = [
    (NET, "algo.network.widht=3", "own_nodes.Net has no such setting. It has width, sizes, kind"),
    (NET, "algo.network.widht=3", "Did you mean 'width'?"),
    (NET, "algo.network.width=1", "expected a whole number, at least 2, got 1"),
    (NET, "algo.network.width=big", "expected a whole number, at least 2, got big"),
    (NET, "algo.network.kind=c", "one of a, b"),
    ("mode=tune", "tune.space=lr", "expected a list, each a mapping, or null, got lr"),
    (NET, "algo.network.spec=c", "own_nodes.Net has no such setting"),
    ("algo.mixer._target_=own_nodes.Needy", "algo.mixer.scale=x", "a number, got x"),
    ("algo.mixer._target_=own_nodes.Needy", "seed=1", "algo.mixer.scale is missing"),
    ("algo.optimizer._target_=own_nodes.free", "seed=1", "algo.optimizer.lr is missing"),
    ("algo.loss._target_=own_nodes.Missing", "seed=1", "cannot be found"),
    ("algo.loss._target_=own_nodes.MODULE", "seed=1", "cannot be found"),
    ("algo.loss._target_=rltrain.__version__", "seed=1", "is not a class or function"),
    ("algo.bogus._target_=own_nodes.Net", "seed=1", "Unknown key 'algo.bogus._target_'"),
]


@pytest.mark.parametrize(("target", "word", "said"), SAID, ids=str)
def test_wrong_keywords_of_a_typed_part_are_named(target, word, said):
    assert said in refused(target, word)


def test_other_keywords_reach_a_constructor_that_takes_them():
    overrides = ["algo.optimizer._target_=own_nodes.free", "algo.optimizer.lr=1"]
    overrides += ["algo.optimizer.x=2"]
    assert settings_from(["algo=dqn", *overrides]).nodes["algo.optimizer"].kwargs == {
        "lr": 1,
        "x": 2,
    }


def test_optimizers_of_torch_are_typed_like_any_other():
    overrides = ["algo.optimizer._target_=torch.optim.AdamW", "algo.optimizer.betas=[0.8,0.9]"]
    settings = settings_from(["algo=dqn", *overrides])
    assert settings.nodes["algo.optimizer"].kwargs["betas"] == (0.8, 0.9)
    assert settings.choices["algo/optimizer"] == "AdamW"


def test_the_record_of_a_typed_part_holds_its_defaults_as_json():
    plain = settings_from(["algo=dqn", NET]).plain
    assert json.loads(json.dumps(plain)) == plain
    assert plain["algo"]["network"]["sizes"] == [1, 2]


def test_a_loaded_run_starts_a_typed_part_afresh():
    saved = settings_from(["algo=dqn"]).plain
    tree, changed = apply([NET, "algo.network.width=5"], saved)
    assert tree["algo"]["network"] == {"_target_": "own_nodes.Net", "width": 5}
    assert changed == ["algo.network._target_", "algo.network.width"]


def test_a_yaml_of_ones_own_replaces_a_part(tmp_path):
    own = Catalog(CONF, tmp_path)
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text(
        "# @package _global_\ndefaults:\n  - override /algo: dqn\n"
        "algo:\n  network:\n    _target_: own_nodes.Net\n    width: 7\n",
        encoding="utf-8",
    )
    mine = compose_choices(("experiment=mine",), frozenset(), own)
    assert mine.tree["algo"]["network"] == {"_target_": "own_nodes.Net", "width": 7}
    gru = compose_choices(("experiment=mine", "algo/network=gru"), frozenset(), own)
    assert gru.tree["algo"]["network"]["_target_"] == "rltrain.algo.GRUAgents"


@pytest.mark.parametrize(
    ("annotation", "value", "converted"),
    [(int, 1e3, 1000), (int | None, None, None), (list[int], [2.0], [2]), (float, 1, 1.0)],
)
def test_plain_annotations_take_numbers_as_people_type_them(annotation, value, converted):
    assert convert(annotation, value) == converted
    assert type(convert(annotation, value)) is type(converted)


def test_annotations_in_words():
    assert expected(tuple[int, float]) == "a list: a whole number, a number"
    assert expected(str | None) == "text or null"


@pytest.mark.parametrize("learns", [False, True])
def test_a_keyword_named_opponents_is_the_environments_own(learns, tmp_path):
    """Defect: keys of two sides were missing, and a saved one became null."""
    words = ["algo=dqn", "env._target_=own_nodes.game", "env.opponents=3"]
    settings = settings_from(words)
    assert settings.opponents is None
    assert settings.nodes["env"].kwargs == {"opponents": 3}
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**settings.plain, "choices": settings.choices}), encoding="utf-8")
    tree, *_ = load_config(file, ["trust=[own_nodes]"], learns=learns)
    assert tree["env"] == settings.plain["env"]


PATHS = [path.replace("*", "wandb") for path in FACTS]


def refusal(monkeypatch, path, text, **kwargs):
    """The message of a part at a path that cannot be built."""

    def build(**given):
        raise ValueError(text)

    monkeypatch.setattr(node, "locate", lambda target: build)
    with pytest.raises(ValueError, match=r"^") as refused:
        Node(path=path, target="rltrain.algo.Part", kwargs=kwargs).build()
    return str(refused.value)


@pytest.mark.parametrize("path", PATHS)
def test_a_part_that_refuses_is_named(path, monkeypatch):
    assert refusal(monkeypatch, path, "Too small.") == f"{path}: Too small."
    assert refusal(monkeypatch, path, "No env steps.") == f"{path}: No env steps."


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("text", ["{}.size=0: too small.", "Part ({}) is too small."])
def test_a_message_that_names_the_key_is_left_alone(path, text, monkeypatch):
    text = text.format(path)
    assert refusal(monkeypatch, path, text) == text


@pytest.mark.parametrize("path", ["env", "test.env"])
def test_keywords_that_are_passed_on_are_named(path, monkeypatch):
    said = refusal(monkeypatch, path, f"{path}.id=A-v0 cannot be created.", kwargs={"N": 0})
    assert said == f"{path}.id=A-v0 cannot be created (with {path}.kwargs={{N: 0}})."
    said = refusal(monkeypatch, path, "unexpected keyword argument 'N'", kwargs={"N": 0})
    typed = dict.fromkeys(["~env.kwargs.N", f"~{path}.kwargs.N"])
    assert f". Type {' or '.join(typed)} to leave it out of a new run or an evaluation. " in said
    assert said.endswith(
        "A resumed run keeps it: start a new run with checkpoint=RUN_FOLDER instead."
    )
