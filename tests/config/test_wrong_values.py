"""Wrong names and values, and mistakes that once ended with a traceback or that named too little:
each is one paragraph, with what to type.
"""

import re
import shlex
from pathlib import Path

import pytest
from hydra.core.hydra_config import HydraConfig

from rltrain import main as entry
from rltrain.callback import Callback
from rltrain.callback.hooks import Callbacks
from rltrain.config.command_line import NO_TEXT
from rltrain.config.compose import compose_checked
from rltrain.config.hydra_sweep import sweeper_for
from rltrain.errors import UsageError
from tests.helpers import nothing_written
from tests.marks import each_once, slow_except

CARTPOLE = ["algo=dqn", "env=cartpole"]
PRESET = "# @package _global_\nalgo:\n  {key}: 3\n"

SWEEPS = {
    "interval": (["seed=1,2", "algo.optimizer.lr=interval(1e-4,1e-2)"], "can be listed"),
    "step of 0": (["seed=range(1,2,0)"], "can be listed"),
    "empty range": (["seed=range(1,1)"], "expected one value or more, got none"),
    "too many": (["seed=range(0,100001)"], "at most 10,000 runs"),
    "too many together": (["seed=range(0,200)", "test.episodes=range(1,200)"], "at most"),
}


@pytest.mark.parametrize("case", SWEEPS)
@pytest.mark.parametrize("flags", [["-m"], ["-m", "--cfg", "job"]], ids=["run", "shown"])
def test_a_sweep_that_cannot_be_listed_is_refused(case, flags):
    overrides, text = SWEEPS[case]
    with pytest.raises(UsageError, match=text):
        entry.run([*flags, *CARTPOLE, *overrides])


def test_every_job_of_a_sweep_is_shown(capsys):
    words = ["-m", "env=cartpole", "algo=dqn,c51", "seed=range(2)", "--cfg", "job"]
    assert entry.run(words) == 0
    shown = capsys.readouterr().out
    jobs = [line for line in shown.splitlines() if line.startswith("# job ")]
    assert jobs == [
        f"# job {2 * i + seed}: env=cartpole algo={algo} seed={seed}"
        for i, algo in enumerate(("dqn", "c51"))
        for seed in range(2)
    ]
    assert shown.count("v_min") == 2


def test_several_values_are_shown_only_with_the_flag():
    with pytest.raises(UsageError, match="several values for one key are a sweep"):
        entry.run([*CARTPOLE, "seed=1,2", "--cfg", "job"])


@pytest.mark.parametrize(
    "words",
    [["--info", "searchpath", "env=nope"], ["--cfg", "hydra", "env=nope"], ["--cfg", "all", "a=1"]],
    ids=" ".join,
)
def test_what_hydra_does_not_accept_is_a_usage_error(words):
    with pytest.raises(UsageError, match="Hydra cannot answer"):
        entry.run(words)


@pytest.mark.parametrize(
    ("part", "text"),
    [(object(), "an object of object"), (Callback, "got the class Callback: type Callback\\(\\)")],
    ids=["no callback", "class"],
)
def test_only_callbacks_are_callbacks(part, text):
    with pytest.raises(ValueError, match=text):
        Callbacks([Callback(), part])


def test_a_class_without_the_base_class_is_refused_before_the_run(own_folder):
    (own_folder / "mine.py").write_text("class NotACallback:\n    pass\n")
    with pytest.raises(UsageError, match=r"subclass of rltrain\.callback\.Callback"):
        entry.run([*CARTPOLE, "logger=[]", "callbacks=[{_target_: mine.NotACallback}]"])
    assert [path.name for path in own_folder.iterdir() if path.name != "__pycache__"] == ["mine.py"]


@each_once(algo=["dqn", "qmix", None], typed=["file", "folder"])
def test_a_wrong_key_of_a_preset_names_the_file(own_folder, algo, typed):
    file = own_folder / "mine" / "experiment" / f"wrong_{typed}.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(PRESET.format(key="batchsize"))
    words = [f"experiment={file}"] if typed == "file" else [f"hydra.searchpath=[{own_folder}/mine]"]
    words += ["experiment=wrong_folder"] if typed == "folder" else []
    words += [] if algo is None else [f"algo={algo}"]
    with pytest.raises(UsageError) as caught:
        compose_checked(["env=two_step", *words])
    assert f"Unknown key 'algo.batchsize' in {file}. Did you mean 'algo.batch_size'?" in str(
        caught.value
    )


