"""Suggestions for choices are tried, beside the other choices, before they are shown."""

import re

import pytest

from rltrain.config.catalog import SHIPPED
from rltrain.config.compose import compose_checked
from rltrain.errors import UsageError
from tests.config.suggest.test_hints import refusal
from tests.marks import each_once


def typos(option):
    middle = len(option) // 2
    yield option[:middle] + option[middle + 1 :]
    yield option[:-1] + "xx"
    yield option.upper()


def suggested(message):
    """What a message says to type, each a list of overrides."""
    said = re.search(
        r" (?:Did you mean|Type) ((?:\S+=\S+(?:,? or |, | )?)+?)(?: \(|[.?](?: |$))", message
    )
    return [text.split() for text in re.split(r", (?:or )?| or ", said[1])] if said else []


@pytest.mark.sampled(4)
@each_once(
    group=[g for g in SHIPPED.groups if len(SHIPPED.options(g)) > 1],
    beside=[[], ["algo=qmix"], ["algo=pqn"], ["env=two_step"], ["buffer=episode"]],
)
def test_a_choice_that_is_suggested_is_accepted(group, beside):
    """Defect: what did not go with another choice was suggested, and then refused."""
    others = [each for each in beside if not each.startswith(f"{group}=")]
    tried = [(o, typo) for o in SHIPPED.options(group)[:6] for typo in typos(o)]
    for _, typo in ((o, typo) for o, typo in tried if typo not in SHIPPED.options(group)):
        with pytest.raises(UsageError) as refused:
            compose_checked([*others, f"{group}={typo}"])
        for overrides in suggested(str(refused.value)):
            groups = {each.partition("=")[0] for each in overrides}
            kept = [each for each in others if each.partition("=")[0] not in groups]
            compose_checked([*kept, *overrides]).settings()


def test_a_choice_that_is_refused_is_not_suggested():
    with pytest.raises(UsageError, match=r"unknown algo 'SCRIPTED'\. algo=scripted has nothing to"):
        compose_checked(["algo=SCRIPTED"])


@pytest.mark.parametrize(
    ("typed", "said"),
    {
        "env=atari env.id=ALE/Pong-v5": "Type env.game=pong.",
        "env=atari env.id=PongNoFrameskip-v4": "Type env.game=pong.",
        "env=atari env.id=Pong-ram-v4": "Did you mean 'pong'?",
        "env=atari env.game=ALE/MsPacman-v5": "Did you mean 'ms_pacman'?",
        "env=atari env.game=PongNoFrameskip-v4": "Did you mean 'pong'?",
        "env=atari id=ALE/MsPacman-v5": "Type env.game=ms_pacman.",
        "env=atari env.id=CartPole-v1": "Type env=cartpole.",
        "env=minatar env.id=MinAtar/SpaceInvaders-v1": "Type env.game=space_invaders.",
        "env=minatar env.game=MinAtar/Breakout-v1": "Did you mean env.game=breakout?",
        "env=minatar env.id=ALE/Pong-v5": "Type env=atari env.game=pong.",
        "env=mpe env.id=simple_spread_v3": "Type env.game=spread.",
        "env=mpe env.game=simple_spread_v3": "Did you mean env.game=spread?",
        "env=matrix env.id=climbing": "Type env.game=climbing.",
        "env=matrix env.game=climbing-nostate-v0": "Did you mean env.game=climbing?",
        "env=smac env.id=3m": "Type env.map_name=3m.",
        "env=lbf env.game=Foraging-8x8-2p-3f-v3": "Type env.id=Foraging-8x8-2p-3f-v3.",
    }.items(),
)
def test_a_task_as_other_tools_spell_it_is_answered_with_its_key_here(typed, said):
    if "Did you mean '" in said:
        pytest.importorskip("ale_py")  # which lists the games
    with pytest.raises(UsageError) as refused:
        compose_checked(typed.split()).settings()
    assert str(refused.value).endswith(said)


@each_once(
    loss=SHIPPED.options("algo/loss"),
    word=[
        *("buffer.alpha=0.6", "buffer_size=1000", "buffer=replay", "buffer=on_policy"),
        *("algo.distribution.atoms=5", "distribution=qr", "algo/critic=central", "use_per=true"),
    ],
)
def test_what_a_loss_needs_is_suggested_once(loss, word):
    """Defect: Type buffer=replay algo/loss=q_lambda buffer=on_policy."""
    base = ["algo=dqn", "env=cartpole"]
    for overrides in suggested(refusal([*base, f"algo/loss={loss}", word]) or ""):
        keys = [each.partition("=")[0] for each in overrides]
        assert len(keys) == len({*keys}), overrides
        settings = compose_checked([*base, *overrides]).settings()
        assert "buffer=on_policy" not in overrides or settings.learning.learning_starts == 0
