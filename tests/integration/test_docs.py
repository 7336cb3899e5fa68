"""Documents: links, and the tables for users of other libraries."""

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from rltrain.common.metrics import METRICS
from rltrain.config.catalog import CONF, FREE_FORM
from rltrain.config.names import OF_A_RUN
from tests.pages import DOCS, ROOT, prose

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
PAGES = ["from_pymarl.md", "from_rllib.md", "from_sb3.md"]
GROUPS = ("algo", "env", "buffer", "hardware", "logger")
ROOTS = (*GROUPS, "test", "save", "log", "stop", "dataset", "hydra")
REPORTED = {name.partition("/")[0] for name in METRICS}


def flat(node, path=""):
    """Every dotted key of a mapping."""
    for name, value in node.items():
        key = f"{path}.{name}" if path else name
        yield key
        if isinstance(value, dict):
            yield from flat(value, key)


def load(file):
    return yaml.safe_load(file.read_text(encoding="utf-8")) or {}


@pytest.fixture(scope="module")
def keys():
    """Every key that a composition can have."""
    found = {*flat(load(CONF / "config.yaml")), *OF_A_RUN}
    for name in ("process", "ray", "ddp"):  # their keys are global
        found |= {*flat(load(CONF / "hardware" / f"{name}.yaml"))}
    for group in GROUPS:
        for file in (CONF / group).rglob("*.yaml"):
            folder = file.parent.relative_to(CONF).as_posix().removesuffix("/shared")
            found |= {f"{folder.replace('/', '.')}.{key}" for key in flat(load(file))}
    return found


def overrides(page):
    """The words in code of a page, without the left columns of its tables."""
    for line in prose(page).splitlines():
        text = re.sub(r"^\|.*? \| ", "| ", line)
        for span in re.findall(r"`([^`]+)`", text):
            yield from span.replace("'", "").split()


def problem(word, before, keys):
    """What is wrong with a word, None if nothing is; and the key that it names, None if none."""
    if "(" in word or ")" in word or word in ("=", "+"):  # Python, signs
        return None, before
    name, equals, value = word.partition("=")
    added, name = name.startswith("+"), name.lstrip("+")
    if name.startswith(".") and before is not None:
        name = before.rpartition(".")[0] + name
    if "/" in name and name.partition("/")[0] in REPORTED:
        return (None if name in METRICS else "no such metric"), None
    root = re.split(r"[./]", name)[0]
    if equals and (name in (*GROUPS, "experiment") or (root == "algo" and "/" in name)):
        choices = [choice for choice in value.strip("[]").split(",") if choice]
        missing = [c for c in choices if not (CONF / name / f"{c}.yaml").exists()]
        return (f"no {missing}" if missing and value != "…" else None), None
    if added:
        free = any(name.startswith(f"{node}.") for node in FREE_FORM)
        return (None if free else "+ is not for this key"), name
    if root in ROOTS and "." in name and re.fullmatch(r"[a-z_.]+", name):
        return (None if name in keys else "no such key"), name
    if equals and name != "explore":  # a keyword of functions
        return (None if name in keys else "no such key"), None
    return None, before if name.startswith(".") else None


@pytest.mark.parametrize("page", PAGES)
def test_every_name_on_the_right_exists(page, keys):
    before, wrong, named = None, [], 0
    for word in overrides(page):
        what, key = problem(word.rstrip(",;"), before, keys)
        if what:
            wrong.append(f"{word}: {what}")
        before = key or before
        named += key is not None
    assert not wrong, "\n".join(wrong)
    assert named > 30


@pytest.mark.parametrize(
    "word", ["algo.loss.gama", "algo=dqm", "tset.interval=3", "+algo.x=1", "test/return", ".lr"]
)
def test_a_wrong_name_would_be_noticed(word, keys):
    assert problem(word, "algo.loss.gamma", keys)[0] is not None


@pytest.mark.parametrize("other", ["pymarl", "rllib"])
def test_no_key_of_theirs_is_forgotten(other):
    """Those of PyMARL's, EPyMARL's and PyMARL2's default, value-based and StarCraft files, and of
    RLlib's DQN, common and model defaults.
    """
    said = re.findall(r"[a-z_0-9]+", " ".join(re.findall(r"`([^`]+)`", prose(f"from_{other}.md"))))
    theirs = (ROOT / f"tests/data/keys_of_{other}.txt").read_text("utf-8").split()
    assert set(theirs) - set(said) == set()


@pytest.mark.parametrize("page", PAGES)
def test_tables_are_those_of_the_aliases(page):
    """``python docs/tables.py`` writes them."""
    tables = runpy.run_path(str(DOCS / "tables.py"))
    assert (DOCS / "combinations.md").read_text() == tables["refused"]()
    text = (DOCS / page).read_text(encoding="utf-8")
    assert tables["written"](page, text) == text


DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]


def headings(document):
    """The anchors of a page, as GitHub and MkDocs make them."""
    found = re.findall(r"^#+ (.+)$", prose(document), re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", title).strip().lower().replace(" ", "-") for title in found}


def test_links_lead_somewhere():
    links = [
        (document, link, document.parent / path if path else document, anchor)
        for document in DOCUMENTS
        for link in re.findall(r"\]\(([^):]+)\)", document.read_text(encoding="utf-8"))
        for path, _, anchor in [link.partition("#")]
    ]
    assert len(links) > 100
    assert [(at.name, link) for at, link, to, _ in links if not to.exists()] == []
    anchors = [(at.name, to, anchor) for at, _, to, anchor in links if anchor]
    assert len(anchors) > 40
    assert [each for each in anchors if each[2] not in headings(each[1])] == []


def test_the_index_lists_every_page():
    text = "".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("index.md"))
    listed = {Path(link).name for link in re.findall(r"\]\(([\w/]+\.md)\)", text)}
    assert listed == {path.name for path in DOCS.rglob("*.md")}


@pytest.mark.parametrize(("group", "folder"), [("algo", "algorithms"), ("env", "environments")])
def test_every_choice_has_a_page(group, folder):
    text = (DOCS / folder / "index.md").read_text(encoding="utf-8")
    choices = {path.stem for path in (CONF / group).glob("*.yaml")}
    assert choices - set(re.findall(r"`(\w+)`", text)) == set()


@pytest.mark.slow
def test_the_site_builds(tmp_path):
    pytest.importorskip("material", reason="the extra docs is not installed")
    pytest.importorskip("latex2mathml", reason="the extra docs is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "algorithms/qmix.html").read_text(encoding="utf-8")
    assert "<math" in page
    assert "algo.mixer.embed_dim" in page
    assert "greedy joint action" in (tmp_path / "reference/rltrain.algo.html").read_text("utf-8")
    home = tmp_path / "index.html"
    assert "training.svg" in home.read_text(encoding="utf-8"), "the README is the home"
    assert "https://unpkg.com" not in home.read_text(encoding="utf-8")
    if CHROMIUM is not None:  # the search of pages that are opened from a folder
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000"]
        options += [f"--user-data-dir={tmp_path}/p", "--dump-dom", f"file://{home}?q=mixer"]
        found = subprocess.run([CHROMIUM, *options], capture_output=True, text=True).stdout
        assert "matching documents" in found


def test_no_file_has_the_marks_of_an_unfinished_merge():
    root, mark = ROOT, re.compile(rb"^(<{7}|>{7}) ", re.MULTILINE)
    folders = ("docs", "conf", "rltrain", "tests", "benchmarks", "examples", ".ci")
    files = [file for folder in folders for file in (root / folder).rglob("*.*")]
    files += root.glob("*.*")
    files = [file for file in files if file.is_file() and "__pycache__" not in file.parts]
    assert [file for file in files if mark.search(file.read_bytes())] == []


def test_lines_of_text_fit_on_a_screen():
    for document in DOCUMENTS:
        long = [line for line in prose(document).splitlines() if len(line) > 120 and line[0] != "|"]
        assert long == [], document
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 150, "details belong to a page of docs/"


def test_commands_fit_into_the_column_of_the_site():
    """But words in quotes, which cannot be divided."""
    for document in DOCUMENTS:
        blocks = re.findall(r"```bash\n(.*?)```", document.read_text("utf-8"), re.DOTALL)
        lines = [line for block in blocks for line in block.splitlines() if len(line) > 78]
        long = [line for line in lines if not re.match(r" +\S*'[^']*'( \\)?$", line)]
        assert long == [], document


def test_the_page_of_metrics_has_every_metric():
    assert set(METRICS) - set(re.findall(r"`([\w/]+)`", prose("metrics.md"))) == set()


def test_the_files_and_constants_of_the_battle_engine_exist():
    text = (DOCS / "battles.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:data|engine|smaclite)/\w+\.py)(?:: ([^`]+))?`", text)
    assert len(named) > 20
    for file, constants in named:
        source = (ROOT / "rltrain/battles" / file).read_text(encoding="utf-8")
        assert [name for name in constants.split(", ") if name not in source] == [], file


def test_the_files_to_change_exist():
    table = prose("architecture.md").partition("## Which file to change\n")[2].partition("\n## ")[0]
    named = re.findall(r"`([\w/]+/(?:\w+\.(?:pyi?|yaml|json|txt))?)`", table)
    assert len(named) > 80
    roots = (ROOT, ROOT / "rltrain")
    assert [name for name in named if not any((root / name).exists() for root in roots)] == []
