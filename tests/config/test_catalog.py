"""The catalog reads from the YAML files what Hydra composes from them."""

import pytest
import yaml
from omegaconf import OmegaConf

from rltrain.config.catalog import SHIPPED, Catalog
from rltrain.config.compose import compose_checked
from rltrain.config.yaml_files import as_yaml
from tests.imports import imported

CHOICES = [
    {"algo": "rainbow", "env": "atari"},
    {"algo": "dqn", "env": "acrobot", "algo/network": "gru", "buffer": "sequence"},
    {"algo": "pqn", "env": "smaclite", "hardware": "cpu"},
    {"experiment": "cleanrl/c51_acrobot"},
]
EVERY = [
    *({"algo": option} for option in SHIPPED.options("algo")),
    *({"algo": "dqn", "env": option} for option in SHIPPED.options("env")),
    *({"experiment": option} for option in SHIPPED.options("experiment")),
]
CASES = [*CHOICES, *(pytest.param(each, marks=pytest.mark.slow) for each in EVERY)]


def flat(node, path=""):
    """Leaves of a composition; nodes of a class without settings have none, keywords of an
    environment are one.
    """
    for name, value in node.items():
        at = f"{path}.{name}" if path else name
        if isinstance(value, dict) and value and at != "env.kwargs":
            yield from flat(value, at)
        elif name != "_target_":
            yield at, value


@pytest.mark.parametrize("typed", CASES, ids=lambda typed: " ".join(typed.values()))
def test_keys_and_values_are_those_of_hydra(typed):
    composed = compose_checked([f"{group}={option}" for group, option in typed.items()])
    keys = SHIPPED.keys(typed)
    expected = dict(flat(composed.plain))
    assert set(keys) == set(expected)
    for path, key in keys.items():
        value = yaml.safe_load(key.value)
        if isinstance(value, str) and isinstance(expected[path], float):
            value = float(value)  # OmegaConf reads 5e-4 as a number, YAML 1.1 does not
        if "e-" not in str(key.value) and key.value != "…":
            assert value == expected[path], path
    chosen = SHIPPED.choices(typed)
    for group in ("algo", "env", "buffer", "hardware", "algo/network", "algo/loss"):
        if group in composed.choices or group in chosen:
            assert chosen.get(group) == composed.choices.get(group), group


def test_comment_is_that_of_the_first_definition():
    keys = SHIPPED.keys({"algo": "dqn", "buffer": "prioritized"})
    assert keys["algo.loss.huber"].value == "1.0"
    assert keys["algo.loss.huber"].meaning.endswith("null = squared error")
    assert keys["buffer.sampler"].values == ["uniform", "proportional"]
    about = SHIPPED.about("env", "cartpole")
    assert about == "Balance a pole on a cart; reward 1 per step, at most 500 steps."


def test_first_folder_hides_the_second(tmp_path):
    (tmp_path / "env").mkdir()
    (tmp_path / "env/mine.yaml").write_text("# Mine.\ndefaults:\n  - cartpole\nid: Mine-v0\n")
    (tmp_path / "env/smac.yaml").write_text("# Hidden.\nx: 1\n")
    catalog = Catalog(tmp_path, *SHIPPED.folders)
    assert catalog.about("env", "smac") == "Hidden."
    keys = catalog.keys({"env": "mine"}, "env")
    assert keys["env.id"].value == "Mine-v0"
    assert keys["env.id"].meaning == SHIPPED.own_keys("env", "cartpole")["env.id"].meaning
    assert "mine" in catalog.options("env")


def test_catalog_and_suggestions_need_neither_hydra_nor_torch():
    code = (
        "import rltrain.config.suggest.keys as s; from rltrain.config.catalog import SHIPPED;"
        "s.for_key('lr', '1', {}, SHIPPED)"
    )
    assert imported(code, "torch", "hydra", "numba", "pydantic") == []


@pytest.mark.parametrize(
    "text",
    [
        *("on", "null", "~", "1e-3", "08", "1_000", "1:30", "a: b", "- y", "# z", "${a}", "???"),
        *("", " a ", "'\"", "a\nb\n", "\t", "ä😀", "a\x85  b", "x " * 90, "x  " * 90),
        "not of Unicode: \udcff",
    ],
)
def test_a_text_is_read_from_yaml_as_it_was_written(text):
    tree = {"a": 1.0, text: [text, {"b": text}, None, True, 1e-5, [], {}]}
    assert OmegaConf.to_container(OmegaConf.create(as_yaml(tree))) == tree
