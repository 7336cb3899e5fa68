"""Settings that are typed in another form are answered with the command that was meant."""

import shlex

import pytest

from rltrain import main as entry
from rltrain.config.command_line import read
from rltrain.config.compose import compose_checked
from rltrain.errors import UsageError
from tests.config.suggest.test_hints import refusal
from tests.marks import each_once

BASE = ["algo=dqn", "env=cartpole"]
SETTINGS = {
    "seed": "3",
    "algo.loss.floor": "-1.5",
    "algo.loss.double": "false",
    "algo.network.hidden_sizes": "[64,32]",
    "logger.wandb.mode": "online",
    "log.interval": "1000",
    "stop.mode": "min",
}
"""A number, one below 0, a switch, a list, and so on."""
FORMS = """
{key} {value}
{key} = {value}
{key}= {value}
{key} ={value}
{key}: {value}
{key}:{value}
'{key} = {value}'
'{key}: {value}'
'{key}=={value}'
'{key}:={value}'
'{key}={value},'
'{key}={value};'
--{key} {value}
--{key}={value}
-{key}={value}
—{key} {value}
'{key}=“{value}”'
'{key}＝{value}'
'{key}=({inner},)'
'{key}={{{inner}}}'
'{key}=[{inner}'
""".strip().splitlines()


def meant(typed):
    """The overrides of the command that a refused one is answered with."""
    words = [*BASE, *shlex.split(typed)]
    with pytest.raises(UsageError, match="expected key=value") as caught:
        entry.run(words)
    line = read(shlex.split(str(caught.value).partition("\n  rltrain")[2]))
    for job in entry.list_jobs(line).values():
        compose_checked(job).settings()
    return line.overrides


@each_once(form=FORMS, key=SETTINGS)
def test_a_setting_in_another_form_is_answered_with_the_command_that_was_meant(key, form):
    value = SETTINGS[key]
    typed = form.format(key=key, value=value, inner=value.strip("[]"))
    assert {o.lower() for o in meant(typed)} == {*BASE, f"{key}={value}"}


@pytest.mark.parametrize("between", [",", ", ", ";", "; ", "&", " "])
def test_settings_in_one_word_are_answered_as_several(between):
    typed = between.join(["seed=3", "algo.loss.floor=-1.5", "stop.mode=min"])
    assert meant(f"'{typed}'") == (*BASE, "seed=3", "algo.loss.floor=-1.5", "stop.mode=min")


@each_once(
    key=["seed", "lr", "algo.optimizer.lr", "env.max_episode_steps"],
    form=["{}=(1,2)", "{}={{1,2}}", "--{}=[1,2]", "--{} 1 2", "{}=1, 2"],
)
def test_a_list_in_place_of_several_values_is_a_sweep(key, form):
    ours = {"lr": "algo.optimizer.lr"}.get(key, key)
    assert {*meant(form.format(key))} == {*BASE, f"{ours}=1,2"}


UNREADABLE = {
    "seed=1 env=cartpole": "Type seed=1 env=cartpole.",
    "seed = 1": "Type seed=1.",
    "seed= 1": None,
    "seed =1": "Type seed=1.",
    "algo==dqn": "Type algo=dqn.",
    "algo=dqn,": "Type algo=dqn.",
    "seed==1": "Type seed=1.",
    'report.ranges={row:Row: [0, 1], "CartPole-v1": [0, 500]}': (
        r"Type 'report.ranges={row\:Row: [0, 1], CartPole-v1: [0, 500]}'."
    ),
    "env.opponents={outputs/a=b: 1}": r"Type 'env.opponents={outputs/a\=b: 1}'.",
    "hub.repo=a=b": "needs both kinds of quotes: \"key='a b'\".",
    "name=a b,=c": "needs both kinds of quotes: \"key='a b'\".",
    "env.id =$x;y": "needs both kinds of quotes: \"key='a b'\".",
}


@pytest.mark.parametrize("word", UNREADABLE)
def test_an_override_that_cannot_be_read_is_answered_with_one_that_is_accepted(word):
    text = refusal([word])
    if UNREADABLE[word] is None:
        assert text is None
    else:
        assert f"'{word}' cannot be read: expected key=value. " in text
        assert UNREADABLE[word] in text
