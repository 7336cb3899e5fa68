"""A checkpoint that was trained under another version of the battle rules."""

import json
from pathlib import Path

import pytest

from rltrain.mode.find_run import other_rules

NOW = {"backend": "native", "rules_version": "4"}


def checkpoint_of(folder: Path, environment: dict[str, str] | None) -> Path:
    facts = {} if environment is None else {"environment": environment}
    (folder / "run.json").write_text(json.dumps(facts), encoding="utf-8")
    return folder / "checkpoints" / "100"


@pytest.mark.parametrize("key", ["rules", "rules_version"])
def test_another_version_is_remarked_with_both_names(tmp_path: Path, key) -> None:
    trained = {"backend": "native", key: "smaclite"}
    (remark,) = other_rules(checkpoint_of(tmp_path, trained), NOW)
    assert "version smaclite" in remark
    assert "version 4" in remark


def test_of_a_long_version_the_beginning_is_shown(tmp_path: Path) -> None:
    trained = {**NOW, "rules_version": "A" * 300_000}
    (remark,) = other_rules(checkpoint_of(tmp_path, trained), NOW)
    assert len(remark) < 500


@pytest.mark.parametrize(
    "trained",
    [NOW, {**NOW, "rules_version": "3, 4"}, {"backend": "sc2"}, {"backend": "native"}, None],
)
def test_the_same_version_the_game_and_unknown_runs_are_not_remarked(tmp_path, trained) -> None:
    assert other_rules(checkpoint_of(tmp_path, trained), NOW) == ()
    assert other_rules(checkpoint_of(tmp_path, trained), {}) == ()
