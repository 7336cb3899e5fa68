"""Exchanged parts have their own files' values; what an algorithm or a preset set for another class
does not reach them.
"""

import pytest
import yaml
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from rltrain.api import settings_from
from rltrain.config.catalog import CONF, MAPPING_KEYS
from rltrain.config.compose import compose_choices
from rltrain.config.exchange import fitting_values, require_known_keys
from rltrain.config.overrides import parse, pick, put
from rltrain.config.user_yaml import own_catalog
from rltrain.errors import UsageError
from tests.marks import slow_except


def kwargs(words, part):
    return settings_from(words).nodes[part].kwargs


def chosen(words, *groups):
    choices = settings_from(words).choices
    return [choices[group] for group in groups]


PLAIN = [
    [],
    ["algo=pqn"],
    ["algo=scripted"],
    ["algo=dqn", "env=cartpole", "buffer=prioritized"],
    ["experiment=cleanrl/c51_acrobot"],
    ["experiment=minatar/rainbow"],
]


@pytest.mark.parametrize("words", slow_except(PLAIN[3:5], PLAIN), ids=" ".join)
def test_without_an_exchange_the_composition_is_hydras(words):
    with initialize_config_dir(str(CONF), version_base="1.3"):
        hydras = compose("config", overrides=words)
    ours = compose_choices(tuple(words), frozenset())
    assert ours.tree == OmegaConf.to_container(hydras, resolve=False)
    assert not ours.remarks


def test_values_of_the_algorithm_stay_with_the_part_they_were_written_for():
    assert "huber" not in kwargs(["algo=dqn", "algo/loss=quantile"], "algo.loss")
    assert kwargs(["algo=pqn", "algo/network=gru"], "algo.network")["layer_norm"] is False
    assert kwargs(["algo=pqn", "algo/optimizer=adam"], "algo.optimizer")["lr"] == 5e-4


def test_values_of_a_preset_stay_with_the_part_they_were_written_for():
    adam = kwargs(["experiment=minatar/dqn", "algo/optimizer=adam"], "algo.optimizer")
    assert adam == {"lr": 5e-4, "betas": (0.9, 0.999), "eps": 1e-8}
    mlp = kwargs(["experiment=minatar/dqn", "algo/network=mlp"], "algo.network")
    assert mlp["hidden_sizes"] == [64]
    c51 = settings_from(["experiment=rllib/dqn", "algo=c51"])
    assert c51.nodes["algo.loss"].kwargs == {"gamma": 0.99, "double": False, "n_step": 1}
    assert c51.nodes["algo.network"].kwargs["hidden_sizes"] == [256, 256]
    assert c51.algo.max_grad_norm == 40.0


def test_what_was_left_out_of_a_preset_is_said():
    (remark,) = settings_from(["experiment=minatar/dqn", "algo/network=mlp"]).remarks
    assert "experiment=minatar/dqn sets algo.network.filters" in remark
    assert "not used with rltrain.algo.mlp_agents" in remark


def test_options_of_one_class_share_the_values_of_a_preset():
    buffer = kwargs(["experiment=rllib/dqn", "buffer=replay"], "buffer")
    assert (buffer["sampler"], buffer["capacity"], buffer["beta_end"]) == ("uniform", 50_000, 0.4)


def test_discount_and_depth_belong_to_the_task():
    assert kwargs(["experiment=trading", "algo/loss=quantile"], "algo.loss")["gamma"] == 0.9
    rainbow = ["algo=rainbow", "algo/loss=td", "algo/distribution=scalar"]
    assert kwargs(rainbow, "algo.loss")["n_step"] == 3


def test_a_presets_counts_stay_with_the_kind_of_buffer_they_count():
    pqn = settings_from(["experiment=zoo/cartpole", "algo=pqn"]).algo
    assert (pqn.batch_size, pqn.learning_starts, pqn.steps_per_collect) == (128, 0, 128)
    iql = settings_from(["experiment=zoo/cartpole", "algo=iql"]).algo
    assert (iql.updates_per_episode, iql.updates_per_env_step) == (1.0, None)


