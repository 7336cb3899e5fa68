"""What a refused combination says to type is accepted, or refused for another reason than another
row of ``combinations.yaml``.
"""

import re
import shlex

import pytest

import rltrain
from rltrain.config.combinations import table
from rltrain.errors import UsageError

PARTS = re.compile(r"[{][^}]*[}]")
SMALL = {
    "test.n_envs": "1",
    "hardware.n_envs": "4",
    "hardware.kernels": "torch",
    "hardware.threads": "1",
    "tuned": "none",
}
TEAM = "algo=qmix env=smac env.map_name=3m buffer.capacity=2000"
MAPS = "env=smac env.maps=[3m,8m] buffer.capacity=200"
ALONE = "algo=dqn env=cartpole buffer.capacity=2000"
ON_POLICY = "algo=pqn env=cartpole"
SEVERAL = [
    f"algo={algo} {MAPS}{network}"
    for algo in ("qmix", "vdn", "iql", "qplex", "qtran", "ow_qmix", "qatten")
    for network in ("", " algo/network=attention", " algo/network=hpn")
]
COMMANDS = [
    *SEVERAL,
    f"algo=qmix algo/network=attention algo/mixer=entities {MAPS} env.start_positions=3m",
    f"algo=qmix algo/network=attention algo/mixer=entities {MAPS} env.obs_last_action=true",
    f"algo=qmix algo/network=attention algo/mixer=entities {MAPS} env.obs_instead_of_state=true",
    f"{TEAM} env.map_weights=[1,2]",
    f"{MAPS} algo=qmix algo/network=attention algo/mixer=entities env.map_name=8m",
    f"{ALONE} stop.value=1",
    f"{ALONE} test.record=html",
    "algo=qmix env=smaclite env.rules=sc2 buffer.capacity=200",
    f"{TEAM} algo/loss=munchausen algo.loss.rescale=0.01",
    f"{TEAM} algo/distribution=categorical algo/loss=categorical",
    f"{TEAM} algo/loss=quantile algo/distribution=quantile",
    f"{TEAM} algo=qtran algo/mixer=independent",
    f"{ALONE} buffer.folder=x buffer.storage=memory",
    f"{ALONE} buffer=prioritized buffer.initial_priority=td_error algo/loss=munchausen",
    f"{ALONE} buffer=prioritized_sequence buffer.initial_priority=td_error algo.loss.trace=0.5",
    f"{ALONE} buffer=prioritized buffer.initial_priority=td_error algo.reward_norm=scale",
    f"{TEAM} buffer=prioritized buffer.initial_priority=td_error",
    f"{ALONE} algo.loss.trace=0.5",
    f"{TEAM} buffer=replay buffer.agents=independent",
    f"{ON_POLICY} algo.learning_starts=10",
    f"{ON_POLICY} algo.batch_size=100000",
    f"{ON_POLICY} algo.reward_norm=scale",
    f"{ON_POLICY} hardware=process hardware.overlap=true",
    f"{ALONE} algo.learning_starts=3000",
    f"{ALONE} hardware=process hardware.n_workers=5",
    f"{ALONE} hardware=process hardware.n_workers=60 hardware.n_envs=90",
    f"{ALONE} hardware=process test.n_workers=2",
    f"{ALONE} hardware=process dataset.write=data",
    f"{ALONE} test.n_workers=3 test.n_envs=8 test.episodes=2",
    f"{ALONE} test.n_workers=1 test.video_interval=10",
    f"{TEAM} env.opponent=self self_play.sampling=prioritized hardware=process",
]
ROWS = [
    re.escape(PARTS.sub("\0", row["why"])).replace("\0", ".*")
    for rows in table()["refused"].values()
    for row in rows
]


def refused(words, folder):
    """The message of the row that refuses a command, "" if none does."""
    keys = {word.lstrip("+").partition("=")[0]: word for word in words}
    typed = [f"{key}={value}" for key, value in SMALL.items() if key not in keys]
    try:
        rltrain.make_trainer([*typed, *keys.values()], run_dir=folder).close()
    except UsageError as error:
        text = " ".join(str(error).split())
        return text if any(re.search(row, text) for row in ROWS) else ""
    return ""


def answers(text):
    """The overrides of every alternative that a message says to type, without those to fill in."""
    said = re.search(r"\. Type (?:for example )?(.*)\.$", text)
    for each in re.split(r"[,;] (?:or )?(?:to keep the mixer )?|, with ", said[1] if said else ""):
        words = [word for word in shlex.split(each) if "=" in word]
        if words and not re.search("[A-Z…]|in place of", each):
            yield words


@pytest.mark.sampled(4)
@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_refusal_says_to_type_is_not_refused_by_another_row(command, tmp_path):
    """Defect: algo=ow_qmix with env.maps was refused twice, for its mixer and for its critic."""
    words = shlex.split(command)
    text = refused(words, tmp_path / "a")
    assert [*answers(text)], text
    for first in [*answers(text)][:1]:
        assert refused([*words, *first], tmp_path / "b") == "", f"{text} | {first}"
