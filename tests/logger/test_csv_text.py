"""What a spreadsheet or a terminal would take for a command is text in every CSV file."""

import csv
import json

import pytest

from rltrain.logger.csv_file import CsvFile, csv_text
from rltrain.mode.sweep.plan import SweepJob
from rltrain.mode.sweep.summary import results_text
from rltrain.report.report_tables import Table, as_csv
from rltrain.types import Clock


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
