"""Opponents play the map that they were trained on, which may be that of a file."""

import shutil
from pathlib import Path

import pytest

import rltrain
from rltrain.errors import UsageError
from tests.integration.test_opponents import SELF, made, trained

OWN = """
name: {}
limit: 60
allies: [{{unit: marine, count: 3, at: [8, 16]}}]
enemies: [{{unit: {}, count: 3, at: [24, 16]}}]
"""


@pytest.fixture(scope="session")
def own_maps(tmp_path_factory) -> Path:
    """Files of maps and runs on them, beside that on 3m."""
    folder = tmp_path_factory.mktemp("own_maps")
    trained(folder / "vdn-3m", "total_env_steps=20")
    for name, unit in (("even", "marine"), ("uneven", "zergling")):
        (folder / f"{name}.yaml").write_text(OWN.format(name, unit))
        trained(folder / name, f"env.map_file={folder / name}.yaml", "total_env_steps=20")
    shutil.copy(folder / "even.yaml", folder / "same.yaml")
    return folder


@pytest.mark.parametrize(
    ("words", "trained_on", "here"),
    [
        ("env.map_file=@/same.yaml env.map_name=8m env.opponent=@/even", "", ""),
        ("env.map_file=@/even.yaml test.opponent=@/even", "", ""),
        (
            "env.map_file=@/uneven.yaml env.opponent=@/even",
            "@/even/files/env.map_file",
            "@/uneven.yaml",
        ),
        ("env.map_file=@/even.yaml env.opponent=@/vdn-3m", "3m", "@/even.yaml"),
        ("env.map_name=3m env.opponent=@/uneven", "@/uneven/files/env.map_file", "3m"),
        ("+test.env.map_file=@/even.yaml test.opponent=@/vdn-3m", "3m", "@/even.yaml"),
    ],
)
def test_an_opponent_was_trained_on_the_map_that_is_played(
    words, trained_on, here, own_maps, tmp_path
):
    """Defect: files of maps did not count, but the name that they take the place of did."""
    words, trained_on, here = (
        text.replace("@", str(own_maps)) for text in (words, trained_on, here)
    )
    if not here:
        made(tmp_path / "run", *words.split()).close()
        return
    with pytest.raises(UsageError) as refused:
        made(tmp_path / "run", *words.split())
    assert f"was trained on smac {trained_on}, and this run is on smac {here}: " in str(
        refused.value
    )


@pytest.mark.slow
def test_copies_of_opponents_are_played_on_the_copy_of_a_map(own_maps, tmp_path):
    own = shutil.copy(own_maps / "even.yaml", tmp_path / "own.yaml")
    mixed = f"env.opponents={{self: 3, {own_maps / 'even'}: 1}}"
    trained(tmp_path / "run", f"env.map_file={own}", mixed, *SELF[1:])
    Path(own).unlink()
    rltrain.resume(tmp_path / "run", 210, progress=False)
    snapshot = next((tmp_path / "run/pool").iterdir())
    for other in ("self", own_maps / "even", tmp_path / "run/opponents/even", snapshot):
        rltrain.evaluate(tmp_path / "run", 1, overrides=[f"test.opponent={other}"])
        rltrain.evaluate(snapshot, 1, overrides=[f"test.opponent={own_maps / 'even'}"])
