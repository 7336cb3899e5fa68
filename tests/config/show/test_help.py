"""``rltrain --help``: short, complete, from the comments of the YAML files."""

import re
import typing

import pytest

from rltrain.config.catalog import PRESETS, SHIPPED
from rltrain.config.compose import compose_checked
from rltrain.config.schema import RunSettings
from rltrain.config.show.completion import PATHS
from rltrain.config.show.help import FOOTER, WIDTH, help_text
from rltrain.errors import UsageError
from tests.imports import imported

OVERVIEW = help_text([])


def test_overview_fits_a_reader():
    lines = OVERVIEW.splitlines()
    choices = sum(len(SHIPPED.options(group)) for group in ("algo", "env", "buffer", "hardware"))
    assert len(lines) - choices - OVERVIEW.count("/…  ") <= 86
    assert max(len(line) for line in lines) <= WIDTH
    assert "_target_" not in OVERVIEW


def test_overview_lists_all_modes_and_cuts_no_sentence():
    row = OVERVIEW[OVERVIEW.index("\n  mode=train ") :].partition("\n  seed=")[0]
    modes = typing.get_args(typing.get_type_hints(RunSettings)["mode"])
    assert {*row.split()[1:]} == {*modes, "|"}
    keys = OVERVIEW.partition("\nKeys and their defaults")[2].partition("\nExamples")[0]
    assert [line for line in keys.splitlines() if line.endswith("…")] == []
    assert "(set in hardware=ddp)" in help_text(["save"])
    assert "one of true, false" not in help_text(["save"])


@pytest.mark.parametrize("key", PATHS)
def test_the_files_of_a_folder_are_not_the_values_of_a_key(own_folder, key):
    """Defect: ``rltrain --help checkpoint`` listed them."""
    (own_folder / "runs").mkdir()
    assert key.startswith("hydra.") or "runs/" not in help_text([key])


def test_overview_has_every_choice_with_a_line():
    for group in ("algo", "env", "buffer", "hardware"):
        for option in SHIPPED.options(group):
            assert re.search(rf"^  {option} +\w.+", OVERVIEW, re.MULTILINE), option
    for option in SHIPPED.options("experiment"):
        assert option.rpartition("/")[2] in OVERVIEW


def test_overview_has_every_group():
    """Defect: those whose choices have no line in it were left out."""
    (others,) = re.findall(r"; other groups: (.*)", OVERVIEW)
    named = {*re.findall(r"^([a-z]+)=NAME,|: ([a-z]+)=NAME$|^  (\w+/\w+) ", OVERVIEW, re.MULTILINE)}
    assert {*SHIPPED.groups} <= {*others.split(", "), *("".join(found) for found in named)}


@pytest.mark.parametrize("group", SHIPPED.groups)
def test_every_choice_of_a_group_is_listed(group):
    listed = re.findall(r"^  ([\w/-]+)", help_text([group]), re.MULTILINE)
    assert set(SHIPPED.options(group)) <= set(listed)
    above = group.partition("/")[0]
    for text in [OVERVIEW, help_text([above])] if above != group else []:
        row = re.search(rf"^  {group} ([^/]*)(?:^  [\w/]+ |\n\n)", text, re.MULTILINE)
        assert row, group
        assert row[1].replace(",", "").split() == list(SHIPPED.options(group))


def test_overview_has_every_key_of_a_run_with_its_default_and_meaning():
    for path, key in SHIPPED.root.keys.items():
        if not path.startswith(
            ("dataset.", "self_play.", "sweep.", "report.", "tune.", "match.", "init.", "hub.")
        ):
            line = re.search(rf"^  {re.escape(path)}=(\S+) +(.+)", OVERVIEW, re.MULTILINE)
            assert line, path
            assert line[1] == key.value
            assert key.meaning.startswith(line[2].removesuffix(" …"))


def test_examples_are_commands_that_compose():
    for command in re.findall(r"^  rltrain (\S.*?)  ", FOOTER, re.MULTILINE):
        overrides = [word for word in command.split() if word != "-m" and "…" not in word]
        compose_checked([re.sub(r",.*", "", word) for word in overrides])


@pytest.mark.parametrize("group", [g for g in SHIPPED.groups if g not in PRESETS])
def test_every_choice_begins_with_one_line_about_it(group):
    for option in SHIPPED.options(group):
        about = SHIPPED.about(group, option)
        assert about, f"conf/{group}/{option}.yaml begins with no comment"
        assert len(about) <= WIDTH - 20, f"conf/{group}/{option}.yaml: shorten the first line"


SAID = {
    ("algo",): ["rainbow ", "algo/network ", "Keys of a choice: rltrain --help algo="],
    ("algo/mixer",): ["algo/mixer=NAME, default qmix", "The sum of the agents' values (VDN)."],
    ("algo=dqn",): ["  algo.batch_size=64 ", "algo.network.dueling=false", "buffer=prioritized"],
    ("algo=pqn", "algo/network=conv"): ["algo.network.filters=[[32", "A convolutional network"],
    ("env=minatar",): ["MinAtar's five arcade games", "env.game=breakout"],
    ("env.map_name",): ["25m", "2c_vs_64zg", "(set in env=smac, env=smaclite, env=smacv2)"],
    ("test",): ["test.interval=10_000", "test.epsilon=0.0"],
    ("tune",): [
        "tune=NAME, default null",
        "Search space of DQN",
        "tune.trials=50",
        "tune.sampler=tpe",
    ],
    ("logger",): ["TensorBoard events", "logger.console=true"],
    ("buffer.alpha",): ["exponent of the priorities", "buffer=replay"],
    ("lr",): ["algo.optimizer.lr=5e-4", "learning rate"],
    ("experiment=zoo/cartpole",): ["It chooses algo=dqn env=cartpole and sets", "lr=2.3e-3"],
    ("experiment=minatar/dqn",): ["final epsilon", "learning rate; here: best per game"],
    ("tuned=dqn-cartpole",): ["env steps between target-network updates", "; here: falls are rare"],
    ("dqn",): ["algo=dqn", "  algo.batch_size=64 "],
    ("seed=3", "env=two_step"): ["seed=0", "env=two_step"],
}


@pytest.mark.parametrize("overrides", SAID, ids=" ".join)
def test_help_about_a_word(overrides):
    text = help_text(overrides)
    for part in SAID[overrides]:
        assert part in text
    assert "_target_" not in text
    assert max(len(line) for line in text.splitlines()) <= WIDTH


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("algo=QMIX", "Type algo=qmix."),
        ("t_max", "total_env_steps"),
        ("xyzzy", "'xyzzy'"),
        ("ppo", "Type algo=pqn .*ppo is an actor-critic method"),
        ("cartpol", "Did you mean env=cartpole"),
        ("--mappo", "Type algo=qmix"),
    ],
)
def test_help_about_nothing_is_refused(word, said):
    with pytest.raises(UsageError, match=said):
        help_text([word])


def test_help_imports_no_torch():
    code = "from rltrain.config.show.help import help_text; help_text([]); help_text(['algo'])"
    assert imported(code, "torch", "numba", "pydantic") == []


def test_several_choices_are_those_of_loggers_alone():
    assert "logger=[csv,wandb]" in help_text(["logger=[csv,wandb]"])
    for group in ("algo", "env", "experiment", "algo/network"):
        with pytest.raises(UsageError, match=rf"unknown {group} '\[dqn\]'"):
            help_text([f"{group}=[dqn]"])
