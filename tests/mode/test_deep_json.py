"""JSON that is nested too deep for what reads it, in any file that a command reads."""

import json
import shutil

import pytest

from rltrain.common.checkpoint.run_checkpoints import own_digest, seal
from rltrain.common.files import DEEPEST, get_json
from rltrain.errors import RltrainError
from rltrain.main import run
from tests.marks import each_once

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
