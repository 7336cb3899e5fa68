"""Indexes and shards that no writer makes: one paragraph that names the file, exit code 3."""

import copy
import itertools
import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from rltrain.errors import DatasetError, UsageError
from rltrain.offline.dataset import open_dataset
from rltrain.offline.shards import INDEX
from tests.marks import each_once
from tests.offline.hand_made import SPEC, Env, change_index, change_shard, play, writer

BOX = {"box": [1], "dtype": "float32"}
PAIR = replace(
    SPEC,
    obs_space={"dict": [["seen", BOX], ["flags", {"multi_binary": [2]}]]},
    action_components=((3, 0),),
    agents=(("a", BOX, {"discrete": 3, "start": 0}), ("b", BOX, {"discrete": 3, "start": 0})),
)
VALUES = [None, -1, "x", [], {}, [1], [[1]], 1e400, 0.5, 10**30, True, "\x1b[2J"]


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A dataset of six episodes, with the whole record of its spec in the index."""
    folder = tmp_path_factory.mktemp("sound") / "d"
    to = writer(folder)
    to.about = {"spec": PAIR.record}
    play(to, [Env(range(1, 7))])
    to.flush()
    return folder


@pytest.fixture
def folder(sound, tmp_path):
    """A copy, opened and read by ``read``."""
    (tmp_path / "d").mkdir()
    for path in sound.iterdir():
        (tmp_path / "d" / path.name).write_bytes(path.read_bytes())
    return tmp_path / "d"


def read(folder):
    open_dataset(folder, PAIR)


def paths(tree, at=()):
    yield at
    entries = enumerate(tree) if isinstance(tree, list) else ()
    for key, value in tree.items() if isinstance(tree, dict) else entries:
        yield from paths(value, (*at, key))


def change_at(node, at, change):
    """Call ``change`` with what holds the last of the keys ``at`` in a tree, and that key."""
    for key in at[:-1]:
        node = node[key]
    change(node, at[-1])


def changed(tree, at, change):
    """A copy of a tree with a change."""
    tree = copy.deepcopy(tree)
    change_at(tree, at, change)
    return tree


def replaced(node, key, value):
    node[key] = value


def answered(folder):
    """Whether a dataset is read; if not, it is refused in one paragraph that names the file."""
    try:
        read(folder)
    except (DatasetError, UsageError) as error:
        said = str(error)
    else:
        return True
    assert str(folder) in said
    assert "\n" not in said
    return False


@pytest.mark.slow
@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_an_index_with_anything_else_in_the_place_of_anything_is_answered(folder, every):
    """Defect: a number for a list, or a missing key, gave a traceback."""
    index, n_refused = json.loads((folder / INDEX).read_text()), 0
    changes = [partial(replaced, value=value) for value in VALUES]
    changes.append(lambda node, key: node.pop(key))
    for at, change in [*itertools.product(filter(None, paths(index)), changes)][::every]:
        (folder / INDEX).write_text(json.dumps(changed(index, at, change)))
        n_refused += not answered(folder)
    assert n_refused > 500 / every
    (folder / INDEX).write_text(json.dumps(index))
    assert answered(folder)


INNER = ("spec", "obs_space", "dict", 0, 1)
NO_NUMBER = {"spec": [None, 3, []], "shards": [None, 3, {}], "format": [None, "x", {}]}
SAYS = [
    *(((key,), value, f"{key} is ") for key, values in NO_NUMBER.items() for value in values),
    (("spec",), {}, r"spec\.n_agents is missing"),
    (("spec", "n_agents"), [1], r"spec\.n_agents is \[1\]"),
    (("spec", "obs_shape"), None, r"spec\.obs_shape is None"),
    (("spec", "obs_space"), {"box": None, "dtype": "float32"}, r"spec\.observations are invalid"),
    *(
        (INNER, {"box": shape, "dtype": dtype}, "spec.observations are")
        for shape, dtype in (("12", "float32"), ([1.5], "float32"), ([1], "floaty"))
    ),
    (("spec", "obs_dtype"), "floaty", r"spec\.obs_dtype is"),
    (("spec", "action_components"), 3, r"spec\.action_components is 3"),
    (("spec", "agents"), 3, r"spec\.agents is 3"),
    (("spec", "obs_scale"), float("inf"), r"spec\.obs_scale is"),
    (("spec", "max_steps"), -5, r"spec\.max_steps is"),
    *(((name,), 7, f"{name} is not the sum") for name in ("episodes", "transitions")),
    (("shards", 0, "steps"), None, r"shards\.0\.steps is None"),
    (("shards", 0, "sha256"), None, r"shards\.0\.sha256 is None"),
]


@pytest.mark.parametrize(("at", "value", "says"), SAYS)
def test_the_index_and_what_is_wrong_in_it_are_named(folder, at, value, says):
    change_index(folder, lambda index: change_at(index, at, partial(replaced, value=value)))
    with pytest.raises(DatasetError, match=rf"d/dataset\.json is damaged: {says}") as found:
        read(folder)
    assert found.value.exit_code == 3


SIZES = ("n_agents", "n_actions", "obs_shape", "obs_dtype", "state_dim", "n_rewards")
KEYS = [("spec", name) for name in SIZES]
KEYS += [("shards", 0, name) for name in ("file", "bytes", "sha256", "steps", "probabilities")]


@pytest.mark.parametrize("at", [("spec",), ("shards",), *KEYS])
def test_what_is_missing_in_an_index_is_named(folder, at):
    change_index(folder, lambda index: change_at(index, at, lambda node, key: node.pop(key)))
    name = r"\.".join(map(str, at))
    with pytest.raises(DatasetError, match=rf"d/dataset\.json is damaged: {name} is missing"):
        read(folder)


OTHERS = {
    "float64": lambda x: x.astype(np.float64),
    "uint64": lambda x: x.astype(np.uint64),
    "int8": lambda x: x.astype(np.int8),
    "nan": lambda x: np.full(x.shape, np.nan, np.float32),
    "infinite": lambda x: np.full(x.shape, np.inf, np.float64),
    "empty": lambda x: x[:0],
    "two axes": lambda x: x.reshape(len(x), -1, 1),
    "in a row": lambda x: x[None],
    "short": lambda x: x[:-1],
    "scalar": lambda x: np.array(1),
    "negative": lambda x: np.full(x.shape, -1).astype(x.dtype),
    "large": lambda x: np.full(x.shape, 2**62).astype(x.dtype),
    "largest": lambda x: np.full(x.shape, 2**63 - 1).astype(x.dtype),
    "missing": None,
}
HARMLESS = {
    ("obs", "two axes"),  # the same shape again
    ("action", "large"),  # 0 of its type
    *(("whole", one) for one in ("negative", "large", "largest")),  # true
    *(("avail_actions", one) for one in ("negative", "large", "largest")),
    *(("state", one) for one in ("negative", "large", "largest")),  # of no columns
    *((name, one) for name in ("obs", "reward") for one in ("negative", "large", "largest")),
    ("state", "nan"),
}


FIELDS = "obs avail_actions state last action reward terminated probability length whole"


@each_once(28, name=FIELDS.split(), change=OTHERS)
def test_a_shard_with_other_arrays_is_refused(folder, name, change):
    """Its checksum vouches for it."""

    def replace(arrays):
        before = arrays.pop(name)
        if OTHERS[change] is not None:
            with np.errstate(invalid="ignore"):
                arrays[name] = np.ascontiguousarray(OTHERS[change](before))

    change_shard(folder, replace)
    if (name, change) in HARMLESS:
        assert answered(folder)
        return
    with pytest.raises(DatasetError, match=r"shard-00000\.safetensors is damaged") as found:
        read(folder)
    assert "\n" not in str(found.value)


WRONG_VALUES = [
    *(("probability", x, "probabilities of actions") for x in (5, 1.001, -0.5, 0, np.inf, np.nan)),
    *((name, np.nan, f"'{name}' has numbers that are not finite") for name in ("obs", "reward")),
    *((name, np.inf, f"'{name}' has numbers that are not finite") for name in ("obs", "reward")),
    ("avail_actions", 0, "without an available action"),
    ("action", 7, "actions outside 0 … 2"),
]


@pytest.mark.parametrize(("name", "value", "says"), WRONG_VALUES)
def test_values_that_nothing_records_are_refused(folder, name, value, says):
    """Defects: estimates were wrong, or the environment was said to be."""
    change_shard(folder, lambda arrays: arrays[name].__setitem__(2, value), probabilities=True)
    with pytest.raises(DatasetError, match=says):
        read(folder)


def test_a_field_of_another_type_is_named_with_both(folder):
    change_shard(folder, lambda arrays: arrays.update(reward=arrays["reward"].astype(np.float64)))
    with pytest.raises(DatasetError, match=r"'reward' should be float32"):
        read(folder)


def test_unknown_probabilities_and_rounded_ones_are_read(folder):
    change_shard(folder, lambda arrays: arrays["probability"].fill(np.nan), probabilities=False)
    read(folder)
    change_shard(folder, lambda arrays: arrays["probability"].fill(1 + 1e-7), probabilities=True)
    read(folder)


@pytest.mark.parametrize("name", ["pieces", "episodes", "transitions"])
def test_counts_of_a_shard_are_those_of_the_index(folder, name):
    """Defect: a million episodes of a dataset of six."""
    index = json.loads((folder / INDEX).read_text())
    index["shards"][0][name] = 10**6
    index = {key: value for key, value in index.items() if key != name}
    (folder / INDEX).write_text(json.dumps(index))
    with pytest.raises(DatasetError, match=f"number of {name} is not the index's"):
        read(folder)


def test_actions_were_available_and_episodes_end_where_they_terminate(folder):
    """Defect: what contradicts itself was learned from."""

    def masked(arrays):
        arrays["avail_actions"][2, 1, arrays["action"][2, 1]] = False

    def goes_on(arrays):
        arrays["terminated"][2] = True  # of an episode from step 2 to 4

    def ends(arrays):
        arrays["terminated"][3] = True

    change_shard(folder, ends)
    read(folder)
    for change, says in ((masked, "not available"), (goes_on, "go on after they terminated")):
        change_shard(folder, change)
        with pytest.raises(DatasetError, match=says):
            read(folder)


def test_a_shard_is_listed_once(folder):
    """Defect: episodes counted twice, and held-out ones were trained on."""
    change_index(folder, lambda index: index.update(shards=index["shards"] * 2))
    with pytest.raises(DatasetError, match=r"lists 'shard-00000\.safetensors' twice"):
        read(folder)


def test_a_writer_goes_on_in_no_damaged_dataset(folder):
    to = writer(folder)
    play(to, [Env([2])])
    change_index(folder, lambda index: index["shards"][0].pop("bytes"))
    with pytest.raises(DatasetError, match=r"shards\.0\.bytes is missing"):
        to.load_state_dict({**to.state_dict(), "shards": 1})
