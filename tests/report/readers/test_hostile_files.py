"""One bad file among many is named and left out, whatever is in it and whoever reads it."""

import io
import json
import os
import zipfile

import numpy as np
import pytest

from rltrain.errors import CheckpointError, UsageError
from rltrain.report.readers import find_runs
from tests.helpers import python
from tests.report.runs import PYMARL
from tests.report.runs import write_files as write

CONFIG = {"choices": {"algo": "dqn", "env": "cartpole"}, "env": {}, "seed": 1}
ROWS = [{"env_steps": n, "test/return_mean": float(n)} for n in (0, 10, 20)]
RESULTS = [
    {"training_iteration": n, "time_total_s": n, "timesteps_total": n, "episode_reward_mean": n}
    for n in (1, 2)
]
SERIES = {"return_mean": {"steps": [1, 2], "values": [1.0, 2.0], "timestamps": []}}
TABLE = "time/total_timesteps,rollout/ep_rew_mean\n1,1\n2,2\n"
REPORT = ("mode=report", "runs=runs", "report.dir=out", "report.resamples=20")
MONITOR = '#{"env_id": "CartPole-v1"}\nr,l,t\n1,2,3\n'


def npz(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def claiming(n):
    """An archive whose array says that it has n numbers."""
    header = io.BytesIO()
    about = {"descr": "<f8", "fortran_order": False, "shape": (n,)}
    np.lib.format.write_array_header_1_0(header, about)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in ("timesteps", "results", "ep_lengths"):
            archive.writestr(f"{name}.npy", header.getvalue() + bytes(8))
    return file.getvalue()


TESTS = {"timesteps": np.arange(2), "results": np.ones((2, 3)), "ep_lengths": np.ones((2, 3))}
FILES = {
    "rltrain": {
        "config.json": json.dumps(CONFIG),
        "run.json": '{"status": "finished"}',
        "metrics.jsonl": "\n".join(map(json.dumps, ROWS)),
    },
    "pymarl": {
        "config.json": json.dumps(PYMARL),
        "run.json": "{}",
        "info.json": '{"return_mean": [1, 2], "return_mean_T": [1, 2]}',
        "metrics.json": json.dumps(SERIES),
    },
    "rllib": {"result.json": "\n".join(map(json.dumps, RESULTS)), "params.json": "{}"},
    "rllib tables": {"progress.csv": "training_iteration,time_total_s,timesteps_total\n1,1,1\n"},
    "sb3": {"progress.csv": TABLE, "monitor.csv": MONITOR, "evaluations.npz": npz(**TESTS)},
    "cleanrl": {"events.out.tfevents.1.host": b""},
}
"""Whole results of every library."""
LARGE = "1" * 401
PAYLOADS = {
    "nothing": b"",
    "zeros": bytes(5000),
    "no text": bytes(range(256)) * 20,
    "a list": b"[1, 2]\n",
    "null": b"null\n",
    "a text": b'"text"\n',
    "deep": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "a deep cell": b'#{"env_id": ' + b"[" * 100_000 + b"\nr,l,t\n1,2,3\n",
    "a cell of a megabyte": b"r,l,t\n" + b"1" * (1 << 20) + b",2,3\n",
    "arrays of other lengths": npz(**{**TESTS, "results": np.ones((5, 3))}),
    "arrays without axes": npz(**dict.fromkeys(TESTS, np.float64(1))),
    "arrays of objects": npz(**dict.fromkeys(TESTS, np.array([{}], dtype=object))),
    "arrays of text": npz(**dict.fromkeys(TESTS, np.array(["a"]))),
    "128 GB": claiming(1 << 34),
    "a tape": claiming(1 << 60),
}
VALUES = {
    "401 digits": int(LARGE),
    "largest": 1e308,
    "smallest": -1e308,
    "null": None,
    "a list": [1],
    "an object": {"a": 1},
    "a text": "text",
    "a long text": "long" * 25_000,
    "a surrogate": "\ud800",
    "an escape": "\x1b[31m",
    "true": True,
    "infinity": float("inf"),
}


def replaced(tree, value):
    """Every tree in which one node is another value, at most three levels down."""
    if isinstance(tree, dict):
        for key, node in tree.items():
            yield {**tree, key: value}
            for other in replaced(node, value):
                yield {**tree, key: other}
    elif isinstance(tree, list):
        for at, node in enumerate(tree):
            yield [*tree[:at], value, *tree[at + 1 :]]
            for other in replaced(node, value):
                yield [*tree[:at], other, *tree[at + 1 :]]


def hostile(value):
    """Files with a value in place of every node of their JSON, by name."""
    for library, files in FILES.items():
        for name, content in files.items():
            if name.endswith((".json", ".jsonl")):
                lines = [json.loads(line) for line in content.splitlines()]
                for at, line in enumerate(lines):
                    for node in [value, *replaced(line, value)]:
                        new = [*lines[:at], node, *lines[at + 1 :]]
                        text = "\n".join(map(json.dumps, new))
                        yield library, {**files, name: text}
            elif name.endswith(".csv"):
                for cell in ("1", "2"):
                    yield library, {**files, name: content.replace(cell, str(value))}


def good_and(tmp_path):
    """The runs below a folder where one is good; the messages about the others."""
    problems: list[str] = []
    runs = find_runs([tmp_path], problems)
    assert any(run.folder.name == "good" for run in runs)
    for run in runs:
        sizes = {len(column) for column in run.columns.values()}
        assert len(sizes) <= 1
        run.metric("return_mean")
    return runs, problems


@pytest.mark.parametrize("kind", PAYLOADS)
@pytest.mark.parametrize("library", FILES)
def test_another_content_ends_nothing(tmp_path, library, kind):
    write(tmp_path / "good", FILES["rltrain"])
    for name in FILES[library]:
        write(tmp_path / f"bad {name}", {**FILES[library], name: PAYLOADS[kind]})
    _, problems = good_and(tmp_path)
    assert all("is left out" in problem and "bad" in problem for problem in problems)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("kind", VALUES)
def test_another_value_ends_nothing(tmp_path, kind):
    write(tmp_path / "good", FILES["rltrain"])
    for number, (library, files) in enumerate(hostile(VALUES[kind])):
        write(tmp_path / f"bad {library} {number}", files)
    good_and(tmp_path)


@pytest.mark.parametrize(
    ("kind", "every"),
    [("largest", 48), *(pytest.param(k, 4, marks=pytest.mark.slow) for k in list(VALUES)[1:])],
)
def test_a_report_of_other_values_is_written(command, tmp_path, kind, every):
    write(tmp_path / "runs/good", FILES["rltrain"])
    for number, (_, files) in enumerate(hostile(VALUES[kind])):
        if number % every == 0:
            write(tmp_path / f"runs/bad{number}", files)
    assert command(*REPORT, "report.unfinished=true", "report.metric=return_mean") == 0
    assert (tmp_path / "out/report.html").exists()


@pytest.mark.parametrize("kind", ["pipe", "device", "link", "folder", "sparse"])
@pytest.mark.parametrize("library", FILES)
def test_what_is_no_plain_file_is_not_waited_for(tmp_path, library, kind):
    write(tmp_path / "good", FILES["rltrain"])
    for name in FILES[library]:
        if kind == "sparse" and name != "metrics.jsonl":
            continue
        write(tmp_path / f"bad {name}", FILES[library])
        path = tmp_path / f"bad {name}" / name
        path.unlink()
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "device":
            path.symlink_to("/dev/zero")
        elif kind == "link":
            write(tmp_path / "outside" / name, {"file": FILES[library][name]})
            path.symlink_to(tmp_path / "outside" / name / "file")
        elif kind == "folder":
            path.mkdir()
        else:
            path.touch()
            os.truncate(path, 1 << 28)
    runs, problems = good_and(tmp_path)
    if kind in ("pipe", "device", "link"):
        assert [run.folder.name for run in runs] == ["good"]
        assert len(problems) == len(FILES[library])
        assert all("is not a regular file" in problem for problem in problems)


def test_a_run_with_a_new_metric_in_every_row_is_left_out(tmp_path, monkeypatch):
    """Defect: a file of 600 KB took 3 GB."""
    monkeypatch.setattr("rltrain.report.run_data.CELLS", 1_000)
    rows = [json.dumps({"env_steps": n, f"m{n}": 1}) for n in range(100)]
    write(tmp_path / "good", FILES["rltrain"])
    write(tmp_path / "bad", FILES["rltrain"] | {"metrics.jsonl": "\n".join(rows)})
    runs, (problem,) = good_and(tmp_path)
    assert [run.folder.name for run in runs] == ["good"]
    assert "its 32 rows have 33 columns" in problem


@pytest.mark.sampled(1)
@pytest.mark.parametrize("text", ["x" * 10_000, "x " * 2_500, "x\n" * 2_500])
@pytest.mark.parametrize("drawn", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_long_names_leave_a_report_readable(request, command, tmp_path, capsys, text, drawn):
    if not drawn:  # tests/report/test_figures.py draws one
        request.getfixturevalue("figures_not_drawn")
    for number, (_, files) in enumerate(hostile(text)):
        write(tmp_path / f"runs/bad{number}", files)
    row = json.dumps({"env_steps": 30, text: 1.0})
    metrics = {"metrics.jsonl": f"{FILES['rltrain']['metrics.jsonl']}\n{row}"}
    write(tmp_path / "runs/good", FILES["rltrain"] | metrics)
    assert command(*REPORT) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) < 1_000 for line in lines)
    assert len(lines) < 31 + 3 * sum("Warning: " in line for line in lines)
    with pytest.raises(UsageError) as found:
        command(*REPORT, "report.metric=other")
    assert len(str(found.value)) < 3_000


