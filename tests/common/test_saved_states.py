"""Whatever a part keeps comes back from a checkpoint as it was, or is refused when it is saved."""

import random
from itertools import accumulate

import numpy as np
import pytest
import torch

from rltrain.common import checkpoint
from rltrain.types import Pieces
from tests.common.test_checkpoint import make

KEYS = ["a", "b", "a.b", "a.b~", "b.0", "", ".", "a/b", "..", "%2E", "~", "\ud800", "x" * 300]
KEYS += ["__tensor__", "__float__", "__items__", "__tuple__", "__metadata__", "torch", "1", "ä\0"]
KEYS += [0, 1, -7, 2**70, 2.5, float("inf"), None, (1, "a"), np.int64(3)]
LEAVES = [None, True, 0, 2**90, -0.0, 1e300, float("-inf"), "", "\ud800\0", np.float32(0.1)]
LEAVES += [np.zeros(()), np.arange(6.0).reshape(2, 3).T, np.zeros((0, 2), np.uint16)]
LEAVES += [torch.ones(()), np.arange(3, dtype=">i4"), torch.zeros(2, 3, dtype=torch.bool).T]
LEAVES += [np.float16([1, np.inf])]


def nested(rng, depth):
    """A state drawn at random."""
    kind = rng.choice(["dict", "dict", "list", "tuple", "leaf"]) if depth else "leaf"
    if kind == "leaf":
        return rng.choice(LEAVES)
    below = [nested(rng, depth - 1) for _ in range(rng.randrange(6))]
    if kind == "dict":
        return dict(zip(rng.sample(KEYS, len(below)), below, strict=True))
    return below if kind == "list" else tuple(below)


def require_same(one, other, at=""):
    """Both have the same types, keys and numbers."""
    if isinstance(one, np.generic):
        one = one.item()
    assert type(one) is type(other), at
    if isinstance(one, dict):
        assert [*one] == [*other], at
    if isinstance(one, dict | list | tuple):
        assert len(one) == len(other), at
        for key in one if isinstance(one, dict) else range(len(one)):
            require_same(one[key], other[key], f"{at}[{key!r}]")
    elif isinstance(one, np.ndarray | torch.Tensor):
        native = [np.asarray(each).dtype.newbyteorder("=") for each in (one, other)]
        assert (one.shape, native[0]) == (other.shape, native[1]), at
        assert np.array_equal(one, other), at
    else:
        assert repr(one) == repr(other), at


def test_every_state_comes_back_as_it_was(tmp_path):
    """Defect: of arrays at a.b and a → b one was lost, and keys and tuples were others."""
    rng = random.Random(0)
    for depth in (1, 2, 3, 4) * 30:
        state = {"first": nested(rng, depth), **dict.fromkeys(["a.b", "a"], nested(rng, depth))}
        require_same(state, checkpoint.read(make(tmp_path, 5, state=state), "model"))
    state = {1: np.ones(1), "1": np.zeros(2), "a.b": np.ones(3), "a": {"b": np.ones(4)}}
    require_same(state, checkpoint.read(make(tmp_path, 5, state=state), "model"))


def test_large_arrays_are_written_under_any_key(tmp_path):
    part = [np.arange(2), np.arange(3)]
    keys = ["a.b", "a", "a/b", "..", "", "ä\ud800", "__array__", 3, (1, "x")]
    large = {key: Pieces((5,), part[0].dtype, lambda: iter(part)) for key in keys}
    large["a"] = {"b": large["a"]}
    back = checkpoint.read(make(tmp_path, 5, state=large), "model")
    assert [*back] == keys
    for key in keys:
        array = back[key]["b"] if key == "a" else back[key]
        assert array.tolist() == [0, 1, 0, 1, 2]


WRAPPED = {
    "dict": lambda state: {"a": state},
    "other keys": lambda state: {1: state},
    "list": lambda state: [state],
    "tuple": lambda state: (state,),
}


@pytest.mark.sampled(7)
@pytest.mark.parametrize("kind", WRAPPED)
@pytest.mark.parametrize("leaf", [1, float("inf"), (), torch.ones(1), {1: 2}])
def test_what_is_nested_too_deep_to_be_read_is_not_saved(tmp_path, kind, leaf):
    """Defect: it was saved, and the run could not be resumed."""
    states = [*accumulate(range(2000), lambda state, _: WRAPPED[kind](state), initial=leaf)]
    n_saved = next(i for i, state in enumerate(states) if not came_back(tmp_path, {"part": state}))
    assert 30 < n_saved < 100
    for state in (states[n_saved], states[-1]):
        with pytest.raises(TypeError, match=r"'model' of the checkpoint: part\..*than 97 levels"):
            make(tmp_path, 5, state={"part": state})


def came_back(folder, state):
    """Whether a state can be saved; then it is read as it was."""
    try:
        path = make(folder, 5, state=state)
    except TypeError:
        return False
    require_same(state, checkpoint.read(path, "model"))
    return True


@pytest.mark.parametrize("state", [{"a": 10**5000}, {"a": "x" * 2000}])
def test_what_is_too_large_to_be_read_is_not_saved(tmp_path, monkeypatch, state):
    monkeypatch.setattr("rltrain.common.checkpoint.storage.PART_BYTES", 1000)
    with pytest.raises(TypeError, match="the part 'model' of the checkpoint: "):
        make(tmp_path, 5, state=state)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"a": {"b": {1, 2}}}, r"a\.b: set cannot"),
        ({"a": [b"x"]}, r"a\.0: bytes cannot"),
        ({"a": {b"x": 1}}, r"the key a\.b'x': bytes cannot"),
        ({"a": {(1, frozenset()): 1}}, r"the key a\..*: frozenset cannot"),
        ({"a": np.array(["x"])}, "a: an array of str32 cannot"),
        ({"a": np.array([None])}, "a: an array of object cannot"),
        ({"a": np.zeros(1, complex)}, "a: an array of complex128 cannot"),
        ({"a": np.zeros(1, np.longdouble)}, "a: an array of float128 cannot"),
        ({"a": np.zeros(1, "M8[s]")}, "a: an array of datetime64.* cannot"),
        ({"a": torch.zeros(1, dtype=torch.bfloat16)}, "a: an array of bfloat16 cannot"),
        (object(), "object cannot"),
        (np.array([None]), "an array of object cannot"),
    ],
)
def test_what_cannot_be_saved_is_named(tmp_path, state, message):
    with pytest.raises(TypeError, match=f"^the part 'model' of the checkpoint: {message}"):
        make(tmp_path, 5, state=state)
    assert not [*tmp_path.iterdir()]
