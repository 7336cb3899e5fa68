"""mode=doctor: findings, their commands, the exit code."""

import os
import sys
from types import SimpleNamespace

import pytest

from rltrain import main as entry
from rltrain.battles.data.maps import map_names
from rltrain.battles.engine.compile_cache import cache_folder, is_compiled
from rltrain.common.machine.install import install_command
from rltrain.errors import UsageError
from rltrain.mode import doctor
from rltrain.mode.doctor import Finding, tools
from tests.env.smac.starcraft2.stand_in import install_game, install_package
from tests.imports import imported


def by_name(findings):
    return {finding.what: finding for finding in findings}


def test_the_main_job_runs_here_and_the_command_says_so(own_folder, capsys):
    assert entry.run(["mode=doctor"]) == 0
    assert "The main job (rltrain algo=qmix env=smac) runs here." in capsys.readouterr().out
    assert list(own_folder.iterdir()) == []


def test_every_finding_that_is_not_ok_has_a_command(own_folder):
    findings = doctor.examine(own_folder / "outputs", game=True)
    assert [f.what for f in findings if f.verdict != "ok" and not f.fix] == []
    assert [f.what for f in findings if f.verdict == "ok" and f.fix] == []


def test_a_missing_package_is_needed_unless_an_extra_names_it(monkeypatch, capsys):
    lines = [("numpy>=2.0", ""), ("no-such-core>=1", ""), ("no-such-extra>=2", "envs")]
    monkeypatch.setattr(doctor, "requirements", lambda: [*lines, ("no-such-tool", "dev")])
    (core,), (extra,) = doctor.packages(), doctor.extras()
    assert (core.what, core.verdict) == ("no-such-core", "missing")
    assert core.fix == install_command("no-such-core>=1")
    assert (extra.what, extra.verdict) == ("envs", "optional")
    assert extra.fix == install_command("no-such-extra>=2")
    assert entry.run(["mode=doctor"]) == 2
    out = capsys.readouterr().out
    assert out.startswith("The main job does not run here yet. It needs:")
    command = f"{sys.executable} -m pip install 'no-such-core>=1'"
    assert f"no-such-core (not installed): {command}" in out


def test_an_extra_has_one_line_with_all_that_it_lacks_and_old_packages_are_found(monkeypatch):
    lines = [("numpy>=2.0", "envs"), ("no-such", "envs"), ("rich>=99", "envs"), ("numpy", "more")]
    lines += [("numpy>=99", ""), ("numpy>=2,<99", "")]
    monkeypatch.setattr(doctor, "requirements", lambda: lines)
    (extra,), (old,) = doctor.extras(), doctor.packages()
    assert (extra.what, old.verdict) == ("envs", "missing")
    assert extra.fact.startswith("no-such not installed; rich ")
    assert all(each.fact.endswith("; expected >=99") for each in (extra, old))
    assert extra.fix == install_command("no-such", "rich>=99")
    assert old.fix == install_command("numpy>=99")


def test_the_verdict_comes_first_and_25_lines_are_enough(own_folder, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "120")  # the folders of tests have long names
    monkeypatch.setattr(doctor, "lacks", lambda requirement: "")
    assert entry.run(["mode=doctor"]) == 0
    least = capsys.readouterr().out.splitlines()
    assert least[0] == "The main job (rltrain algo=qmix env=smac) runs here."
    n_extras = len({extra for _, extra in doctor.requirements() if extra} - {*doctor.OTHERS})
    assert len(least) + n_extras <= 25
    assert "StarCraft" not in "\n".join(least)
    assert entry.run(["mode=doctor", "env.backend=sc2"]) == 0
    assert "StarCraft II" in capsys.readouterr().out


@pytest.mark.parametrize(
    "mode", [[], ["mode=evaluate", "algo=scripted", "algo.policy=random"]], ids=" ".join
)
def test_without_numbas_compiler_nothing_runs(command, small, own_folder, monkeypatch, mode):
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    evaluated = ("env=", "test.episodes=")
    words = [w for w in small if w.startswith(evaluated)] if mode else small
    with pytest.raises(UsageError, match="Type unset NUMBA_DISABLE_JIT, then run the command"):
        command(*words, *mode)
    found = by_name(doctor.python())["NUMBA_DISABLE_JIT"]
    assert (found.verdict, found.fix) == ("missing", "unset NUMBA_DISABLE_JIT")


def test_an_old_python_a_full_disk_and_a_read_only_folder_are_missing(own_folder, monkeypatch):
    folder = own_folder / "outputs" / "deeper"
    (disk,) = doctor.disk(folder)
    assert by_name(doctor.python())["Python"].verdict == disk.verdict == "ok"
    assert str(own_folder) in disk.fact
    monkeypatch.setattr(doctor, "OLDEST_PYTHON", (4, 0))
    monkeypatch.setattr(doctor, "NEEDED_DISK", 10**18)
    (disk,) = doctor.disk(folder)
    assert by_name(doctor.python())["Python"].verdict == disk.verdict == "missing"
    monkeypatch.setattr(os, "access", lambda *_: False)
    (disk,) = doctor.disk(own_folder)
    fact = f"{own_folder} cannot be written"
    assert disk == Finding("outputs/", "missing", fact, "cd to your own folder")