@pytest.mark.usefixtures("figures_not_drawn")
@pytest.mark.parametrize("at", ["recordings", "recordings/5", "wandb/x", "checkpoints/1/a.json"])
@pytest.mark.parametrize("kind", ["link", "nowhere", "pipe"])
def test_a_run_with_a_link_in_it_is_left_out_and_named(command, tmp_path, at, kind):
    write(tmp_path / "runs/good", FILES["rltrain"])
    write(tmp_path / "runs/bad", FILES["rltrain"])
    write(tmp_path / "elsewhere/5", {"episodes-1.html": "secret"})
    path = tmp_path / "runs/bad" / at
    path.parent.mkdir(parents=True, exist_ok=True)
    place = tmp_path / ("elsewhere" if kind == "link" else "nowhere")
    os.mkfifo(path) if kind == "pipe" else path.symlink_to(place)
    assert command(*REPORT) == 0
    page = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert "runs/bad is left out" in page
    assert f"bad/{at} is a" in page
    assert "it.." not in page
    assert "href" not in page


@pytest.mark.usefixtures("figures_not_drawn")
def test_links_of_a_report_that_is_written_again_are_refused(command, tmp_path):
    write(tmp_path / "runs/good", FILES["rltrain"])
    assert command(*REPORT) == 0
    (tmp_path / "mine").write_text("kept")
    (tmp_path / "out/tables/final_scores.csv").unlink()
    (tmp_path / "out/tables/final_scores.csv").symlink_to(tmp_path / "mine")
    with pytest.raises(CheckpointError, match="is a link to"):
        command(*REPORT)
    assert (tmp_path / "mine").read_text() == "kept"


