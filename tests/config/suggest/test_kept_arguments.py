"""A command with a mistake is answered with one that keeps every right argument as it was typed."""

import re
import shlex

import pytest

from rltrain import main as entry
from rltrain.config.command_line import read, typed
from rltrain.config.compose import compose_checked
from rltrain.config.overrides import flat_keys
from rltrain.errors import UsageError
from tests.marks import slow_except

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
