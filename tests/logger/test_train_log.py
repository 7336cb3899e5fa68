"""Messages: all in train.log, notices and warnings on the screen, wrapped at words."""

import ast
import io
import logging
from pathlib import Path

import pytest
from rich.console import Console

import rltrain
from rltrain.logger.train_log import NOTICE, TrainLog, log, train_log
from rltrain.types import Clock

LONG = "the exploration changes until env step 50,000, but the run ends at 12,000 env steps"


def test_errors_and_tracebacks_are_in_the_file_only(tmp_path, capsys):
    with train_log(Console(quiet=True)) as keep_in:
        keep_in(tmp_path)
        log.info("played")
        log.log(NOTICE, "stopping")
        log.warning("slow [sic]")
        log.error("broken")
        log.warning("failed", exc_info=ValueError("why"))
    printed = capsys.readouterr().err.splitlines()
    assert printed == ["stopping", "warning: slow [sic]", "warning: failed"]
    text = (tmp_path / "train.log").read_text()
    assert all(word in text for word in ("played", "stopping", "slow [sic]", "broken", "why"))


@pytest.mark.parametrize("terminal", [False, True])
def test_warnings_wrap_at_words_in_a_terminal_only(terminal, monkeypatch, tmp_path, capsys):
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")  # makes rich see a terminal
    out = io.StringIO()
    with train_log(Console(file=out, width=40, highlight=False)) as keep_in:
        keep_in(tmp_path)
        log.warning(LONG)
    shown, errors = out.getvalue(), capsys.readouterr().err
    assert (shown == "") != terminal  # beside a live panel, both are one console
    lines = (shown or errors).splitlines()
    assert " ".join(line.strip() for line in lines) == f"warning: {LONG}"
    assert len(lines) == (3 if terminal else 1)


def test_rows_are_one_short_line_each(tmp_path):
    row = {"test/return_mean": 12.5, "test/return_std": 3.0, "custom/angle": 0.25}
    with train_log(Console(quiet=True)) as keep_in:
        keep_in(tmp_path)
        TrainLog().write(Clock(12_000, 2, 1), 1.5, row)
    (line,) = (tmp_path / "train.log").read_text().splitlines()
    assert line.endswith("INFO 12,000 env steps: test return 12.50, angle 0.25")


@pytest.mark.parametrize("name", ["rltrain", "rltrain.own"])
def test_control_characters_are_escaped_of_every_logger(name, tmp_path, capsys):
    with train_log(Console(quiet=True)) as keep_in:
        keep_in(tmp_path)
        logging.getLogger(name).warning("\x1b[2Jgone %s", "\x07")
    for text in (capsys.readouterr().err, (tmp_path / "train.log").read_text()):
        assert "\\x1b[2Jgone \\x07" in text
        assert not set(text) & {"\x1b", "\x07"}


def test_the_package_has_one_logger():
    """Filters of a logger are not those of the ones below it, such as ``rltrain.env``."""
    for path in Path(rltrain.__file__).parent.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "getLogger" in text else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("getLogger"):
                assert ast.unparse(node.args[0]) != "__name__", path
