"""Of a long text in the place of any value of a file, a message shows the beginning; JSON that is
nested too deep for what reads it is refused in one paragraph.
"""

import json
import shutil
from functools import reduce

import pytest
import torch

from rltrain.common import checkpoint
from rltrain.common.checkpoint.fit import check_fits
from rltrain.common.checkpoint.run_checkpoints import (
    MANIFEST,
    own_digest,
    seal,
    stored_manifest,
)
from rltrain.common.files import DEEPEST, get_json, put_text
from rltrain.config.catalog import SHIPPED
from rltrain.config.compose import compose_checked
from rltrain.errors import RltrainError, UsageError
from rltrain.main import run
from rltrain.mode.sweep.plan import SweepJob, plan_for
from rltrain.mode.tune.command import begin
from rltrain.mode.tune.trials import StudySetup, config_digest
from rltrain.offline.shards import INDEX
from tests.marks import each_once
from tests.offline.hand_made import Env, play, writer
from tests.offline.test_damaged_datasets import PAIR, changed, paths, read

LONG = "x" * 20_000
DQN = ("algo=dqn", "env=cartpole")


MANY = dict.fromkeys(map(str, range(1000)), 0)


def damaged(tree):
    """Copies of a tree with a long text in the place of one value or name each, and with many names
    or values beside it.
    """
    for at in filter(None, paths(tree)):
        yield changed(tree, at, lambda node, key: node.__setitem__(key, LONG))
        if isinstance(at[-1], str):
            yield changed(tree, at, lambda node, key: node.__setitem__(LONG, node.pop(key)))
            yield changed(tree, at, lambda node, key: node.update(MANY))
        else:
            yield changed(tree, at, lambda node, key: node.extend([node[key]] * 1000))


def require_short(path, reads):
    """A file is read with each damage, or refused in a short paragraph."""
    require_short_of(path, map(json.dumps, damaged(json.loads(path.read_text()))), reads)


def require_short_of(path, texts, reads):
    texts, n_refused = [*texts], 0
    for text in texts:
        put_text(path, text)
        try:
            reads()
        except RltrainError as error:
            said, n_refused = str(error), n_refused + 1
            assert path.name in said or str(path.parent) in said
            assert "\n" not in said
            assert len(said) < 900
    assert n_refused > len(texts) / 3


def test_of_a_dataset(tmp_path):
    to = writer(tmp_path / "d")
    to.about = {"spec": PAIR.record}
    play(to, [Env([2])])
    to.flush()
    require_short(tmp_path / "d" / INDEX, lambda: read(tmp_path / "d"))


@pytest.mark.parametrize("group", [*SHIPPED.groups, "logger"])
def test_of_a_choice(group):
    """Defect: a traceback of a file of that name, which a file system refuses."""
    with pytest.raises(UsageError, match=r"x{40}"):
        compose_checked([f"{group}={'x' * 300}"])


KEYS = {
    "smac": ("seed", "algo.loss.gamma", "env.map_name", "test.epsilon", "stop.mode"),
    "gymnasium": ("env.id", "env.max_episode_steps"),
    **{"minatar": ("env.game",), "atari": ("env.game",), "smacv2": ("env.map_name",)},
}


@pytest.mark.parametrize(("env", "key"), [(env, key) for env, keys in KEYS.items() for key in keys])
@pytest.mark.parametrize("value", [LONG, [0] * 500, {"a": [LONG]}], ids=["text", "list", "mapping"])
def test_of_a_value(env, key, value):
    if env == "atari":
        pytest.importorskip("ale_py")
    composed = compose_checked([f"env={env}"])
    *above, name = key.split(".")
    reduce(lambda node, part: node[part], above, composed.tree)[name] = value
    with pytest.raises(UsageError) as refused:
        composed.settings()
    assert len(str(refused.value)) < 1200
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("have", [{}, {"online": {"weight": torch.zeros(1)}}])
def test_of_the_spec_of_a_checkpoint(tmp_path, have):
    config = {"choices": {"algo": "dqn", "env": "cartpole"}, "algo": {}}
    about = {"spec": PAIR.record, "config": config}
    folder = checkpoint.write(tmp_path, 5, {**about, "model": {}}, "weights")
    require_short(folder / "spec.json", lambda: check_fits(have, {}, folder, about))


def test_of_a_manifest_of_a_checkpoint(tmp_path):
    folder = checkpoint.write(tmp_path, 5, {"model": {"x": 1}}, "weights")
    whole = stored_manifest(folder)
    trees = [*damaged(whole), {**whole, "files": {LONG: {"bytes": 1, "sha256": ""}}}]
    texts = [json.dumps(t | {"sha256": own_digest(t)}) for t in trees]
    require_short_of(folder / MANIFEST, texts, lambda: checkpoint.find(folder))


