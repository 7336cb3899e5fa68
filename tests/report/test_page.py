import json
import re
from html.parser import HTMLParser
from pathlib import Path

from rltrain.report.analysis import analyze
from rltrain.report.page import write_page
from rltrain.report.results import tables_of
from tests.report.runs import run, settings

HOSTILE = "</script><script>alert(1)</script>"


def page(tmp_path, **about):
    runs = [run(Path(f"{a}{s}"), a, seed=s, **about) for a in ("dqn", "pqn") for s in range(2)]
    analysis = analyze(runs, settings())
    write_page(tmp_path / "report.html", analysis, tables_of(analysis))
    return (tmp_path / "report.html").read_text(encoding="utf-8")


def test_page_loads_nothing(tmp_path):
    text = page(tmp_path)
    assert not re.search(r"\[\[[a-z]+\]\]", text)
    assert not re.search(r"\b(?:src|href)=|@import|url\(|https?://(?!www\.w3\.org/2000/svg)", text)


def test_page_has_the_data_of_every_chart(tmp_path):
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page(tmp_path))
    found = json.loads(data[1])
    assert found["labels"] == ["dqn", "pqn"]
    titles = [section["title"] for section in found["sections"]]
    assert titles == [
        "Learning curves",
        "Final scores",
        "Performance profile",
        "Probability of improvement",
    ]
    line = found["sections"][0]["charts"][0]["lines"][0]
    assert (line["x"], line["y"], line["low"]) == ([0, 100], [0, 1], [0, 1])


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
    assert parser.count == 2
    assert "alert(1)" in text
