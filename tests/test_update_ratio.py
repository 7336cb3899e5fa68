"""Gradient steps for what was collected."""

from fractions import Fraction

from rltrain.update_ratio import UpdateRatio


def test_fractions_of_updates_carry_over_without_drift():
    ratio = UpdateRatio(Fraction(0), Fraction("0.1"))
    assert sum(ratio.due(6, 3) for _ in range(1000)) == 300
    assert ratio.owed == 0


def test_both_ratios_add_up():
    ratio = UpdateRatio(Fraction("0.25"), Fraction("0.3"))
    due = [ratio.due(2, 1) for _ in range(20)]
    assert (due[:5], sum(due)) == ([0, 1, 1, 1, 1], 16)
