"""Numbers in the documents: results of kept runs, published ones, defaults of methods, counts of
faults and of lines.
"""

import json
import re
from fractions import Fraction

import pytest
from omegaconf import OmegaConf

from benchmarks import results
from benchmarks.tasks import METHODS, TASKS, task
from rltrain.battles.native import RULES_VERSION
from rltrain.config.compose import compose_checked
from tests.marks import slow_except
from tests.pages import DOCS, ROOT, prose

SHOWN = "".join((ROOT / page).read_text("utf-8") for page in results.PAGES)
PRINTED = {found[1]: found[0] for found in results.PRINTED.finditer(SHOWN)}
QUICK = ("costs", "game", "ranking", "table maps", "table minatar", "table lbf-vdn mpe-vdn")


@pytest.mark.parametrize("name", slow_except(QUICK, PRINTED))
def test_tables_of_results_are_those_of_the_kept_runs(name):
    """``python -m benchmarks.results write`` puts them there, from benchmarks/data."""
    assert results.PRINTED.sub(results.printed, PRINTED[name]) == PRINTED[name]


def test_every_group_with_kept_runs_has_one_table():
    assert {f"table {group}" for group in filter(results.kept_names, TASKS)} <= PRINTED.keys()
    assert "costs" in PRINTED
    assert len(PRINTED) == len(results.PRINTED.findall(SHOWN))


def test_results_that_differ_from_published_ones_are_explained():
    table, _, below = prose("results.md").partition("\nThe others, and what is known of them:\n")
    explained = re.findall(r"^\* `([\w-]+)`", below.partition("\n## ")[0], re.MULTILINE)
    assert set(re.findall(r"^\| (\S+) \|.*\| no \|$", table, re.MULTILINE)) == set(explained)


def test_the_readme_sums_up_the_results_and_the_calibration():
    readme = " ".join(prose("../README.md").split())
    near = re.search(r"^(\d+ of \d+ results) \(", prose("results.md"), re.MULTILINE)
    assert near
    assert (
        f"{near[1]} with a published value at the same number of env steps are within a tenth"
        in readme
    )
    rows = dict(
        re.findall(r"^\| (.+?) \|.*\| (\S+) \| \d+ \|$", prose("calibration.md"), re.MULTILINE)
    )
    reached = rows["values at 0.8 of the rate in the game, of 19"]
    distance = float(rows["policies: mean distance from the range in the game, points"])
    assert f"{reached} of 19 maps and methods (mean distance {distance:.0f} points" in readme


def test_the_page_of_smacv2_has_the_win_rates_of_the_results():
    rows = re.findall(r"^\| \w+_5_vs_5((?: \| \d+){4})", prose("results.md"), re.MULTILINE)
    _, here, game = zip(*[row.split(" | ")[2:5] for row in rows], strict=True)
    page = " ".join(prose("environments/smacv2.md").split())
    for rates, end in ((here, "% of the battles"), (game, "% in StarCraft II")):
        assert f"{rates[0]}, {rates[1]} and {rates[2]}{end}" in page


@pytest.mark.parametrize("page", ["difficulty", "calibration", "environments/smac"])
def test_what_was_measured_on_battles_is_of_the_rules_of_today(page):
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    assert f"under version {RULES_VERSION} of the rules" in " ".join(text.split())


def test_lines_of_the_folders_are_about_as_many_as_the_document_tells():
    package, text = ROOT / "rltrain", (DOCS / "architecture.md").read_text("utf-8")
    section = text.partition("## What it costs")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([`a-z/. ]+) \| ([0-9,]+) \|", section, flags=re.MULTILINE)
    folders = [name for names, _ in rows for name in re.findall(r"`(\w+)`", names)]
    assert len(rows) == section.count("\n| `")
    packages = [path.name for path in package.iterdir() if any(path.glob("*.py"))]
    assert sorted([*folders, "examples"]) == sorted(packages)
    for names, told in rows:
        places = [package / name for name in re.findall(r"`(.+?)`", names)]
        files = [f for p in places for f in ([p] if p.suffix else p.rglob("*.py"))]
        lines = sum(len(f.read_text("utf-8").splitlines()) for f in files)
        assert lines == pytest.approx(int(told.replace(",", "")), rel=0.08), names


def test_counts_of_faults_are_those_of_the_kept_records():
    text = (DOCS / "reliability.md").read_text(encoding="utf-8")
    counts = re.findall(r"`(\w+)` \(([\d,]+)\)", text.partition("## Every fault")[2])
    assert len(counts) > 15
    for kind, count in counts:
        record = json.loads((ROOT / f"benchmarks/data/faults/{kind}.json").read_bytes())
        assert record["cases"] == record["passed"] == int(count.replace(",", "")), kind


METHOD_PAGES = sorted(
    path for path in (DOCS / "algorithms").glob("*.md") if path.stem not in ("index", "scripted")
)
TEAM_METHODS = ("iql", "vdn", "qmix", "ow_qmix", "qtran", "qplex", "qatten")
OF_OTHERS = {"qplex": ("algo.mixer.attention_penalty",)}
"""Settings of a variant that the page describes as well."""


@pytest.mark.parametrize("page", METHOD_PAGES, ids=lambda page: page.stem)
def test_a_page_has_settings_differences_and_a_curve(page):
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^## (\w+)", text, re.MULTILINE)
    assert headings == ["Settings", "Differences", "Learning"]
    assert re.search(r"<!-- python -m benchmarks.results table [^>]+-->\n\| task \|", text)
    assert re.search(r"## Learning curve\n\n!\[.+\]\(.+\.png\)\n\n```bash\n", text)


SAMPLE = [DOCS / f"algorithms/{name}.md" for name in ("dqn", "rainbow", "pqn", "qmix", "qplex")]
SAMPLE += [DOCS / "algorithms/r2d2.md"]


@pytest.mark.parametrize("page", slow_except(SAMPLE, METHOD_PAGES), ids=lambda page: page.stem)
def test_its_defaults_are_those_of_the_configuration(page):
    env = "smac" if page.stem in TEAM_METHODS else "gymnasium"
    plain = compose_checked([f"algo={page.stem}", f"env={env}", "tuned=none"]).plain
    rows = re.findall(r"^\| `([a-z_.]+)` \| (.+?) \|", page.read_text("utf-8"), re.MULTILINE)
    stated = {key: value for key, value in rows if key not in OF_OTHERS.get(page.stem, ())}
    assert len(stated) > 2
    config = OmegaConf.create(plain)
    found = {key: OmegaConf.select(config, key) for key in stated}
    assert {key: value_of(text) for key, text in stated.items()} == found


def value_of(text: str) -> object:
    """``50,000``, ``1/32``, ``true``, ``null`` and words as YAML's values."""
    named = {"true": True, "false": False, "null": None}
    if text in named:
        return named[text]
    try:
        return float(Fraction(text.replace(",", "")))
    except ValueError:
        return text


@pytest.mark.parametrize("name", METHODS)
def test_a_figure_shows_a_task_of_its_algorithm(name):
    page = next(page for page in METHOD_PAGES if page.stem == name)
    assert f"curves/methods/{name}.png" in page.read_text(encoding="utf-8")
    for each in METHODS[name]:
        assert f" {each}:" in page.read_text(encoding="utf-8")
        assert task(each).overrides