@pytest.mark.parametrize("key", ["total_env_steps", "algo.loss.gamma", "hardware.n_envs"])
def test_a_number_as_text_says_how_it_becomes_a_number(key, monkeypatch):
    monkeypatch.setenv("NUMBER", "1")
    with pytest.raises(UsageError, match=r"It is text\. Type .*=1; .*oc\.decode"):
        compose_checked([*CARTPOLE, f"{key}=${{oc.env:NUMBER}}"]).settings()


@pytest.mark.parametrize("text", ["true", "False", "null", "3", "1e-3", "[3,4]", "[[0,1],[9,0.1]]"])
@pytest.mark.parametrize(
    "key",
    [
        *("algo.loss.double", "algo.max_grad_norm", "seed"),
        *("algo.network.hidden_sizes", "algo.lr_factors"),
    ],
)
def test_a_text_that_looks_like_a_value_is_called_text(key, text):
    with pytest.raises(UsageError, match=f"^{key}=") as caught:
        compose_checked([*CARTPOLE, f"{key}='{text}'"]).settings()
    _, is_text, typed = str(caught.value).partition("It is text. Type ")
    try:
        compose_checked([*CARTPOLE, f"{key}={text}"]).settings()
    except UsageError:
        assert not is_text
    else:
        assert is_text
        compose_checked([*CARTPOLE, typed.partition(";")[0]]).settings()


TABLE = Path(__file__).parents[1] / "data/wrong_commands.txt"
BLOCKS = re.findall(r"^([^>#\n].*)\n((?:> .*\n)+)", TABLE.read_text(encoding="utf-8"), re.MULTILINE)
SAID = {typed: [line.removeprefix("> ") for line in said.splitlines()] for typed, said in BLOCKS}


@pytest.mark.parametrize("typed", slow_except([*SAID][::2], SAID))
def test_a_wrong_command_is_refused_with_what_to_type(typed, own_folder):
    with pytest.raises(UsageError) as caught:
        entry.run(shlex.split(typed))
    assert caught.value.exit_code == 2
    assert nothing_written(own_folder)
    for text in SAID[typed]:
        after = "$" if text[-1] in ".?" else r"(?!\w)"  # a whole sentence is the last of its line
        assert re.search(re.escape(text) + after, str(caught.value), re.MULTILINE), text


ANSWERS = {
    "trust=5": r"expected a list, each text, got 5\. The default is \[\]\.$",
    "mode=report report.ranges=5": r"expected a mapping.*got 5\. The default is \{\}\.$",
    "env=gymnasium env.kwargs=5": r"expected a mapping, got 5\. The default is \{\}\.$",
    "mode=report report.ignore=5": r"got 5\. The default is \[\]\.$",
    "logger.wandb.project=5": "For a number as text",
    "algo.optimizer.lr=1e39": r"at most 3e38, got 1e\+39\. The default is [^ ]+$",
    "total_env_steps=1e19": r"It has to be below 2\*\*63, 9\.2e\+18\.$",
    "seed=1e19": r"a whole number, 0 or more, got 1e\+19\. It has to be below 2\*\*63",
    "buffer.capacity=1e30": "It has to be below",
    "algo.loss.gamma=1e19": r"a number from 0 to 1, got 1e\+19\. The default is 0\.99\.$",
    "algo/optimizer=adam algo.optimizer.betas=[0.9,1.0]": "a number at least 0 and below 1, ",
    "algo/optimizer=radam algo.optimizer.betas=[0.9]": r"below 1, a number .* got \[0\.9\]",
    "algo.exploration._target_=builtins.dict": r"algo\.exploration: dict is compiled .* Type",
    "buffer._target_=builtins.dict": "buffer: dict is compiled",
    "algo=dqn.yaml": r"got a path\. Type algo=dqn\.",
    "algo=conf/algo/qmix.yml": r"got a path\. Type algo=qmix\.",
    "algo=my.yaml": r"got a path\. Your own file",
    "mode=doctor env=cartpole,acrobot": "several values .* mode=doctor takes one",
    "mode=doctor env=glob(c*)": "several values .* mode=doctor takes one",
    "mode=tune seed=1,2": "several values .* mode=tune takes one",
    "mode=tune algo.loss.n_step=interval(1,5)": r"tune.space=\[{key: algo.loss.n_step, low: FIRST,",
    "mode=tune algo.loss.n_step=range(1,5)": r"tune.space=\[{key: algo.loss.n_step, low: FIRST,",
    "seed=1,2": "several values .* Type rltrain -m … to run them all",
    "-m env=glob(c*)": r"env=glob\(c\*\): a sweep needs values that can be listed: type env=A,B",
    "-m seed=[1,2]": r"got \[1, 2\]\. Type -m seed=1,2\.$",
    "-m algo=ppo env=cartpole": "Type algo=pqn",
    "-m env=cartpole": "no key has several",
    "name=None": r"or null, got None\. Type name=null\.$",
    "++algo=dqn": "type algo=NAME",
    "ENV=CartPole-v1": r"Type env=cartpole\.$",
    "algo.name=foo": r"The choice is typed algo=NAME\. rltrain --help algo lists",
    "buffer.type=foo": r"The choice is typed buffer=NAME\. Expected one of episode",
    "env_name=foo": "The choice is typed env=NAME",
    "-m seed=interval(1,2)": r"tune searches in intervals\.$",
}


