"""The pages of algorithms: sections, defaults, and figures with their tasks."""

import re
from fractions import Fraction
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from benchmarks.tasks import METHODS, task
from rltrain.config.compose import compose_checked
from tests.marks import slow_except

PAGES = sorted(
    path
    for path in (Path(__file__).parents[2] / "docs/algorithms").glob("*.md")
    if path.stem not in ("index", "scripted")
)
TEAMS = ("iql", "vdn", "qmix", "ow_qmix", "qtran", "qplex", "qatten")
OF_OTHERS = {"qplex": ("algo.mixer.attention_penalty",)}
"""Settings of a variant that the page describes as well."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_settings_differences_and_a_curve(page):
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^## (\w+)", text, re.MULTILINE)
    assert headings == ["Settings", "Differences", "Learning"]
    assert re.search(r"<!-- python -m benchmarks.results table [^>]+-->\n\| task \|", text)
    assert re.search(r"## Learning curve\n\n!\[.+\]\(.+\.png\)\n\n```bash\n", text)


SAMPLE = [page for page in PAGES if page.stem in ("dqn", "rainbow", "r2d2", "pqn", "qmix", "qplex")]


@pytest.mark.parametrize("page", slow_except(SAMPLE, PAGES), ids=lambda page: page.stem)
def test_its_defaults_are_those_of_the_configuration(page):
    env = "smac" if page.stem in TEAMS else "gymnasium"
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
    page = next(page for page in PAGES if page.stem == name)
    assert f"curves/methods/{name}.png" in page.read_text(encoding="utf-8")
    for each in METHODS[name]:
        assert f" {each}:" in page.read_text(encoding="utf-8")
        assert task(each).overrides