def test_a_preset_that_sets_one_of_two_keys_clears_the_other():
    algo = settings_from(["experiment=zoo/acrobot", "algo=iql", "buffer=prioritized"])
    assert (algo.algo.updates_per_episode, algo.algo.updates_per_env_step) == (None, 1.0)
    assert algo.nodes["algo.target_update"].kwargs["episodes"] is None


def test_typed_keys_that_the_new_part_lacks_are_errors():
    with pytest.raises(UsageError, match=r"Unknown key 'algo\.loss\.huber'"):
        settings_from(["algo=dqn", "algo/loss=quantile", "algo.loss.huber=1"])


LOSS, DISTRIBUTION = "algo/loss", "algo/distribution"
BROUGHT = [
    (["algo=dqn", "algo/loss=quantile"], {DISTRIBUTION: "quantile"}),
    (["algo=iqn", "algo/loss=td"], {DISTRIBUTION: "scalar"}),
    (["algo=dqn", "algo/distribution=quantile"], {LOSS: "quantile"}),
    (["algo=rainbow", "algo/distribution=scalar"], {LOSS: "td"}),
    (["algo=munchausen_dqn", "algo/loss=td"], {DISTRIBUTION: "scalar"}),
    (["algo=iqn", "algo/distribution=quantile"], {LOSS: "quantile"}),
    (["algo=pqn", "buffer=replay"], {LOSS: "td"}),
    (["algo=dqn", "buffer=on_policy"], {LOSS: "q_lambda"}),
    (["algo=pqn", "algo/distribution=categorical"], {LOSS: "categorical", "buffer": "replay"}),
    (["experiment=rllib/dqn", "algo=pqn"], {LOSS: "q_lambda", "buffer": "on_policy"}),
    (["experiment=atari/dqn", "algo/loss=categorical"], {DISTRIBUTION: "categorical"}),
]


@pytest.mark.parametrize(
    ("words", "found"),
    [*(pytest.param(*more, marks=pytest.mark.slow) for more in BROUGHT[:-3]), *BROUGHT[-3:]],
    ids=" ".join,
)
def test_options_that_only_work_together_are_chosen_together(words, found):
    assert chosen(words, *found) == list(found.values())


def test_an_option_that_was_chosen_for_another_is_named():
    (remark,) = settings_from(["algo=iqn", "algo/loss=td"]).remarks
    assert remark == "algo/distribution=scalar is used with algo/loss=td, not implicit_quantile."


def test_two_typed_options_that_do_not_work_together_are_refused_with_those_that_do():
    with pytest.raises(UsageError) as caught:
        settings_from(["algo=dqn", "algo/loss=td", "algo/distribution=quantile", "sed=1"])
    said = str(caught.value)
    assert "Type algo/loss=td algo/distribution=scalar" in said
    assert "or algo/loss=quantile algo/distribution=quantile" in said
    assert "Unknown key 'sed'" in said


def test_a_preset_sets_every_key_that_is_a_mapping(tmp_path):
    """Defect: the keys inside of env.opponents were unknown."""
    node, tree = {"./old.v1": 1, "other": {"a b": 2}}, {}
    for key in MAPPING_KEYS:
        put(tree, key, node)
    preset = tmp_path / "mine.yaml"
    preset.write_text(f"# @package _global_\n{yaml.dump(tree)}", encoding="utf-8")
    catalog = own_catalog(parse([f"experiment={preset}"]))
    require_known_keys(catalog, ["experiment=mine"])
    composed, _ = fitting_values(catalog, ["experiment=mine"])
    assert all(node.items() <= pick(composed, key).items() for key in MAPPING_KEYS)
    preset.write_text(preset.read_text(encoding="utf-8").replace("opponents", "oponents"))
    with pytest.raises(UsageError, match=r"env\.oponents"):
        require_known_keys(own_catalog(parse([f"experiment={preset}"])), ["experiment=mine"])
