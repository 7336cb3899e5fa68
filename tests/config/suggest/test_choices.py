"""Suggestions for choices are tried, beside the other choices, before they are shown."""

import re

import pytest

from rltrain.config.catalog import SHIPPED
from rltrain.config.compose import compose_checked
from rltrain.errors import UsageError
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