CACHE = "rltrain.battles.engine.compile_cache"


@pytest.fixture
def no_folder_known():
    cache_folder.cache_clear()
    yield
    cache_folder.cache_clear()


@pytest.mark.parametrize(("compiled", "verdict"), [(True, "ok"), (False, "optional")])
def test_doctor_says_whether_the_engine_is_compiled(monkeypatch, compiled, verdict):
    monkeypatch.setattr(f"{CACHE}.is_compiled", lambda function: compiled)
    (finding,) = doctor.engine_cache()
    assert finding.verdict == verdict


def test_a_compiler_that_fails_is_missing_and_one_that_works_is_not(monkeypatch):
    monkeypatch.setattr(f"{CACHE}.is_compiled", lambda function: False)
    (works,) = doctor.compiler()
    monkeypatch.setattr("numba.njit", lambda function: lambda *arguments: 1 / 0)
    (fails,) = doctor.compiler()
    assert [works.verdict, fails.verdict] == ["ok", "missing"]
    assert "cannot compile it (division by zero)" in fails.fact
    assert "'numba>=0.68'" in fails.fix


def test_compiled_code_is_that_of_this_path(tmp_path):
    def step():
        pass

    function = SimpleNamespace(py_func=step, stats=SimpleNamespace(cache_path=str(tmp_path)))
    other = tmp_path / "another checkout"
    other.mkdir()
    name = f"file.{step.__qualname__}-1.py311.1.nbc"
    (other / name).touch()
    assert not is_compiled(function)
    (tmp_path / name).touch()
    assert is_compiled(function)


@pytest.mark.usefixtures("no_folder_known")
def test_a_cache_that_cannot_be_written_is_optional(monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    with pytest.warns(UserWarning, match="every process compiles it again"):
        (finding,) = doctor.engine_cache()
    assert finding.verdict == "optional"
    assert "XDG_CACHE_HOME" in finding.fix


def test_the_game_and_each_map(tmp_path, monkeypatch):
    (tmp_path / "python").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path / "python"))
    monkeypatch.setenv("SC2PATH", str(tmp_path / "game"))
    before = by_name(doctor.real_game())
    assert {f.verdict for name, f in before.items() if "plays" not in name} == {"optional"}
    assert before["SMAC maps"].fact == "0 of 23; missing: all of them"
    assert before["env=smac plays on"].fact == "native"
    install_package(tmp_path / "python")
    install_game(tmp_path / "game", *(name for name in map_names() if name != "MMM2"))
    after = by_name(doctor.real_game())
    assert after["smac package"].verdict == after["their modules"].verdict == "ok"
    assert "Base75689" in after["StarCraft II"].fact
    assert after["SMAC maps"].fact == "22 of 23; missing: MMM2"
    assert after["SMACv2 map"].verdict == after["smacv2 package"].verdict == "optional"
    assert after["env=smac plays on"].fact == "sc2"


def test_wandb_key_is_found_but_not_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert by_name(tools({}))["wandb"].fact == "mode offline, no key: runs stay on this machine"
    found = by_name(tools({"WANDB_API_KEY": "secret", "WANDB_MODE": "online"}))["wandb"].fact
    assert found == "mode online, a key is known"
    line = "machine api.wandb.ai login user password secret\n"
    (tmp_path / ".netrc").write_text(line)
    (tmp_path / ".netrc").chmod(0o600)
    assert by_name(tools({}))["wandb"].verdict == "ok"


def test_missing_is_what_stops_the_main_job():
    assert doctor.runs([Finding("a", "ok", ""), Finding("b", "optional", "", "do")])
    assert not doctor.runs([Finding("a", "missing", "", "do")])


def test_the_doctor_itself_needs_no_torch():
    assert imported("import rltrain.mode.doctor", "torch", "numba") == []


def test_ffmpeg_is_found_or_what_brings_it_is_named_and_two_pygames_are_reported(monkeypatch):
    monkeypatch.setattr(doctor, "find_ffmpeg", lambda: None)
    assert "imageio-ffmpeg" in by_name(tools({}))["ffmpeg"].fix
    monkeypatch.setattr(doctor, "find_ffmpeg", lambda: "/bin/ffmpeg")
    assert by_name(tools({}))["ffmpeg"] == Finding("ffmpeg", "ok", "/bin/ffmpeg")
    monkeypatch.setattr(doctor, "installed_version", lambda name: "2.5")
    assert "pip uninstall -y pygame pygame-ce && " in by_name(tools({}))["pygame"].fix
    monkeypatch.setattr(doctor, "installed_version", lambda name: None)
    assert "pygame" not in by_name(tools({}))
