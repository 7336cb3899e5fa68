"""Python files in the current folder are someone else's: no process of a command imports them,
unless their names are typed. test_sweep.py says so of jobs."""

import os
import sys

import pytest

from rltrain import main as entry
from rltrain.common.imports import SAFE_PATH, import_path
from tests.helpers import foreign_modules, python

COMMAND = "from rltrain.__main__ import command\nif __name__ == '__main__':\n    command()\n"
TRAIN = "import sys, rltrain\nrltrain.train(sys.argv[1:])\n"
WORKERS = ["hardware=process", "hardware.n_workers=1", "test.n_workers=1"]
JOBLIB = ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]
STARTS = {
    "workers": (COMMAND, WORKERS),
    "workers of a script": (TRAIN, WORKERS),
    "ray": (COMMAND, ["hardware=ray", "hardware.n_workers=1"]),
    "trials": (COMMAND, ["mode=tune", "tune.trials=2", "tune.jobs=2"]),
    "joblib": (COMMAND, ["-m", "seed=1,2", *JOBLIB]),
}
"""What starts processes of Python: a script, and what is typed after it."""


@pytest.mark.slow
@pytest.mark.parametrize("start", STARTS)
def test_no_process_imports_from_the_present_folder_but_what_is_typed(tmp_path, small, start):
    if start in ("ray", "joblib"):
        pytest.importorskip(start)
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    executed = foreign_modules(here)
    (here / "mine.py").write_text("from rltrain.callback import Callback as Mine")
    elsewhere.mkdir()
    script = elsewhere / "script.py"  # whose folder is on the path, as that of the command is
    text, overrides = STARTS[start]
    script.write_text(text)
    line = [str(script), *small, "callbacks=[{_target_: mine.Mine}]", *overrides]
    env = {k: v for k, v in os.environ.items() if k != SAFE_PATH}
    result = python(*line, cwd=here, env=env)
    assert not executed.exists(), executed.read_text()
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("chosen", [True, False])
def test_processes_of_a_command_search_the_present_folder_only_if_the_user_chose_it(
    own_folder, monkeypatch, capsys, chosen
):
    monkeypatch.setattr(sys, "path", [""] * chosen + [p for p in sys.path if p])
    monkeypatch.setattr(sys, "argv", ["rltrain", "--version"])
    monkeypatch.setattr(entry.signal, "signal", lambda *_: None)
    monkeypatch.setenv(SAFE_PATH, "")
    with pytest.raises(SystemExit):
        entry.main()
    assert bool(os.environ[SAFE_PATH]) != chosen
    assert import_path() == ({} if chosen else {SAFE_PATH: "1"})
