import sys

import pytest

import rltrain
from rltrain.errors import UsageError
from tests.report.runs import write_run


def test_metrics_of_many_runs_as_a_dataframe(tmp_path):
    pytest.importorskip("pandas")
    for seed in (1, 2):
        write_run(tmp_path / f"run{seed}", seed=seed, values=[0, seed])
    frame = rltrain.load_runs(tmp_path)
    last = frame[frame.env_steps == 100].set_index("seed")["test/return_mean"]
    assert last.to_dict() == {1: 1.0, 2: 2.0}
    assert set(frame.label) == {"dqn"}


def test_without_pandas_the_command_that_installs_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match=r"-m pip install .*pandas"):
        rltrain.load_runs(tmp_path)


def test_runs_without_rows_have_all_columns_but_metrics(tmp_path):
    """Defect: those of the clock were missing."""
    pytest.importorskip("pandas")
    write_run(tmp_path / "run", values=[])
    frame = rltrain.load_runs(tmp_path)
    assert len(frame) == 0
    assert {"label", "run", "env_steps", "updates", "episodes", "seconds"} <= set(frame.columns)
