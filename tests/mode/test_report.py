import csv
import itertools
import json
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from rltrain.common.machine import places
from rltrain.errors import UsageError
from rltrain.main import run
from rltrain.report.page import FIGURES
from tests.helpers import python
from tests.report.runs import write_run


@pytest.fixture
def runs(tmp_path):
    for algo, gain in (("dqn", 1), ("pqn", 2)):
        for seed in range(5):
            folder = tmp_path / "outputs" / algo / f"run{seed}"
            write_run(folder, algo, seed=seed, values=[0, gain * (1 + seed)])
    return tmp_path


def table_rows(name):
    """The rows of a table of the report in ``here``."""
    with Path(f"here/tables/{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_report_of_runs_with_ratings_of_self_play(runs, capsys):
    battles = {"0": {"0": [5, 2, 3]}, "100": {"0": [8, 1, 1], "100": [5, 0, 5]}}
    (runs / "outputs/dqn/run0/self_play.json").write_text(json.dumps(battles))
    assert run(["mode=report", "runs=outputs", "report.dir=here", "report.resamples=50"]) == 0
    rows = table_rows("final_scores")
    means = {row["configuration"]: float(row["mean [95% interval]"]) for row in rows}
    assert (means, len(rows)) == ({"dqn": 3.0, "pqn": 6.0}, 2)
    rows = table_rows("self_play")
    assert [(r["configuration"], r["env steps"]) for r in rows] == [("dqn", "0"), ("dqn", "100")]
    assert float(rows[0]["rating"]) < float(rows[1]["rating"])
    assert "ratings over training time" in (runs / "here/report.html").read_text(encoding="utf-8")
    drawn = ("figures/curves.pdf", "figures/self_play.svg")
    for path in ("report.html", *drawn, "tables/improvement.tex"):
        assert (runs / "here" / path).stat().st_size > 100
    table = (runs / "here/tables/runs.csv").read_text(encoding="utf-8")
    assert "outputs/dqn/run0" in table
    assert str(runs) not in table
    printed = capsys.readouterr().out
    assert "10 runs of 2 configurations on 1 environment" in printed
    assert "here/report.html" in printed


@pytest.mark.slow
def test_report_of_a_list_of_patterns(runs, capsys):
    assert run(["mode=report", "runs=[outputs/d*, outputs/pqn/run1]", "report.resamples=50"]) == 0
    assert "6 runs of 2 configurations" in capsys.readouterr().out
    assert len(list((runs / "outputs/report").glob("*/report.html"))) == 1


@pytest.mark.usefixtures("figures_not_drawn")
def test_published_values_stand_beside_runs(runs, capsys):
    """On the environments of the runs, and in no comparison."""
    words = ["mode=report", "report.dir=here", "report.resamples=50"]
    assert run([*words, "runs=[outputs, published/zoo, published/cleanrl]"]) == 0
    assert "10 runs of 2 configurations on 1 environment" in capsys.readouterr().out
    rows = {row["configuration"]: row for row in table_rows("final_scores")}
    assert float(rows["dqn (rl-zoo3)"]["mean [95% interval]"]) == 500
    assert {row["environment"] for row in rows.values()} == {"CartPole-v1"}
    assert [(row["X"], row["Y"]) for row in table_rows("improvement")] == [("pqn", "dqn")]
    assert all(row["source"] for row in table_rows("published"))


@pytest.mark.parametrize("table", ["smac", "smacv2", "zoo", "cleanrl", "epymarl", "minatar"])
@pytest.mark.usefixtures("figures_not_drawn")
def test_every_published_table_is_a_report(runs, table):
    assert run(["mode=report", f"runs=published/{table}", "report.resamples=50"]) == 0


@pytest.mark.parametrize("name", ["", "tables", "figures"])
@pytest.mark.usefixtures("figures_not_drawn")
def test_a_folder_of_a_report_that_cannot_be_written_is_named(runs, monkeypatch, name):
    """Defect: the exit code of a bug, with a part of the new report written."""
    words = ["mode=report", "runs=outputs", "report.resamples=50", "report.dir=here"]
    assert run(words) == 0
    (runs / "here/figures").mkdir()
    before = (runs / "here/report.html").stat().st_mtime_ns

    def forbidden(dir):
        if dir == runs / "here" / name:
            raise PermissionError(13, "Permission denied")
        return TemporaryFile(dir=dir)

    monkeypatch.setattr(places, "TemporaryFile", forbidden)
    with pytest.raises(UsageError, match=f"here/?{name} cannot be written: Permission denied"):
        run(words)
    assert (runs / "here/report.html").stat().st_mtime_ns == before


@pytest.mark.usefixtures("figures_not_drawn")
def test_a_rewritten_report_has_no_files_of_the_one_before(runs):
    """Defect: tables and figures of a comparison lay beside the page of a single configuration."""
    words = ["mode=report", "report.resamples=50", "report.dir=here"]
    assert run([*words, "runs=outputs"]) == 0
    assert (runs / "here/tables/improvement.csv").exists()
    (runs / "here/figures").mkdir()
    for name, form in itertools.product(FIGURES, ("png", "svg", "pdf")):
        (runs / f"here/figures/{name}.{form}").write_text("of the one before")
    foreign = {"notes.txt", "tables/mine.csv", "figures/mine.svg", "figures/improvement.txt"}
    for own in foreign:
        (runs / "here" / own).write_text("mine")
    for left in (".report.html.7", "tables/.runs.csv.7", "tables/.runs.tex.7", "figures/.x.png.7"):
        (runs / "here" / left).write_text("of a report that was killed")
    assert run([*words, "runs=outputs/dqn"]) == 0
    names = ("final_scores", "sample_efficiency", "runs")
    tables = {f"tables/{name}.{form}" for name in names for form in ("csv", "tex")}
    found = {path.relative_to(runs / "here").as_posix() for path in (runs / "here").rglob("*.*")}
    (runs / "new").mkdir()
    (runs / "new/.report.html.7").write_text("of a report that was killed")
    assert run([*words[:2], "report.dir=new", "runs=outputs/dqn"]) == 0
    assert found == {"report.html"} | tables | foreign


@pytest.mark.slow
def test_torch_is_not_needed(runs):
    code = (
        "import sys; from rltrain.main import run; run(sys.argv[1:]); "
        "sys.exit('torch' in sys.modules)"
    )
    python("-c", code, "mode=report", "runs=outputs/dqn/run0", check=True)


@pytest.mark.usefixtures("figures_not_drawn")
def test_labels_may_have_brackets_and_a_file_that_a_pattern_matches_adds_no_runs(runs, capsys):
    """Defects: they were read as markup, and [/…] ended in a traceback; it stood for its folder."""
    (runs / "outputs/dqn-notes.txt").touch()
    words = ["mode=report", "runs=outputs/dqn*", "report.resamples=50"]
    assert run([*words, 'report.rename=["dqn -> DQN [/ours]"]']) == 0
    out = capsys.readouterr().out
    assert "DQN [/ours]" in out
    assert "5 runs of 1 configuration" in out