def test_of_a_sweep(tmp_path):
    settings = [compose_checked(DQN).settings()]
    begin_sweep = lambda: plan_for(("seed=1",), settings, tmp_path / "s")  # noqa: E731
    plan, _ = begin_sweep()
    plan.with_jobs([SweepJob(plan.folder / "0", ("seed=1",))]).write()
    require_short(tmp_path / "s/sweep.json", begin_sweep)


def test_of_a_study(own_folder):
    run = compose_checked([*DQN, "tune.space=[{key: seed, low: 1, high: 5}]"]).settings().run
    job = StudySetup(own_folder / "t", DQN, (), run, config_digest(DQN))
    begin(job)
    require_short(own_folder / "t/study.json", lambda: begin(job))


def test_of_a_journal_of_a_study(tmp_path):
    pytest.importorskip("optuna")
    from rltrain.mode.tune.study import require_trials, suggest, trial_dir
    from tests.mode.tune.test_study_journal import SPACE, next_of

    run = compose_checked([*DQN]).settings().run
    with next_of(tmp_path, run) as (study, trial):
        suggest(study, trial, SPACE, run)
        trial.report(3.0, 100)
        trial.set_user_attr("error", "none")
        study.tell(trial, 3.0)
    trial_dir(tmp_path, 0).mkdir(parents=True)
    path = tmp_path / "journal.log"
    lines = path.read_text().splitlines()
    texts = [
        "\n".join([*lines[:i], json.dumps(tree), *lines[i + 1 :], ""])
        for i, line in enumerate(lines)
        for tree in damaged(json.loads(line))
    ]
    require_short_of(path, texts, lambda: require_trials(tmp_path, run, SPACE))


DEPTHS = (101, 330, 480, 940, 980, 100_000)
COMMANDS = {
    "resume": ("resume=r", "total_env_steps=165"),
    "evaluate": ("mode=evaluate", "checkpoint=r", "test.episodes=1"),
    "config": ("config=r", "total_env_steps=10", "logger=[]"),
    "report": ("mode=report", "runs=r", "report.resamples=20"),
    "sweep": ("resume=s",),
    "dataset": ("env=two_step", "dataset.read=d", "total_env_steps=10", "logger=[]"),
    "study": ("mode=tune", "algo=dqn", "env=cartpole", "tune.dir=t"),
}
RUN = ("resume", "evaluate", "config", "report")
STEP = "checkpoints/162"
FILES = {
    **dict.fromkeys(("r/config.json", "r/run.json", "r/evaluation.json", "r/metrics.jsonl"), RUN),
    **dict.fromkeys((f"r/{STEP}/{name}.json" for name in ("manifest", "model", "trainer")), RUN),
    **dict.fromkeys((f"r/{STEP}/{name}.json" for name in ("config", "spec", "replay")), RUN),
    "s/sweep.json": ("sweep",),
    "d/dataset.json": ("dataset",),
    "t/study.json": ("study",),
}
"""Files of a run, a sweep, a dataset and a study, and what reads them."""


def deep(depth, kind):
    """JSON of this depth, which no encoder writes."""
    return "[" * depth + "]" * depth if kind == "list" else '{"a":' * depth + "1" + "}" * depth


def put_deep(path, text):
    """Add a key to an object in a JSON file, below the root."""
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.read_text().strip() if path.exists() else "{}"
    more = ", " if before != "{}" else ""
    path.write_text(f'{before[:-1]}{more}"deep": {text}}}\n')


@pytest.mark.usefixtures("figures_not_drawn")
@each_once(file=FILES, depth=DEPTHS, kind=["list", "object"])
def test_deep_json_is_answered_in_one_paragraph(trained_once, own_folder, file, depth, kind):
    path, text = own_folder / file, deep(depth, kind)
    for command in FILES[file]:
        shutil.rmtree("r", ignore_errors=True)
        shutil.copytree(trained_once, "r")
        put_deep(path, text)
        if path.name == "manifest.json":
            if depth < 400:
                manifest = json.loads(path.read_text())
                path.write_text(json.dumps(manifest | {"sha256": own_digest(manifest)}))
        elif path.parent.name.isdecimal():
            seal(path.parent, "full")
        try:
            code, said = run(COMMANDS[command]), ""
        except RltrainError as error:
            code, said = error.exit_code, str(error)
        assert code in (0, 2, 3)
        assert "\n" not in said
        assert len(said) < 1_000
        read = not file.startswith("r/") or (file == "r/config.json" and command != "evaluate")
        assert code or not read


@pytest.mark.parametrize("kind", ["list", "object"])
def test_the_depth_of_a_file_is_bounded(tmp_path, kind):
    path = tmp_path / "a.json"
    path.write_text(deep(DEEPEST, kind))
    get_json(path)
    path.write_text(deep(DEEPEST + 1, kind))
    with pytest.raises(ValueError, match=f"nested more than {DEEPEST} deep"):
        get_json(path)
