"""Which mode a command is carried out in."""

import re

import pytest

from rltrain.config.compose import compose_checked
from rltrain.errors import UsageError
from rltrain.mode.dispatch import loaded
from tests.helpers import nothing_written


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["mode='list'"], "type rltrain mode=list"),
        (["-m", "mode=train,tune"], "type rltrain mode=tune"),
        (["-m", "mode=evaluate"], "leave out -m or mode=evaluate"),
        (["-m", "resume=a"], "leave out -m or resume="),
        (["algo.batch_size=" + "[" * 500 + "]" * 500], "cannot be read: expected key=value"),
    ],
    ids=lambda w: " ".join(w) if isinstance(w, list) else None,
)
def test_a_mode_that_is_not_carried_out_trains_nothing(command, small, own_folder, overrides, said):
    with pytest.raises(UsageError, match=said):
        command(*small, *overrides)
    assert nothing_written(own_folder)


CLOCK = "name=t-${now:%S}"
DRAWN = {
    "a sweep in any order": ["-m", "seed=shuffle(range(1,6))"],
    "another launcher": ["-m", "seed=choice(shuffle(1,2))", "hydra/launcher=basic"],
    "a list": ["-m", "seed=1,2", "algo.network.hidden_sizes=shuffle([8,16])"],
    "a long one": ["-m", f"seed=shuffle({','.join(map(str, range(99)))})"],
    "a sweep and the clock": ["-m", "seed=1,2", CLOCK],
    "a search and the clock": ["mode=tune", CLOCK],
    "in a file": ["-m", "seed=1,2", "experiment=./my.yaml"],
    "in a list": ["-m", "seed=1,2", "logger.wandb.tags=['a ${ now:%S}']"],
    "the folder of a sweep": ["-m", "seed=1,2", "hydra.sweep.dir=s-${now:%S}"],
    "the folders of its runs": ["-m", "seed=1,2", "hydra.sweep.subdir=${hydra:job.num}-${now:%S}"],
}


@pytest.mark.parametrize("name", DRAWN)
def test_what_differs_at_every_reading_is_refused_in_a_sweep_and_a_search(
    command, small, own_folder, name
):
    """Defects: continued sweeps had more runs; searches said that their files had been edited."""
    (own_folder / "my.yaml").write_text("name: t-${now:%S}\n")
    with pytest.raises(UsageError, match=r"Type the values? itself|in the order that you want"):
        command(*small, *DRAWN[name])
    assert [path.name for path in own_folder.iterdir()] == ["my.yaml"]


def test_the_clock_names_a_single_run():
    year = compose_checked([CLOCK.replace("%S", "%Y")]).settings().run.name
    assert re.fullmatch("t-2[0-9]{3}", year)


@pytest.mark.parametrize("setting", ["mode: tune", "resume: somewhere"])
def test_a_file_does_not_choose_the_mode(command, small, own_folder, setting):
    (own_folder / "my.yaml").write_text(f"{setting}\n")
    key, value = setting.split(": ")
    with pytest.raises(UsageError, match=f"type rltrain {key}={value}"):
        command(*small, "experiment=./my.yaml")
    assert [path.name for path in own_folder.iterdir()] == ["my.yaml"]


@pytest.mark.parametrize(
    "overrides",
    [
        ["mode=evaluate", "checkpoint=a", "checkpoint=b"],
        ["checkpoint=a", "checkpoint=b"],
        ["resume=a", "resume=b"],
        ["mode=train", "++mode=report"],
        ["hydra.run.dir=a", "hydra.run.dir=b"],
        ["-m", "seed=1,2", "hydra.sweep.dir=a", "hydra.sweep.dir=b"],
    ],
    ids=" ".join,
)
def test_what_a_command_does_is_typed_once(command, own_folder, overrides):
    key = overrides[-1].lstrip("+").partition("=")[0]
    with pytest.raises(UsageError, match=f"{key} is typed twice .*Keep one of them"):
        command(*overrides)
    assert nothing_written(own_folder)


STEPS = {"1e3": 1000, "1_000": 1000, "best": "best", "null": None}
NO_STEPS = dict.fromkeys(("[5]", "{a: 5}", "-5", "1.5", "bset"), "expected a whole number")
NO_STEPS |= {"5,10": "takes one: type one of them", "all": "expected the env step of a checkpoint"}


@pytest.mark.parametrize("mode", ["evaluate", "watch", "push", "export", "import"])
def test_a_step_is_read_alike_in_every_mode_and_never_ignored(mode, own_folder):
    """Defect: the newest checkpoint was taken for several steps and for a list."""
    where = [f"mode={mode}", "checkpoint=demo/cartpole"]
    assert {each: loaded([*where, f"load_step={each}"])[1] for each in STEPS} == STEPS
    for typed, said in NO_STEPS.items():
        with pytest.raises(UsageError, match=said):
            loaded([*where, f"load_step={typed}"])


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("lr=0,001", "algo.optimizer.lr=0.001"),
        ("algo.optimizer.lr=0,0005", "algo.optimizer.lr=0.0005"),
        ("algo.loss.gamma=0,99", "algo.loss.gamma=0.99"),
        ("algo.loss.gamma=2,0.9", ""),
        ("hardware.n_envs=0,8", ""),
    ],
)
def test_a_comma_in_a_number_of_a_sweep_is_explained(command, own_folder, typed, meant):
    with pytest.raises(UsageError, match=r"expected") as refused:
        command("-m", "algo=dqn", "env=cartpole", typed)
    hint = f" A comma separates the values of a sweep: for one number type {meant}."
    assert str(refused.value).endswith(hint) if meant else "comma" not in str(refused.value)


@pytest.mark.parametrize("mode", ["evaluate", "watch", "tune"])
def test_a_dataset_to_learn_from_names_the_mode_that_does_not_learn(command, mode):
    algo = "algo=dqn" if mode == "tune" else "algo=scripted"
    with pytest.raises(UsageError, match=f"expected mode=train, got mode={mode}"):
        command(f"mode={mode}", algo, "env=cartpole", "dataset.read=data")