@pytest.mark.parametrize("words", ANSWERS)
def test_a_wrong_value_is_answered(words, own_folder):
    with pytest.raises(UsageError, match=ANSWERS[words]):
        entry.run(words.split())
    assert not list(own_folder.iterdir())


NUMBER = "${hydra:job.num}"
REFUSED = r"gives a job the folder .* Type 'hydra\.sweep\.subdir=\$\{hydra:"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("subdir", "answer"),
    [
        ("x", REFUSED),
        ("${hydra:job.name}", REFUSED),
        (NUMBER, ["0", "1", "2", "3"]),
        (f"run{NUMBER}", ["run0", "run1", "run2", "run3"]),
        *((f"{before}{NUMBER}", REFUSED) for before in ("runs/", "../", "/tmp/")),
    ],
)
def test_a_sweep_has_a_folder_of_its_own_for_each_job(subdir, answer, own_folder, monkeypatch):
    """Defect: an interpolation was resolved before there was a job, or with the job before."""
    monkeypatch.setattr(HydraConfig.instance(), "cfg", None)
    words = [*CARTPOLE, "seed=1,2", "algo.batch_size=8,16", f"hydra.sweep.subdir={subdir}"]
    if isinstance(answer, list):
        jobs, _ = sweeper_for(words, own_folder / "s")
        assert [folder for _, folder in jobs] == [own_folder / "s" / name for name in answer]
        return
    with pytest.raises(UsageError, match=answer):
        sweeper_for(words, own_folder / "s")
    assert not list(own_folder.iterdir())


@pytest.mark.parametrize("key", ["buffer.alpha", "dataset.held_out", "test.epsilon", "seed"])
def test_numbers_of_hundreds_of_digits_are_refused(key):
    with pytest.raises(UsageError, match=f"{key}=999"):
        compose_checked([*CARTPOLE, f"{key}={'9' * 400}"]).settings()


@pytest.mark.parametrize("word", ["~resume=1", "~checkpoint=x", "~mode=evaluate", "~config=x"])
def test_a_deletion_is_no_value(word):
    with pytest.raises(UsageError, match="keys cannot be removed"):
        entry.run([*CARTPOLE, word])


def test_no_experiment_is_a_choice_beside_exchanged_parts():
    words = ["algo=rainbow", "env=cartpole", "algo/mixer=qplex", "algo/network=gru"]
    assert compose_checked([*words, "experiment=null"]).tree == compose_checked(words).tree


@pytest.mark.parametrize("end", ["x", "%", "_x", ".x", "._x", "e", "e+", ":"])
def test_many_digits_are_read_once(end):
    """Trying every way to divide them would take minutes."""
    assert not NO_TEXT.fullmatch("9" * 100_000 + end)
