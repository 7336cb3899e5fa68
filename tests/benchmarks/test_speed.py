"""Programs are measured in turns, results are written, compared and explained."""

import copy
import json
from dataclasses import replace

import pytest

from benchmarks import __main__ as bench
from benchmarks.speed import growth, turns
from benchmarks.speed.cases import GROUPS
from benchmarks.speed.programs import Peers
from benchmarks.speed.report import load, markdown, regressions
from benchmarks.speed.turns import Case, Program, Round, measure, summary

TRIVIAL = "tests.benchmarks.trivial"


def case(*names):
    programs = [Program(name, f"{TRIVIAL}:add", {"n": 1000}) for name in names]
    return Case(name="addition", group="loop", unit="env step", programs=programs, work=3)


def results(cost=1.0):
    """A run with one case, in which rltrain costs so many yardsticks."""
    rounds = [Round(work=1, cpu=cost, wall=cost, peak_mb=10)] * 2
    fixed = [Round(work=1, cpu=1.0, wall=1.0, peak_mb=10)] * 2
    taken = {"rltrain": rounds, "peer": rounds, "yardstick": fixed}
    about = {"format": 1, "date": "", "version": "1", "git_commit": "a", "matrix_rate": {}}
    machine = {"cpu": "one", "cores": 1, "load": 0.0}
    return {**about, "machine": machine, "cases": [summary(case("rltrain", "peer"), taken)]}


def test_two_programs_are_measured_in_turns(monkeypatch):
    asked = []
    original = turns.Process.round

    def recorded(self, unit, amount):
        asked.append(self.program.name)
        return original(self, unit, amount)

    monkeypatch.setattr(turns.Process, "round", recorded)
    found = measure(case("rltrain", "peer"), rounds=2, seconds=1.0)
    assert asked == ["rltrain", "peer", "yardstick"] * 2
    each = found["programs"]["peer"]
    assert [one["work"] for one in each["rounds"]] == [3, 3]
    assert 0 < each["cpu_ms"]["low"] <= each["cpu_ms"]["median"] <= each["cpu_ms"]["high"]
    assert each["peak_mb"] > 1
    assert each["yardsticks"]["median"] > 0
    assert found["programs"]["rltrain"]["ratio"] == {"median": 1, "low": 1, "high": 1}


def test_a_failing_program_is_named_with_its_error():
    broken = Case(name="", group="", unit="", programs=[Program("peer", f"{TRIVIAL}:fail")], work=1)
    with pytest.raises(RuntimeError, match=r"(?s)peer \(.*fail\) failed.*on purpose"):
        measure(broken, rounds=1, seconds=1.0)


def test_ratios_are_of_the_same_round():
    ours = [Round(1, cpu, cpu, 1) for cpu in (1.0, 4.0, 2.0)]
    theirs = [Round(1, 3 * each.cpu, 0.1, 1) for each in ours]
    taken = {"rltrain": ours, "peer": theirs, "yardstick": ours}
    ratio = summary(case("rltrain", "peer"), taken)["programs"]["peer"]["ratio"]
    assert ratio == {"median": 3, "low": 3, "high": 3}


def test_a_regression_is_found_by_the_ratio_of_two_runs():
    assert regressions(results(1.1), results(1.0), tolerance=0.2) == []
    (line,) = regressions(results(1.5), results(1.0), tolerance=0.2)
    assert line == "addition, rltrain: 1.50 times the cost of the earlier run"


def test_a_slower_machine_is_not_a_regression():
    slower = copy.deepcopy(results(1.0))
    slower["cases"][0]["programs"]["rltrain"]["cpu_ms"]["median"] *= 5
    assert regressions(slower, results(1.0), tolerance=0.2) == []


def test_runs_without_a_common_case_are_not_compared():
    other = results()
    other["cases"][0]["name"] = "subtraction"
    with pytest.raises(ValueError, match="nothing compared"):
        regressions(results(), other, tolerance=0.2)