@pytest.mark.usefixtures("figures_not_drawn")
def test_a_run_that_is_left_out_is_named_in_the_report(command, tmp_path, capsys):
    write(tmp_path / "runs/good", FILES["rltrain"])
    config = json.dumps({**CONFIG, "env": [1]})
    write(tmp_path / "runs/bad", {**FILES["rltrain"], "config.json": config})
    assert command(*REPORT) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "runs/bad is left out, since it cannot be read: AttributeError" in said
    assert "is left out" in (tmp_path / "out/report.html").read_text(encoding="utf-8")


MEASURE = """
import resource, sys
from rltrain.report.readers import find_runs
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
(run,) = find_runs([sys.argv[1]])
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(len(run.columns["env_steps"]), (after - before) * 1024)
"""


@pytest.mark.slow
def test_rows_cost_the_bytes_of_their_numbers(tmp_path):
    """20 columns of 8 bytes; the text of a row has 600."""
    n = 100_000
    names = [f"learn/metric_{i}_with_a_long_name" for i in range(18)]
    row = dict.fromkeys(names, 0.123456789)
    lines = (json.dumps({"env_steps": i, "seconds": i / 10, **row}) for i in range(n))
    write(tmp_path / "run", {**FILES["rltrain"], "metrics.jsonl": "\n".join(lines)})
    done = python("-c", MEASURE, str(tmp_path), check=True)
    rows, n_bytes = map(int, done.stdout.split())
    assert rows == n
    assert n_bytes < 260 * n
