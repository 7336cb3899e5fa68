"""Options that are chosen without being typed: the algorithm of an environment and the recommended
settings of the pair; and loggers, of which several are chosen.
"""

import io
import json

import pytest
from gymnasium.envs.classic_control import CartPoleEnv
from omegaconf import OmegaConf
from rich.console import Console

import rltrain
from rltrain.api import settings_from
from rltrain.config.catalog import CONF, SHIPPED, split_options
from rltrain.config.compose import compose_checked
from rltrain.config.overrides import jobs, leaves, parse, pick
from rltrain.config.saved_config import apply
from rltrain.config.show.help import help_text
from rltrain.errors import UsageError
from rltrain.mode.messages.banner import banner, resource_plan
from tests.marks import slow_except

TEAMS = (
    *("smac", "smaclite", "smacv2", "matrix", "two_step", "pettingzoo", "mpe", "lbf", "rware"),
    *("magent", "stag_hunt"),
)
FEW = ["hardware.n_envs=1", "hardware.threads=1", "test.n_envs=1"]


ACROBOT = ["algo=dqn", "env=acrobot"]
CHOSEN = {  # algorithm, buffer, recommended settings and their batch size
    "": "qmix episode none 32",
    "env=acrobot": "dqn replay dqn-acrobot 128",
    "algo=iql env=cartpole": "iql episode none 32",
    "experiment=pymarl/iql env=cartpole": "iql episode none 32",
    "algo.batch_size=7 algo=dqn env=acrobot": "dqn replay dqn-acrobot 7",
    "algo=dqn env=acrobot tuned=none": "dqn replay none 64",
    "algo=dqn env=gymnasium env.id=Acrobot-v1 tuned=dqn-acrobot": "dqn replay dqn-acrobot 128",
    "algo=qmix env=smac": "qmix episode none 32",  # nothing was measured
    "algo=qmix env=smac tuned=auto": "qmix episode none 32",
    "experiment=rllib/dqn env=acrobot": "dqn prioritized none 32",  # switches them off
    "experiment=rllib/dqn env=acrobot tuned=auto": "dqn prioritized dqn-acrobot 32",  # unless typed
}


def chosen(*overrides):
    settings = settings_from(overrides)
    names = [settings.choices[group] for group in ("algo", "buffer", "tuned")]
    return [*names, str(settings.algo.batch_size)]


@pytest.mark.parametrize("typed", CHOSEN)
def test_what_is_typed_or_preset_wins_over_what_is_recommended(typed):
    assert chosen(*typed.split()) == CHOSEN[typed].split()
    named = {"algo", "experiment"} & {word.partition("=")[0] for word in typed.split()}
    assert settings_from(typed.split()).env_chose_algo is not bool(named)


@pytest.mark.parametrize(
    "env", slow_except(("smac", "cartpole", "pettingzoo"), SHIPPED.options("env"))
)
def test_teams_learn_by_qmix_and_single_agents_by_dqn(env):
    expected = ("qmix", "episode") if env in TEAMS else ("dqn", "replay")
    assert tuple(chosen(f"env={env}")[:2]) == expected


def test_every_job_of_a_sweep_has_its_own():
    words = ["env=cartpole,smac", "seed=1"]
    assert [chosen(*job)[0] for job in jobs(parse(words))] == ["dqn", "qmix"]


def test_an_environment_of_ones_own_inherits_the_choice(tmp_path):
    (tmp_path / "env").mkdir()
    (tmp_path / "env/pole.yaml").write_text("defaults: [gymnasium, _self_]\nid: CartPole-v1\n")
    assert chosen("env=pole", f"hydra.searchpath=[{tmp_path}]")[0] == "dqn"


def banner_text(*words):
    settings, screen = settings_from([*words, *FEW]), io.StringIO()
    trainer = rltrain.make_trainer([*words, *FEW], "run")
    text = banner(settings, trainer, resource_plan(settings, trainer), None)
    Console(width=200, file=screen).print(text)
    trainer.close()
    return screen.getvalue()


def test_configuration_and_banner_name_the_choice(command, capsys):
    command("env=cartpole", "--cfg", "job")
    head = capsys.readouterr().out.splitlines()[:2]
    assert head[0].startswith("# algo=dqn ")
    assert head[1] == "# algo=dqn is chosen for this environment"
    command("algo=dqn", "env=cartpole", "--cfg", "job")
    assert "chosen for" not in capsys.readouterr().out
    assert "algo         dqn (chosen for this environment)" in banner_text("env=cartpole")


def test_help_names_both():
    assert "algo=NAME, default qmix; dqn where env has one agent" in help_text([])


def test_a_class_from_python_has_one_agent_and_the_keys_of_gymnasium(tmp_path):
    words = [*FEW, "env.max_episode_steps=7"]

    trainer = rltrain.make_trainer(words, tmp_path / "run", env=CartPoleEnv)
    trainer.close()
    assert trainer.rollout.env.spec.max_steps == 7
    assert type(trainer.buffer).__name__ == "ReplayBuffer"


FILES = sorted(p for p in (CONF / "tuned").glob("*.yaml") if p.stem != "none")
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
    said = "settings     recommended, tuned/dqn-acrobot (off: tuned=none)"
    assert said in banner_text(*ACROBOT)
    assert "settings " not in banner_text(*ACROBOT, "tuned=none")


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
        algo, _, env = file.stem.partition("-")
        pair = [f"algo={algo}", f"env={env}"]
        tuned, own = settings_from(pair).plain, settings_from([*pair, "tuned=none"]).plain
        for names, value in leaves(OmegaConf.to_container(OmegaConf.load(file))):
            key = ".".join(names)
            assert pick(tuned, key) == value != pick(own, key), f"{file.stem}: {key}"


LOGGERS = {
    "": "[wandb]",
    "logger=[]": "[]",
    "logger=csv": "[csv]",
    "logger=[csv,wandb]": "[csv,wandb]",
    "logger=[trackio,tensorboard] logger.trackio.project=mine": "[trackio,tensorboard]",
}


@pytest.mark.parametrize("typed", LOGGERS)
def test_several_loggers_are_chosen_in_one_override(typed):
    composed = compose_checked(typed.split())
    paths = [path for path in composed.settings().nodes if path.startswith("logger.")]
    assert composed.choices["logger"] == LOGGERS[typed]
    assert [path.partition(".")[2] for path in paths] == split_options(LOGGERS[typed])


def test_each_logger_is_a_choice_with_its_keys():
    assert SHIPPED.options("logger") == ["csv", "tensorboard", "trackio", "wandb"]
    keys = SHIPPED.keys({"logger": "[csv,trackio]"})
    assert "logger.trackio.project" in keys
    assert "logger.wandb.mode" not in keys
    assert keys["logger.console"].value == "true"
    assert SHIPPED.choices({})["logger"] == "[wandb]"
    assert split_options("[a, b]") == ["a", "b"]
    assert (split_options("[]"), split_options("a")) == ([], ["a"])