@pytest.mark.slow
def test_a_run_writes_json_and_markdown_and_compares(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(GROUPS, "loop", lambda peers, threads: [case("rltrain", "peer")])
    words = ["loop", "--rounds", "2", "--output", str(tmp_path)]
    assert bench.main(words) == 0
    written = load(tmp_path / "results.json")
    assert written["cases"][0]["name"] == "addition"
    assert {"date", "version", "git_commit", "machine", "matrix_rate"} < set(written)
    assert "| addition: " in (tmp_path / "results.md").read_text()
    written["cases"][0]["programs"]["rltrain"]["yardsticks"]["median"] /= 1000
    earlier = tmp_path / "earlier.json"
    earlier.write_text(json.dumps(written))
    assert bench.main([*words, "--baseline", str(earlier)]) == 1
    assert "times the cost of the earlier run" in capsys.readouterr().out


@pytest.mark.slow
def test_a_program_that_fails_does_not_stop_the_others(tmp_path, monkeypatch, capsys):
    broken = replace(case("rltrain"), name="broken", programs=[Program("peer", f"{TRIVIAL}:fail")])
    monkeypatch.setitem(GROUPS, "loop", lambda peers, threads: [broken, case("rltrain")])
    assert bench.main(["loop", "--rounds", "1", "--output", str(tmp_path)]) == 1
    assert "on purpose" in capsys.readouterr().out
    written = load(tmp_path / "results.json")
    assert [each["name"] for each in written["cases"]] == ["addition"]
    assert written["failed"] == ["broken"]


def test_a_wrong_source_folder_is_explained_before_anything_is_measured(tmp_path, capsys):
    assert bench.main(["loop", "--epymarl", str(tmp_path), "--output", str(tmp_path / "o")]) == 2
    message = " ".join(capsys.readouterr().out.split())
    assert "src/learners/q_learner.py" in message
    assert "git clone" in message
    assert not (tmp_path / "o").exists()


def test_a_file_that_is_no_result_is_explained(tmp_path, capsys):
    (tmp_path / "x.json").write_text("[]")
    words = ["loop", "--baseline", str(tmp_path / "x.json"), "--output", str(tmp_path / "o")]
    assert bench.main(words) == 2
    assert "results.json of an earlier" in " ".join(capsys.readouterr().out.split())


def test_markdown_has_a_row_for_each_program():
    text = markdown(results())
    assert (text.count("| rltrain |"), text.count("| peer |")) == (1, 1)
    assert "1 (1 … 1) × (cpu)" in text


def test_markdown_has_the_share_of_the_matrix_rate_of_the_same_clock():
    run = results(cost=2.0)  # seconds of CPU time a unit
    run["matrix_rate"] = {"1": {"cpu": 10.0, "wall": 1.0}}
    run["cases"][0]["arithmetic"] = 15.0
    assert "| 75% of the rate |" in markdown(run)


def test_cases_have_unique_names_and_peers_only_where_given():
    none = [case for group in GROUPS.values() for case in group(Peers(), 1)]
    given = Peers(pymarl="/p", epymarl="/e", cleanrl="/c", smaclite="/s")
    every = [case for group in GROUPS.values() for case in group(given, 1)]
    assert len({case.name for case in every}) == len(every)
    assert all("peers.pymarl" not in p.target for case in none for p in case.programs)
    assert any(p.name == "CleanRL" for case in every for p in case.programs)


@pytest.mark.slow
def test_growth_curves_are_drawn_with_the_limit(tmp_path):
    one = [Round(1, 0.01, 0.01, 1)]
    cases = [
        summary(each, {**{p.name: one for p in each.programs}, "yardstick": one})
        for each in growth.cases()
    ]
    growth.plot(
        {"cases": cases, "matrix_rate": {"1": {"cpu": 1e11, "wall": 5e10}}}, tmp_path / "growth.png"
    )
    assert (tmp_path / "growth.png").stat().st_size > 10_000
