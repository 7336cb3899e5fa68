"""A command with a mistake, or with settings in another form, is answered with the command that was
meant, which keeps every right argument as it was typed.
"""

import re
import shlex

import pytest

from rltrain import main as entry
from rltrain.config.command_line import read, typed
from rltrain.config.compose import compose_checked
from rltrain.config.overrides import flat_keys
from rltrain.errors import UsageError
from tests.config.suggest.test_hints import refusal
from tests.marks import each_once, slow_except

BASES = (
    "algo=dqn env=cartpole",
    "algo=qmix env=smac",
    "algo=r2d2 env=gymnasium hardware=process",
    "algo=dqn env=atari",
    "algo=qmix env=smacv2 hardware=ray",
)
MISTAKES = ("--seed 3", "n_steps=3 learning_rate=0.1", "'lr = 0.1'", "seed==3")
RIGHT = (
    "env=gymnasium +env.kwargs.x=1",
    "algo=qmix env=smac algo.network.groups=[[0,1],[2]]",
    "algo=vdn env=smac algo.mixer._target_=rltrain.algo.QMix algo.mixer.embed_dim=8",
    "'callbacks=[{_target_: tests.helpers.Penalty}]'",
    "checkpoint=outputs/a=b,c",
    "mode=evaluate checkpoint=outputs/run",
    "mode=tune 'tune.space=[{key: algo.optimizer.lr, low: 1e-4, high: 1e-2, log: true}]'",
    "resume=outputs/run",
    "stop.metric=test/return_mean stop.value=1",
    "env=smac 'env.opponents={closest: 1, random: 2}'",
    "algo=dqn env=cartpole 'name=\"5\"' '+algo.optimizer.betas=[0.9,0.95]'",
    "mode=match 'checkpoints=[outputs/a, outputs/b]'",
    "hydra.run.dir=outputs/mine",
    "experiment=null",
    "algo=dqn env=cartpole 'algo.exploration={end: 0.1}'",
)
"""Arguments that are not the default of one key."""


def composed(words):
    entry.require_overrides(read(words), words)
    compose_checked(words)


def answered(words):
    """The arguments of the whole command that a refused one is answered with; None for none."""
    with pytest.raises(UsageError) as caught:
        composed(words)
    text = str(caught.value) + entry.in_one(caught.value, words)
    command = re.search("^  rltrain(.*)$", text, re.M)
    return command and shlex.split(command[1])


def lost(right, mistake):
    """Arguments that the answer does not keep, and are not those of the mistake."""
    words = answered([*right, *shlex.split(mistake)])
    return [] if words is None else sorted({*right}.difference(words))


@pytest.mark.parametrize("every", slow_except([4 * len(MISTAKES)], [4 * len(MISTAKES), 1]))
@pytest.mark.parametrize("base", slow_except(BASES[:1], BASES))
def test_every_default_beside_a_mistake_is_kept(base, every):
    """A quarter of them beside one of the mistakes each, in the slow tests all beside all."""
    base = base.split()
    keys = flat_keys(compose_checked(base).plain).items()
    right = [f"{k}={typed(v, k)}" for k, v in keys if v == {} or not isinstance(v, dict)]
    assert len(right) > 100
    assert not [
        (word, mistake, gone)
        for at, word in enumerate(right)
        for mistake in MISTAKES[at % every :: every]
        if word.partition("=")[0] not in ("seed", "algo.loss.n_step", "algo.optimizer.lr")
        for gone in lost([*base, word], mistake)
    ]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_else_is_right_beside_a_mistake_is_kept(mistake):
    assert not [(words, gone) for words in RIGHT for gone in lost(shlex.split(words), mistake)]


def test_answers_are_whole_commands():
    assert all(answered(["env=cartpole", *shlex.split(mistake)]) for mistake in MISTAKES)


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
    "seed=[1": "Type 'seed=[1]'.",
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
