"""The algorithm of a command that names none: the one that the environment's file chooses."""

import io

import pytest
from gymnasium.envs.classic_control import CartPoleEnv
from rich.console import Console

import rltrain
from rltrain.api import settings_from
from rltrain.config.catalog import SHIPPED
from rltrain.config.overrides import jobs, parse
from rltrain.config.show.help import help_text
from rltrain.mode.messages.banner import banner
from rltrain.mode.messages.resources import resource_plan
from tests.marks import slow_except

TEAMS = (
    *("smac", "smaclite", "smacv2", "matrix", "two_step", "pettingzoo", "mpe", "lbf", "rware"),
    *("magent", "stag_hunt"),
)
FEW = ["hardware.n_envs=1", "hardware.threads=1", "test.n_envs=1"]


def chosen(*overrides):
    choices = settings_from(overrides).choices
    return choices["algo"], choices["buffer"], choices["tuned"]


@pytest.mark.parametrize(
    "env", slow_except(("smac", "cartpole", "pettingzoo"), SHIPPED.options("env"))
)
def test_teams_learn_by_qmix_and_single_agents_by_dqn(env):
    expected = ("qmix", "episode") if env in TEAMS else ("dqn", "replay")
    assert chosen(f"env={env}")[:2] == expected


def test_without_an_environment_the_main_job_runs():
    assert chosen() == ("qmix", "episode", "none")


def test_recommended_settings_of_the_pair_apply():
    assert chosen("env=acrobot") == ("dqn", "replay", "dqn-acrobot")


@pytest.mark.parametrize("words", [["algo=iql"], ["experiment=pymarl/iql"]])
def test_what_is_typed_or_preset_wins(words):
    assert chosen(*words, "env=cartpole")[0] == "iql"
    assert not settings_from([*words, "env=cartpole"]).env_chose_algo


def test_every_job_of_a_sweep_has_its_own():
    words = ["env=cartpole,smac", "seed=1"]
    assert [chosen(*job)[0] for job in jobs(parse(words))] == ["dqn", "qmix"]


def test_an_environment_of_ones_own_inherits_the_choice(tmp_path):
    (tmp_path / "env").mkdir()
    (tmp_path / "env/pole.yaml").write_text("defaults: [gymnasium, _self_]\nid: CartPole-v1\n")
    assert chosen("env=pole", f"hydra.searchpath=[{tmp_path}]")[0] == "dqn"


def test_configuration_and_banner_name_the_choice(command, capsys, tmp_path):
    command("env=cartpole", "--cfg", "job")
    head = capsys.readouterr().out.splitlines()[:2]
    assert head[0].startswith("# algo=dqn ")
    assert head[1] == "# algo=dqn is chosen for this environment"
    command("algo=dqn", "env=cartpole", "--cfg", "job")
    assert "chosen for" not in capsys.readouterr().out
    words = ["env=cartpole", *FEW]
    trainer, screen = rltrain.make_trainer(words, tmp_path / "run"), io.StringIO()
    settings = settings_from(words)
    text = banner(settings, trainer, resource_plan(settings, trainer), None)
    Console(width=200, file=screen).print(text)
    trainer.close()
    assert "algo         dqn (chosen for this environment)" in screen.getvalue()


def test_help_names_both():
    assert "algo=NAME, default qmix; dqn where env has one agent" in help_text([])


def test_a_class_from_python_has_one_agent_and_the_keys_of_gymnasium(tmp_path):
    words = [*FEW, "env.max_episode_steps=7"]

    trainer = rltrain.make_trainer(words, tmp_path / "run", env=CartPoleEnv)
    trainer.close()
    assert trainer.rollout.env.spec.max_steps == 7
    assert type(trainer.buffer).__name__ == "ReplayBuffer"
