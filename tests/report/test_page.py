"""The page of a report: what is in it, and that it fits every screen of a browser."""

import html
import json
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from rltrain.errors import UNPRINTABLE
from rltrain.report.analysis import analyze
from rltrain.report.page import FIGURES, write_page
from rltrain.report.report_tables import list_tables
from tests.report.runs import run, settings

SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'
HOSTILE = "</script><script>alert(1)</script>"


def page(tmp_path, **about):
    runs = [run(Path(f"{a}{s}"), a, seed=s, **about) for a in ("dqn", "pqn") for s in range(2)]
    analysis = analyze(runs, settings())
    figures = [tmp_path / f"{name}{form}" for name in FIGURES for form in (".svg", ".png")]
    for each in figures:
        each.write_text(SVG, encoding="utf-8")
    write_page(tmp_path / "report.html", analysis, list_tables(analysis), figures)
    return (tmp_path / "report.html").read_text(encoding="utf-8")


def test_page_loads_nothing(tmp_path):
    text = page(tmp_path)
    assert not re.search(r"\[\[[a-z]+\]\]", text)
    assert not re.search(r"\bsrc=(?!\"data:)|\bhref=|@import|url\(|https?://|<script", text)


def test_page_has_every_figure_with_its_title(tmp_path):
    found = re.findall(r'<h2>([^<]*)</h2>(?:<p>[^<]*</p>)?<img alt="([^"]*)" src=', page(tmp_path))
    assert found == [(title, title) for title, _ in FIGURES.values()]


def test_page_says_what_it_compares(tmp_path):
    text = page(tmp_path)
    assert "<h1>CartPole-v1: return</h1>" in text
    assert "4 runs of 2 configurations on 1 environment." in text


def test_names_from_a_run_folder_are_text_and_nothing_else(tmp_path):
    text = page(tmp_path, env=HOSTILE)

    class Scripts(HTMLParser):
        count = 0

        def handle_starttag(self, tag, attrs):
            self.count += tag == "script"

    parser = Scripts()
    parser.feed(text)
    assert parser.count == 0
    assert "alert(1)" in text


ODD = os.fsdecode(b"a\x1b[31m\xff\xe2\x80\xae")


def test_what_no_page_can_show_is_written_as_escapes(tmp_path):
    """Defects: escape sequences reached the page, and a name that is not UTF-8 broke it."""
    (tmp_path / ODD / "recordings").mkdir(parents=True)
    (tmp_path / ODD / "recordings/episodes-1.html").touch()
    runs = [run(tmp_path / ODD, ODD, env=ODD), run(tmp_path / "c", seed=1, env=ODD)]
    write_page(tmp_path / "report.html", analyze(runs, settings()), [], [])
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert not UNPRINTABLE.search(text)
    assert r"a\x1b[31m\udcff\u202e" in text
    assert 'href="a%1B%5B31m%FF%E2%80%AE/recordings/episodes-1.html"' in text


def test_pages_of_episodes_are_linked_from_where_the_report_lies(tmp_path):
    (tmp_path / "runs/a b/recordings/0").mkdir(parents=True)
    (tmp_path / "runs/a b/recordings/episodes-1.html").touch()
    runs = [run(tmp_path / "runs/a b"), run(tmp_path / "runs/c", seed=1)]
    write_page(tmp_path / "reports/new/report.html", analyze(runs, settings()), [], [])
    text = (tmp_path / "reports/new/report.html").read_text(encoding="utf-8")
    assert re.findall('<a href="([^"]*)">([^<]*)</a>', text) == [
        ("../../runs/a%20b/recordings/episodes-1.html", "CartPole-v1, dqn, seed 0")
    ]


CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
WIDTHS = (360, 768, 1600)
MEASURE = """
const found = [...document.querySelectorAll("iframe")].map(frame => {
  const page = frame.contentDocument, root = page.documentElement;
  const color = frame.contentWindow.getComputedStyle(page.body).backgroundColor;
  const figures = [...page.images].filter(image => image.naturalWidth > 0).length;
  return {width: root.clientWidth, needs: root.scrollWidth, figures, color};
});
document.title = JSON.stringify(found);
"""


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
@pytest.mark.parametrize(("dark", "color"), [(1, "rgb(255, 255, 255)"), (0, "rgb(20, 23, 27)")])
def test_page_fits_every_screen(tmp_path, dark, color):
    text = html.escape(page(tmp_path, env="an environment of a long name " * 4))
    frames = "".join(f'<iframe width={w} height=900 srcdoc="{text}"></iframe>' for w in WIDTHS)
    script = f"<script>onload = () => {{ {MEASURE} }}</script>"
    harness = f"<!doctype html><style>iframe {{ border: 0 }}</style>{script}{frames}"
    (tmp_path / "screens.html").write_text(harness, encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--dump-dom"]
    options += [f"--blink-settings=preferredColorScheme={dark}", f"--user-data-dir={tmp_path}/p"]
    command = [CHROMIUM, *options, f"file://{tmp_path}/screens.html"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    (found,) = re.findall("<title>(.*?)</title>", shown.partition("<iframe")[0])
    assert json.loads(found) == [
        {"width": w, "needs": w, "figures": 5, "color": color} for w in WIDTHS
    ]
