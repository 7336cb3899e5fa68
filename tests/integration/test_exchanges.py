"""Every part of every algorithm can be exchanged for another of its group, or it is said which
choices work together, with a command that works, and that no other row of ``combinations.yaml``
refuses.

``python -m tests.integration.test_exchanges`` tries all of them and writes the refused ones to
``tests/data/exchanges.json``.
"""

import json
import re
import shlex
import tempfile

import pytest

import rltrain
from rltrain.api import settings_from
from rltrain.config.catalog import SHIPPED
from rltrain.config.combinations import table
from rltrain.errors import UsageError
from tests.helpers import data_rows, over, three_iterations, without
from tests.pages import ROOT

GROUPS = (
    *("algo/distribution", "algo/exploration", "algo/loss", "algo/mixer", "algo/network"),
    *("algo/optimizer", "buffer"),
)
ALGOS = [name for name in SHIPPED.options("algo") if name != "scripted"]
REFUSED = ROOT / "tests/data/exchanges.json"
"""The refused exchanges, each with what its message says to type instead."""
OWN = "env._target_=tests.integration.own_parts"
CONV = ("algo.network.filters=[[4,3,2]]", "algo.network.hidden_sizes=[8]")
ENVS = {
    **dict.fromkeys(("hpn", "attention", "entities"), ("env=smac",)),  # whose blocks name units
    "conv": [f"{OWN}.image_team", *CONV],
    "multi_input": [f"{OWN}.keyed_team"],
}
"""Environments of parts for certain observations and states."""
TINY = (
    *("total_env_steps=1000", "test.n_envs=1", "algo.batch_size=4", "algo.steps_per_collect=4"),
    *("hardware.n_envs=2", "hardware.threads=1", "logger.console=false"),
    "logger.wandb.mode=disabled",
)


def exchanges(algo):
    """The exchanges of one part of an algorithm, by the group and the option typed."""
    chosen = SHIPPED.choices({"algo": algo})
    return [
        (group, option)
        for group in GROUPS
        for option in SHIPPED.options(group)
        if option != chosen[group]
    ]


def words_for(algo, group, option):
    """The exchange in a tiny run, with an environment that the new part can be used in."""
    found = settings_from([f"algo={algo}"]).algo
    team = found.updates_per_episode is not None or group == "algo/mixer"
    env = ENVS.get(option, ["env=two_step" if team else "env=cartpole"])
    starts = ["algo.learning_starts=8"] if found.learning_starts > 0 else []
    return [*TINY, f"algo={algo}", f"{group}={option}", *env, *starts]


def refusal(overrides):
    """Train until three gradient steps are made; what was said instead, or None."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            trainer = rltrain.make_trainer(overrides, run_dir=folder)
        except UsageError as error:
            return str(error)
        for _ in range(100):
            trainer.run(trainer.clock.env_steps + 1)
            if trainer.clock.updates >= 3:
                break
        trainer.test(episodes=1)
        trainer.close()
    assert trainer.clock.updates >= 3, overrides
    return None


def offered(message):
    """The overrides that a message says to type: one text per way out."""
    _, _, rest = message.partition("Type ")
    return [m.strip(" .") for m in re.findall(r"(?:[\w/.]+=[^\s,;]+ ?)+", rest)]


def test_at_least_four_of_five_exchanges_train():
    n_refused, n_all = len(json.loads(REFUSED.read_text())), sum(len(exchanges(a)) for a in ALGOS)
    assert n_refused <= 0.2 * n_all


@pytest.mark.slow
@pytest.mark.parametrize("algo", ALGOS)
def test_every_exchange_trains_or_says_what_to_type(algo):
    for group, option in exchanges(algo):
        check(algo, group, option)


SAMPLE = [
    ("dqn", "algo/loss", "quantile"),
    ("dqn", "buffer", "on_policy"),
    pytest.param("c51", "algo/mixer", "sum", marks=pytest.mark.slow),
    ("pqn", "buffer", "replay"),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("algo", "group", "option"), SAMPLE)
def test_some_exchanges_train_or_say_what_to_type(algo, group, option):
    check(algo, group, option)


def check(algo, group, option):
    overrides = words_for(algo, group, option)
    message = refusal(overrides)
    expected = json.loads(REFUSED.read_text()).get(f"algo={algo} {group}={option}")
    assert (message and offered(message)) == expected, message
    for more in expected or ():
        assert refusal(over(overrides, *more.split())) is None, more


PRESETS = [
    ["experiment=rllib/dqn", "algo=c51"],
    ["experiment=rllib/dqn", "algo=pqn"],
    ["experiment=rllib/dqn", "buffer=replay"],
    ["experiment=zoo/cartpole", "algo/loss=quantile"],
    ["experiment=cleanrl/c51_cartpole", "algo/distribution=scalar"],
    ["experiment=trading", "algo/optimizer=rmsprop"],
    ["experiment=pymarl/qmix", "algo/mixer=sum", "env=two_step"],
]


@pytest.mark.parametrize(
    "overrides",
    [PRESETS[0], *(pytest.param(w, marks=pytest.mark.slow) for w in PRESETS[1:])],
    ids=" ".join,
)
def test_parts_of_presets_can_be_exchanged(overrides, tmp_path):
    words = [*without(TINY, "algo."), *overrides]
    three_iterations(rltrain.make_trainer(words, run_dir=tmp_path))


PARTS = re.compile(r"[{][^}]*[}]")
PLAIN = ("test.n_envs=1", "hardware.n_envs=4", "hardware.kernels=torch", "hardware.threads=1")
ROWS = [
    re.escape(PARTS.sub("\0", row["why"])).replace("\0", ".*")
    for rows in table()["refused"].values()
    for row in rows
]


def refused(words, folder):
    """The message of the row that refuses a command, "" if none does."""
    try:
        rltrain.make_trainer(over([*PLAIN, "tuned=none"], *words), run_dir=folder).close()
    except UsageError as error:
        text = " ".join(str(error).split())
        return text if any(re.search(row, text) for row in ROWS) else ""
    return ""


def answers(text):
    """The overrides of every alternative that a message says to type, without those to fill in."""
    said = re.search(r"\. Type (?:for example )?(.*)\.$", text)
    for each in re.split(r"[,;] (?:or )?(?:to keep the mixer )?|, with ", said[1] if said else ""):
        words = [word for word in shlex.split(each) if "=" in word]
        if words and not re.search("[A-Z…]|in place of|for it in", each):
            yield words


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("base", "line"), [*data_rows("refusals_followed.txt")])
def test_what_a_refusal_says_to_type_is_not_refused_by_another_row(base, line, tmp_path):
    """Defect: algo=ow_qmix with env.maps was refused twice, for its mixer and for its critic."""
    words = over(base.split(), *line.split())
    text = refused(words, tmp_path / "a")
    assert [*answers(text)], text
    for first in [*answers(text)][:1]:
        assert refused(over(words, *first), tmp_path / "b") == "", f"{text} | {first}"


if __name__ == "__main__":
    table = {}
    for algo in ALGOS:
        for group, option in exchanges(algo):
            message = refusal(words_for(algo, group, option))
            print(algo, group, option, message or "trains", flush=True)
            if message:
                table[f"algo={algo} {group}={option}"] = offered(message)
    REFUSED.write_text(json.dumps(table, indent=1) + "\n")
