"""Recommended settings of an algorithm on an environment: when they apply, and where it is said."""

import json

import pytest
from omegaconf import OmegaConf

from rltrain.api import settings_from
from rltrain.config.catalog import CONF
from rltrain.config.compose import compose_checked
from rltrain.config.overrides import jobs, parse
from rltrain.config.saved_config import apply
from rltrain.errors import UsageError
from rltrain.mode.messages import banner

FILES = sorted(p for p in (CONF / "tuned").glob("*.yaml") if p.stem != "none")
ACROBOT = ["algo=dqn", "env=acrobot"]


def chosen(*words):
    settings = settings_from(words)
    return settings.choices["tuned"], settings.algo.batch_size


def test_they_stand_between_the_algorithm_and_what_is_typed():
    assert chosen(*ACROBOT) == ("dqn-acrobot", 128)
    assert chosen("algo.batch_size=7", *ACROBOT) == ("dqn-acrobot", 7)
    assert settings_from(ACROBOT).run.total_env_steps == 100_000


def test_they_can_be_switched_off():
    assert chosen(*ACROBOT, "tuned=none") == ("none", 64)


def test_an_experiment_switches_them_off_unless_they_are_typed():
    assert chosen("experiment=rllib/dqn", "env=acrobot") == ("none", 32)
    words = ["experiment=rllib/dqn", "env=acrobot", "tuned=auto"]
    assert chosen(*words)[0] == "dqn-acrobot"
    assert settings_from(words).algo.batch_size == 32  # what the preset sets wins


PRESETS = {
    "own": ("- override /env: acrobot", "none"),
    "naming": ("- override /env: acrobot\n  - override /tuned: dqn-acrobot", "dqn-acrobot"),
}


@pytest.mark.parametrize(("lines", "name"), PRESETS.values(), ids=PRESETS)
def test_a_preset_of_ones_own_switches_them_off_unless_it_names_them(lines, name, tmp_path):
    """Defect: only shipped presets did, each with a line of its own."""
    preset = tmp_path / "experiment" / "mine.yaml"
    preset.parent.mkdir()
    preset.write_text(f"# @package _global_\ndefaults:\n  {lines}\n")
    for words in ([f"experiment={preset}"], [f"hydra.searchpath=[{tmp_path}]", "experiment=mine"]):
        assert settings_from(words).choices["tuned"] == name
        assert settings_from([*words, "tuned=none"]).choices["tuned"] == "none"
        assert settings_from([*words, "tuned=auto"]).choices["tuned"] == "dqn-acrobot"


def test_the_banner_names_them_and_what_switches_them_off():
    said = banner.chosen(settings_from(ACROBOT))["settings"]
    assert "tuned/dqn-acrobot" in said
    assert "tuned=none" in said
    assert "settings" not in banner.chosen(settings_from([*ACROBOT, "tuned=none"]))


def test_there_are_none_where_nothing_was_measured():
    assert chosen("algo=qmix", "env=smac") == ("none", 32)
    assert chosen("algo=qmix", "env=smac", "tuned=auto") == ("none", 32)


def test_they_can_be_named_for_an_environment_by_its_id():
    words = ["algo=dqn", "env=gymnasium", "env.id=Acrobot-v1", "tuned=dqn-acrobot"]
    assert chosen(*words) == ("dqn-acrobot", 128)


def test_auto_stays_what_was_typed(tmp_path):
    """Defect: jobs and ``.hydra/overrides.yaml`` had ``tuned=$\\{algo\\}-$\\{env\\}`` instead."""
    assert jobs(parse(["tuned=auto,none"])) == [["tuned=auto"], ["tuned=none"]]
    composed = compose_checked([*ACROBOT, "tuned=auto"])
    assert "- tuned=auto\n" in composed.files(tmp_path)["overrides.yaml"]
    assert composed.choices["tuned"] == "dqn-acrobot"


@pytest.mark.slow
def test_every_job_of_a_sweep_takes_its_own():
    words = ["algo=dqn,c51", "env=acrobot,mountaincar", "tuned=auto,none"]
    found = [settings_from(job).choices["tuned"] for job in jobs(parse(words))]
    assert found == ["dqn-acrobot", "none", "dqn-mountaincar", "none", *["none"] * 4]


@pytest.mark.slow
def test_the_command_sweeps_over_them(command, small, own_folder):
    keep = [w for w in small if not w.startswith(("env=", "algo.", "buffer.", "test."))]
    words = ["algo=dqn", "env=acrobot", "tuned=auto,none", "total_env_steps=8", "test.episodes=1"]
    command("-m", *keep, *words)
    folders = sorted(own_folder.glob("outputs/multirun/*/[01]_*"))
    assert [f.name for f in folders] == ["0_tuned-auto", "1_tuned-none"]
    records = [json.loads((f / "config.json").read_text()) for f in folders]
    assert [r["choices"]["tuned"] for r in records] == ["dqn-acrobot", "none"]
    assert [r["algo"]["batch_size"] for r in records] == [128, 64]


def test_a_typo_is_refused_with_the_names():
    with pytest.raises(UsageError, match=r"unknown tuned 'atuo'.*tuned=auto\?"):
        chosen(*ACROBOT, "tuned=atuo")


def test_a_loaded_run_keeps_them():
    with pytest.raises(UsageError, match="keeps its tuned"):
        apply(["tuned=none"], {"seed": 1})


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_every_file_holds_values_for_an_algorithm_and_an_environment(file):
    head = file.read_text(encoding="utf-8")
    assert head.startswith("# @package _global_\n# Recommended for `algo=")
    assert "defaults" not in OmegaConf.load(file)
    algo, _, env = file.stem.partition("-")
    settings = settings_from([f"algo={algo}", f"env={env}"])
    assert settings.choices["tuned"] == file.stem
    assert settings.run.total_env_steps == OmegaConf.load(file).total_env_steps


@pytest.mark.slow
def test_they_change_what_the_algorithm_would_do():
    for file in FILES:
        words = [
            f"{group}={name}"
            for group, name in zip(("algo", "env"), file.stem.split("-"), strict=True)
        ]
        tuned, own = settings_from(words).plain, settings_from([*words, "tuned=none"]).plain
        for key, value in flat(OmegaConf.to_container(OmegaConf.load(file))):
            assert at(tuned, key) == value != at(own, key), f"{file.stem}: {key}"


def flat(tree, prefix=""):
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def at(tree, key):
    for part in key.split("."):
        tree = tree[part]
    return tree
