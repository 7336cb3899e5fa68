"""The wheel carries its configuration and runs from anywhere, beside the environment's packages or
in a clean one.
"""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from functools import cache

import pytest

import rltrain
from benchmarks.lowest import lowest
from tests.helpers import python
from tests.imports import imported
from tests.pages import ROOT

REPOSITORY = {".ci", ".dockerignore", ".github", ".pre-commit-config.yaml", "Dockerfile", "outputs"}
"""What only the repository needs."""
SMALL = ["env=two_step", "total_env_steps=100", "test.episodes=2", "logger.wandb.mode=disabled"]


def build(kind, folder):
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    env = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, env=env)
    (found,) = folder.iterdir()
    return found


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The package of a kind, built once."""
    return cache(lambda kind: build(kind, tmp_path_factory.mktemp(kind)))


@pytest.fixture
def wheel(built):
    return built("wheel")


@pytest.mark.slow
def test_the_wheel_runs_from_another_directory(wheel, tmp_path):
    target, elsewhere = tmp_path / "installed", tmp_path / "elsewhere"
    elsewhere.mkdir()
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, "--target", str(target), str(wheel)], check=True)
    files = ("conf/config.yaml", "battles/README.md", "battles/data/start_positions.json")
    for file in (*files, "demos/3m/run.json"):
        assert (target / "rltrain" / file).exists()
    assert not (target / "conf").exists()
    given = {"cwd": elsewhere, "env": {**os.environ, "PYTHONPATH": str(target)}, "check": True}
    done = python("-c", "import rltrain; print(rltrain.__file__)", **given)
    assert done.stdout.startswith(str(target))
    python("-m", "rltrain", *SMALL, **given)
    assert list(elsewhere.glob("outputs/qmix-two_step/*/run.json"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_packages_are_reproducible(kind, built, tmp_path):
    first, second = built(kind), build(kind, tmp_path / "again")
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()


def test_every_extra_is_checked_with_the_others():
    (line,) = re.findall("^EXTRAS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert sorted(line.split(",")) == sorted(project["optional-dependencies"])


def test_the_citation_and_the_changelog_have_the_version():
    assert f"version: {rltrain.__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    released = re.findall(r"^## \[?(\d+\.\d+\.\d+)", changelog, re.MULTILINE)
    assert released[:1] == [rltrain.__version__] or (
        released == [] and "No version has been released yet." in changelog
    )


def test_the_lowest_versions_are_those_of_the_project():
    pins = lowest()
    assert "numba==0.68" in pins
    assert "hydra-core==1.3.8" in pins
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert len(pins) == len(project["dependencies"]) - 1  # without PyTorch


@pytest.mark.slow
def test_a_wheel_of_the_source_distribution_has_the_same_files(wheel, built, tmp_path):
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index"]
    command += ["--no-build-isolation", "--wheel-dir", str(tmp_path / "again"), str(built("sdist"))]
    subprocess.run(command, check=True)
    (again,) = (tmp_path / "again").glob("*.whl")
    names = {each: set(zipfile.ZipFile(each).namelist()) for each in (wheel, again)}
    assert names[wheel] == names[again]
    parts = ("conf/config.yaml", "py.typed", "mode/init/project/gymnasium/Makefile.txt")
    assert {f"rltrain/{part}" for part in parts} <= names[again]


@pytest.mark.slow
def test_the_source_distribution_is_complete(built):
    with tarfile.open(built("sdist")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    left_out = {name for name in tracked.stdout.split() if name.partition("/")[0] not in REPOSITORY}
    assert left_out - names == set()


@pytest.mark.slow
def test_a_really_clean_installation(wheel, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv/bin/python"
    torch = re.search("^torch==.*$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)[0]
    pip = [str(python), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, torch], check=True)
    subprocess.run([*pip, "-c", str(ROOT / "constraints.txt"), str(wheel)], check=True)
    command = [str(tmp_path / "venv/bin/rltrain"), *SMALL, "env=smac", "total_env_steps=500"]
    command.remove("env=two_step")
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    subprocess.run(command, cwd=tmp_path, env=env, check=True)
    assert list(tmp_path.glob("outputs/qmix-smac/*/run.json"))


@pytest.mark.parametrize(
    "flag",
    ["--help", *(pytest.param(f, marks=pytest.mark.slow) for f in ("--cfg=job", "--version"))],
)
def test_help_needs_no_torch_and_makes_no_folder(tmp_path, flag):
    code = (
        f"import sys; sys.argv = ['rltrain', *{flag.split('=')}]\n"
        "from rltrain.main import main\n"
        "try: main()\n"
        "except SystemExit: pass"
    )
    assert imported(code, "torch", "numba") == []
    assert not (tmp_path / "outputs").exists()


@pytest.mark.parametrize(
    "overrides",
    [
        ["algo=qmx"],
        pytest.param(["seed=abc"], marks=pytest.mark.slow),
        pytest.param(["experiment=atari/rainbow", "algo.loss.gamma=2"], marks=pytest.mark.slow),
        pytest.param(["-m", "algo=x"], marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_refusals_of_names_and_values_need_no_torch(overrides):
    code = (
        "import sys; from rltrain.main import run\n"
        f"try: run({overrides})\n"
        "except Exception as error: print(type(error).__name__)\n"
        "print([name for name in ('torch', 'numba', 'numpy') if name in sys.modules])"
    )
    kind, *imported = python("-c", code, check=True).stdout.split()
    assert kind in ("UsageError", "NamesError")  # the latter is one of the former
    assert imported == ["[]"]


@pytest.mark.slow
def test_a_sweep_with_the_joblib_launcher(tmp_path):
    command = [sys.executable, "-m", "rltrain", "-m", *SMALL, "hydra/launcher=joblib"]
    command += ["seed=1,2", "hydra.launcher.n_jobs=2"]
    subprocess.run(command, check=True, capture_output=True)
    assert len(list(tmp_path.glob("outputs/multirun/*/*/run.json"))) == 2


PYTHON_TEMPLATE = """
__pycache__/ *.py[codz] *.so .Python build/ develop-eggs/ dist/ downloads/ eggs/ lib/ lib64/ parts/
sdist/ var/ wheels/ share/python-wheels/ MANIFEST *.manifest *.spec htmlcov/ .cache coverage.xml
*.cover cover/ *.mo *.pot *.log local_settings.py instance/ docs/_build/ target/ profile_default/
.env env/ venv/ ENV/ /site
"""
"""Lines of the .gitignore that GitHub offers for Python."""


def test_a_gitignore_for_python_leaves_out_no_file_of_the_package(tmp_path):
    folders = ("rltrain", "conf", "tests")
    files = [p for folder in folders for p in ROOT.glob(f"{folder}/**/*") if p.is_file()]
    files = [p.relative_to(ROOT) for p in files if "__pycache__" not in p.parts]
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text("\n".join(PYTHON_TEMPLATE.split()))
    for name in folders:
        (tmp_path / name).mkdir()
        (tmp_path / name / ".gitignore").write_text((ROOT / name / ".gitignore").read_text())
    command = ["git", "check-ignore", "--no-index", "--stdin"]
    text = "\n".join(map(str, files))
    left_out = subprocess.run(command, input=text, cwd=tmp_path, capture_output=True, text=True)
    assert (left_out.stdout, left_out.returncode) == ("", 1)
