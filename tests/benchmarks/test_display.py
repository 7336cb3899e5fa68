"""The README's picture of the display shows what a run shows."""

import re

import pytest

from benchmarks.display import FILE, picture

LABEL = re.compile(
    r"(run|algo|settings|networks|environment|replay|device|loggers|version|folder)$"
)


def labels(svg):
    texts = [text.replace("&#160;", " ").strip() for text in re.findall(r">([^<]+)</text>", svg)]
    return [text for text in texts if LABEL.match(text)]


@pytest.mark.slow
def test_the_picture_has_the_rows_of_a_run():
    drawn = picture(["env=cartpole", "total_env_steps=600", "test.interval=600", "test.episodes=1"])
    kept = FILE.read_text(encoding="utf-8")
    assert labels(kept) == labels(drawn)
    assert len(labels(kept)) == 10
    assert "50,000&#160;env&#160;steps" in kept
