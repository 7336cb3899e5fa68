"""Typed keys that nothing reads: every row of the table warns where its condition holds, of keys
that were typed.
"""

import re
from dataclasses import replace

import pytest

import rltrain
from rltrain.api import settings_from
from rltrain.config.combinations import table
from rltrain.config.overrides import is_below
from rltrain.main import run
from rltrain.mode.find_opponents import with_opponents
from rltrain.mode.messages.warnings import warnings
from rltrain.mode.train import built
from tests.helpers import data_rows

NAMES = {
    "CART": "algo=dqn env=cartpole tuned=none buffer.capacity=2000 SIZES",
    "BEST": "CART buffer=prioritized",
    "MINATAR": "algo=dqn env=minatar buffer.capacity=2000 SIZES",
    "SMAC": "algo=iql env=smac buffer.capacity=32 SIZES",
    "SPARSE": "SMAC env.reward_sparse=true",
    "STATE": "algo=qmix env=smac buffer.capacity=32 SIZES",
    "SMACV2": "algo=iql env=smacv2 buffer.capacity=32 SIZES",
    "STAGS": "algo=vdn env=stag_hunt buffer.capacity=32 SIZES",
    "STEP": "env=two_step buffer.capacity=64 SIZES",
    "PIXELS": "env=gymnasium env.id=pixels:Pixels algo/network=conv algo.network.filters=[[4,3,1]]",
    "SIZES": "hardware.n_envs=2 test.n_envs=1 test.episodes=2 logger.console=false"
    " hardware.threads=1",
    "PRICES": "close.csv",
    "MAP": "mine.yaml",
}
CASES = [row for _, *row in data_rows("unread_keys.txt")]
FILES = {
    "close.csv": "close\n" + "\n".join(str(100 + day % 7) for day in range(3000)),
    "mine.yaml": """
name: duel
limit: 20
allies: [{unit: marine, count: 2, at: [10, 10]}]
enemies: [{unit: marine, count: 2, at: [20, 10]}]
""",
    "pixels.py": """
import gymnasium, numpy
class Pixels(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 255, (10, 10, 3), numpy.uint8)
    action_space = gymnasium.spaces.Discrete(2)
""",
}


def expanded(words):
    """A command without names of other words."""
    return re.sub(rf"\b({'|'.join(NAMES)})\b", lambda name: expanded(NAMES[name[0]]), words)


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    """Some episodes of the two-step game and of stag hunt."""
    folder = tmp_path_factory.mktemp("datasets")
    for name, words in (("DATA", "STEP"), ("HUNT", "STAGS")):
        words = expanded(f"{words} dataset.write={{}}").format(folder / name).split()
        trainer = rltrain.make_trainer(words, run_dir=folder / f"of_{name}")
        trainer.run(1000 if name == "HUNT" else 200)
        trainer.close()
    return folder


@pytest.fixture
def warned(own_folder, datasets):
    """What is warned of before a run begins, and before one that types nothing."""
    for name, text in FILES.items():
        (own_folder / name).write_text(text)

    def warned(words, played=None):
        words = re.sub("DATA|HUNT", lambda name: str(datasets / name[0]), expanded(words))
        settings = with_opponents(settings_from(words.split()))
        trainer = built(settings, own_folder / "run")
        if played is not None:
            trainer.rollout.about = played
        said = [[*warnings(s, trainer)] for s in (settings, replace(settings, typed=frozenset()))]
        trainer.close()
        return said

    return warned


def test_every_row_of_the_table_has_a_case():
    assert len(CASES) == len(table()["unread"])


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    ("row", "typed", "unread", "read"),
    [(row, *case) for row, case in zip(table()["unread"], CASES, strict=False)],
    ids=[typed for typed, *_ in CASES],
)
def test_a_typed_key_that_nothing_reads_is_warned_of(row, typed, unread, read, warned):
    if "MINATAR" in unread:
        pytest.importorskip("minatar")
    keys = sorted(word.partition("=")[0] for word in typed.split())
    assert all(is_below(key, row["key"].split()) for key in keys)
    said, untyped = warned(f"{unread} {typed}")
    shown = [line.partition(" has no effect here: ") for line in said]
    assert [key for key, said, _ in shown if said and key in keys] == keys
    why = row["why"].partition("{")[0]
    assert all(text.startswith(why) for key, _, text in shown if key in keys)
    assert "has no effect" not in " ".join(untyped)
    if read != "-":
        game = {"backend": "sc2"} if read == "GAME" else None
        said, _ = warned(f"{unread if game else read} {typed}", game)
        assert not any(line.startswith(tuple(f"{key} has no" for key in keys)) for line in said)


@pytest.mark.parametrize(("total", "warns"), [(15, True), (16, False)])
def test_an_iteration_that_is_longer_than_the_run_is_warned_of(total, warns, warned):
    words = f"STEP algo.steps_per_collect=8 total_env_steps={total}"
    said = [line for line in warned(words)[0] if "one iteration makes 16 env steps" in line]
    assert len(said) == warns


SCRIPTED = "env=smac env.map_name=3m hardware.threads=1 env.start_jitter=0.5"
PLAYS = f"algo=scripted algo.policy=closest {SCRIPTED}"


@pytest.mark.parametrize(
    ("command", "key"),
    [
        ("mode=evaluate checkpoint=RUN test.episodes=2 test.n_envs=3", "test.n_envs"),
        ("mode=evaluate checkpoint=RUN load_step=all dataset.max_bytes=9", "dataset.max_bytes"),
        (f"mode=evaluate {PLAYS} test.episodes=1", "env.start_jitter"),
        (f"mode=watch {PLAYS} test.episodes=1", "env.start_jitter"),
        (
            f"mode=match checkpoints=[closest,builtin] match.battles=2 {SCRIPTED}",
            "env.start_jitter",
        ),
        ("resume=RUN total_env_steps=165 stop.mode=min", "stop.mode"),
    ],
)
def test_other_modes_say_once_which_keys_they_do_not_read(command, key, trained, capsys, caplog):
    assert run(command.replace("RUN", str(trained)).split()) == 0
    printed = "".join(capsys.readouterr())
    said = printed if key in printed else caplog.text
    assert said.count(" has no effect here") == said.count(f"{key} has no effect here: ") == 1
