"""Damaged and impossible rows are left out and named, whichever library wrote them."""

import io
import json
import os
import struct

import numpy as np
import pytest

from rltrain.report.readers import find_runs
from tests.report.runs import PYMARL, write_files, write_run

N = 30
CLEANRL = "CartPole-v1__dqn__1__1700000000/events.out.tfevents.1.host"
TABLES = {
    "0.monitor.csv": ('#{"env_id": "a"}\nr,l,t\n', "1,{0},5"),
    "sb3/progress.csv": ("time/total_timesteps,rollout/ep_rew_mean\n", "{0},1"),
    "rllib/progress.csv": (
        "training_iteration,time_total_s,timesteps_total,episode_reward_mean,date\n",
        "1,1,{0},1,today",
    ),
    "result.json": (
        "",
        '{{"training_iteration": 1, "time_total_s": 1, "timesteps_total": {0}, '
        '"episode_reward_mean": 1}}',
    ),
    "metrics.jsonl": ("", '{{"env_steps": {0}, "train/return_mean": 1}}'),
}
"""Files by what is before their rows, and a row with its env steps."""
DAMAGES = {
    "a quote": lambda row: f'"{row}',
    "garbage": lambda row: "garbage",
    "zeros": lambda row: "\0" * 30,
    "half a row": lambda row: row[: len(row) // 2 - 2],
    "a text": lambda row: row.replace("16", '"x"'),
    "too large": lambda row: row.replace("16", "1e200"),
    "negative": lambda row: row.replace("16", "-16"),
    "a fraction": lambda row: row.replace("16", "16.5"),
    "a key twice": lambda row: f'{row[:-1]}, "x": 1, "x": 2}}',
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", TABLES)
def test_a_damaged_row_is_named_and_left_out(tmp_path, name, damage):
    """Defect: a table with one open quote was a run without metrics or a remark."""
    folder = write_run(tmp_path / "run") if name == "metrics.jsonl" else tmp_path / "run"
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    head, row = TABLES[name]
    rows = [row.format(n) for n in range(1, N + 1)]
    path.write_text(head + "".join(f"{row}\n" for row in rows), encoding="utf-8")
    (whole,) = find_runs([folder], [])
    assert not whole.problems
    rows[15] = DAMAGES[damage](rows[15])
    path.write_text(head + "".join(f"{row}\n" for row in rows), encoding="utf-8")
    (run,) = find_runs([folder], [])
    (problem,) = run.problems
    at = 16 + head.count("\n")
    named = f"lines of {path.name} that cannot be read are left out: {at}"
    assert problem in (named, *(f"rows that are impossible are left out: env_steps={x}" for x in (
        "-16", "16.5",
    )))  # fmt: skip
    episodes = run.columns.get("episodes", np.array([len(run.series("train/return_mean")[0])]))
    assert episodes[-1] == N - 1


NOTES = ['"a\nb"', '"\n\n"', '"say ""a,b""\n"', '"a\r\nb"']
"""Cells of more than one line."""


@pytest.mark.parametrize("damaged", [False, True])
def test_cells_may_span_lines(tmp_path, damaged):
    """Defect: their rows were named as damaged."""
    path = tmp_path / "sb3/progress.csv"
    path.parent.mkdir()
    rows = [f"{n},1,{NOTES[n % len(NOTES)] if n % 3 else 'plain'}" for n in range(1, N + 1)]
    at = 2 + sum(row.count("\n") + 1 for row in rows[:16])
    if damaged:
        rows[16] = '17,1,"open'
    text = "\n".join(["time/total_timesteps,rollout/ep_rew_mean,notes", *rows, ""])
    path.write_text(text, encoding="utf-8", newline="")
    (run,) = find_runs([tmp_path], [])
    expected = f"lines of progress.csv that cannot be read are left out: {at}"
    assert run.problems == [expected] * damaged
    assert len(run.series("train/return_mean")[0]) == N - damaged


def record(body, size=None):
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    head = struct.pack("<Q", len(body) if size is None else size)
    checks = [struct.pack("<I", masked_crc32c(part)) for part in (head, body)]
    return head + checks[0] + body + checks[1]


def event(step, value=1.0, **about):
    from tensorboard.compat.proto.event_pb2 import Event

    made = Event(wall_time=1.0, step=step)
    made.summary.value.add(tag="charts/episodic_return", simple_value=value, **about)
    return made.SerializeToString()


def test_damaged_records_of_events_are_named(tmp_path):
    """Defect: what followed a damaged one was cut silently; 30 MiB took 15 s."""
    pytest.importorskip("tensorboard")
    path = tmp_path / CLEANRL
    path.parent.mkdir()
    good = [record(event(n)) for n in range(1, N + 1)]
    for what, bad in {
        "a sum": good[15][:20] + b"\xff" * 4 + good[15][24:],
        "a large scalar": record(event(16, node_name="x" * 5_000)),
        "a large record": record(b"", 1 << 25)[:12] + bytes((1 << 25) + 4),
    }.items():
        path.write_bytes(b"".join([*good[:15], bad, *good[16:]]))
        (run,) = find_runs([tmp_path], [])
        assert run.problems == [f"records of {path.name} that cannot be read are left out: 16"]
        assert len(run.series("train/return_mean")[0]) == N - 1, what
    path.write_bytes(b"".join(good) + good[0][:20])
    (run,) = find_runs([tmp_path], [])
    assert not run.problems
    path.write_bytes(b"".join([*good[:15], bytes(30), *good[16:]]))
    write_run(tmp_path / "good")
    problems = []
    assert [run.folder.name for run in find_runs([tmp_path], problems)] == ["good"]
    assert "is left out, since it cannot be read: ValueError: a record" in problems[0]


@pytest.mark.parametrize("name", [*TABLES, CLEANRL])
def test_files_that_are_too_large_are_not_read(tmp_path, name):
    """Defect: an empty one of 3 GB took a minute."""
    if name == CLEANRL:
        pytest.importorskip("tensorboard")
    folder = write_run(tmp_path / "runs/bad") if name == "metrics.jsonl" else tmp_path / "runs/bad"
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(TABLES.get(name, [""])[0], encoding="utf-8")
    os.truncate(folder / name, 1 << 40)
    write_run(tmp_path / "runs/good")
    problems = []
    assert [run.folder.name for run in find_runs([tmp_path / "runs"], problems)] == ["good"]
    assert "is larger than 1,073,741,824 bytes" in problems[0]


IMPOSSIBLE = [
    *([name, value] for name in ("env_steps", "updates", "episodes") for value in (-402, 1.5)),
    *([f"{group}/win_rate{of}", x] for group in ("test", "train") for of in ("", "/a") for x in (
        -0.1, 7,
    )),
    *(["test/draw_rate", 1.1], ["train/episode_length_mean", -3], ["seconds", -1]),
]  # fmt: skip


@pytest.mark.parametrize(("metric", "value"), IMPOSSIBLE)
def test_an_impossible_row_is_left_out_alone(tmp_path, metric, value):
    """Defect: the rows before one with negative env steps were dropped."""
    folder = write_run(tmp_path / "r", values=range(N))
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    rows[15][metric] = value
    (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (run,) = find_runs([folder], [])
    assert run.problems == [f"rows that are impossible are left out: {metric}={value}"]
    assert len(run.series("test/return_mean")[0]) == N - 1


@pytest.mark.parametrize("values", [[1, 7, 0], [1, -3, 0], [1, "x", 0], [1, {"a": 1}, 0], [1, 0]])
def test_damaged_values_of_pymarl_are_named(tmp_path, values):
    info = {"test_battle_won_mean": values, "test_battle_won_mean_T": [1, 2, 3]}
    write_files(tmp_path / "1", {"config.json": PYMARL, "info.json": info})
    (run,) = find_runs([tmp_path], [])
    assert len(run.problems) == 1
    assert run.series("test/win_rate")[1].tolist() == [1, 0]


ARRAYS = {"timesteps": [1, 2], "results": [[1.0], [2.0]], "ep_lengths": [[1], [2]]}
ODD = [
    *(("timesteps", x) for x in ([1, 1e300], [1, 2.0], [1, -2], [1, 2j])),
    ("timesteps", np.array(["2020", "2021"], "datetime64[Y]")),
    *(("results", x) for x in ([[1.0], [1e300]], [[1], [2j]], [[1.0], [np.inf]])),
    *(("ep_lengths", [[1], [-2]]), ("successes", [[1], [7]])),
]


@pytest.mark.parametrize(("name", "values"), ODD)
def test_odd_tests_of_stable_baselines3_are_named(tmp_path, name, values):
    file = io.BytesIO()
    np.savez(file, **{**ARRAYS, name: values})
    (tmp_path / "evaluations.npz").write_bytes(file.getvalue())
    (run,) = find_runs([tmp_path], [])
    assert len(run.problems) == 1
    assert len(run.columns.get("env_steps", ())) < 2
