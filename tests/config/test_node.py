"""Parts of rltrain's that refuse their keywords name the key that they belong to."""

import pytest

from rltrain.config import node
from rltrain.config.node import FACTS, Node

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
