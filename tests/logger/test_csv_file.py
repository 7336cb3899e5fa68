"""metrics.csv, the rows of metrics.jsonl as a table; what a spreadsheet or a terminal would take
for a command is text in every CSV file.
"""

import csv
import json

import pytest

from rltrain.logger.loggers import Loggers
from rltrain.logger.metric_files import CsvFile, JsonLines, csv_text
from rltrain.mode.sweep.plan import SweepJob
from rltrain.mode.sweep.summary import results_text
from rltrain.report.report_tables import Table, as_csv
from rltrain.types import Clock


@pytest.fixture
def loggers(tmp_path):
    return Loggers([JsonLines(tmp_path / "metrics.jsonl"), CsvFile(run_dir=tmp_path)])


def table(folder):
    return list(csv.DictReader((folder / "metrics.csv").open()))


def test_every_row_is_there_and_new_metrics_become_columns(loggers, tmp_path):
    loggers.write(Clock(1), 0.5, {"a": 1.0})
    loggers.write(Clock(2), 1.5, {"a": float("nan")})
    loggers.write(Clock(3), 2.5, {"b": 3.0})
    loggers.write(Clock(4), 3.5, {"a": 4.0, "b": 5.0})
    rows = table(tmp_path)
    assert [row["env_steps"] for row in rows] == ["1", "2", "3", "4"]
    assert [row["a"] for row in rows] == ["1.0", "", "", "4.0"]
    assert ([row["b"] for row in rows], rows[0]["seconds"]) == (["", "", "3.0", "5.0"], "0.5")


def test_a_resumed_run_has_no_rows_after_its_checkpoint(loggers, tmp_path):
    loggers.write(Clock(1), 0.5, {"a": 1.0})
    state = loggers.state_dict()
    loggers.write(Clock(2), 1.5, {"a": 2.0})
    again = Loggers([JsonLines(tmp_path / "metrics.jsonl"), CsvFile(run_dir=tmp_path)])
    for each in (again, loggers):  # in another process, and in the same one
        each.load_state_dict(state)
        each.write(Clock(3), 2.5, {"a": 3.0})
        assert [row["env_steps"] for row in table(tmp_path)] == ["1", "3"]


def of_a_run(folder, text):
    row = {"env_steps": 1, "updates": 0, "episodes": 0, "seconds": 0.5, text: 1.0}
    (folder / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    CsvFile(run_dir=folder).write(Clock(1), 0.5, {text: 1.0})
    return (folder / "metrics.csv").read_text()


def of_a_sweep(folder, text):
    job = SweepJob(folder / "0", (text,))
    job.folder.mkdir()
    test = {"env_steps": 1, text: 2.0}
    (job.folder / "run.json").write_text(json.dumps({"status": text, "final_test": test}))
    return results_text([job])


def of_a_study(folder, text):
    study_results = pytest.importorskip("rltrain.mode.tune.study_results")
    optuna = pytest.importorskip("optuna")
    fail = optuna.trial.TrialState.FAIL
    kinds = {text: optuna.distributions.CategoricalDistribution([text])}
    trial = optuna.trial.create_trial(
        state=fail, user_attrs={"error": text}, params={text: text}, distributions=kinds
    )
    trial.number = 0
    study_results.write_trials(folder, None, [trial])
    return (folder / "trials.csv").read_text()


def of_a_report(folder, text):
    return as_csv(Table("t", "", ["a", text], [[text, 1.0]]))


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@a", "\t=1", "\r=1", " =1", "a\x1b[31m\u202e"]
)
@pytest.mark.parametrize("made", [of_a_run, of_a_sweep, of_a_study, of_a_report])
def test_text_is_text_in_every_table(tmp_path, made, text):
    written = made(tmp_path, text)
    assert "\x1b" not in written
    assert "\u202e" not in written
    cells = [cell for row in csv.reader(written.splitlines()) for cell in row]
    assert any("1" in cell or "a" in cell for cell in cells)
    assert not any(cell.strip().startswith(("=", "+", "-", "@")) for cell in cells)


def test_numbers_have_all_digits():
    found = csv_text([["a"], [0.1 + 0.2], [float("nan")], [None], [-1]])
    assert found.splitlines() == ["a", "0.30000000000000004", '""', '""', "-1"]
