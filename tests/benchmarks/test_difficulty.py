"""Scripted policies on maps, and their page."""

import sys

from benchmarks import difficulty


def test_the_page_has_a_row_of_every_policy_and_a_picture(own_folder, monkeypatch):
    """Defect: the name of a function that draws had changed."""
    monkeypatch.setattr(sys, "argv", ["difficulty", "2", "3m"])
    (own_folder / "docs").mkdir()
    difficulty.main()
    text = difficulty.PAGE.read_text("utf-8")
    assert all(f"| `{policy}` |" in text for policy in difficulty.POLICIES)
    assert (own_folder / "docs/maps/3m.png").stat().st_size > 1000
