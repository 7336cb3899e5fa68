"""Maps of battles: one policy for several of them (``env.maps``), and opponents that were trained
on a map, which may be that of a file.
"""

import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest

import rltrain
from rltrain.api import settings_from
from rltrain.battles.data.map_file import SHIPPED
from rltrain.common.files import get_json
from rltrain.errors import UsageError
from tests.helpers import json_lines, over
from tests.integration.test_opponents import SELF, made, trained

SMALL = (
    *("algo=qmix", "env=smac", "total_env_steps=60", "test.interval=60", "test.episodes=2"),
    *("test.n_envs=2", "hardware.n_envs=2", "hardware.threads=1", "algo.batch_size=2"),
    *("buffer.capacity=20", "logger=[]", "logger.console=false", "hydra.run.dir=run"),
)
ENTITIES = ("algo/network=attention", "algo.network.embed_dim=8", "algo/mixer=entities")
OWN = SHIPPED / "ambush.yaml"
MAPS = "env.maps=[3m,5m_vs_6m]"


@pytest.mark.slow
def test_results_are_those_of_each_map_and_other_maps_can_be_played(command, capsys):
    assert command(*SMALL, MAPS, *ENTITIES) == 0
    tests = [row for row in json_lines(Path("run/metrics.jsonl")) if "test/win_rate" in row]
    assert all({"test/win_rate/3m", "test/win_rate/5m_vs_6m"} <= {*row} for row in tests)
    words = ("mode=evaluate", "checkpoint=run", "test.episodes=2")
    assert command(*words, "env.maps=[10m,2s3z]") == 0
    assert "win rate (10m)" in capsys.readouterr().out
    played = get_json(Path("run/evaluation.json"))["episodes"]
    assert [each["map"] for each in played] == ["10m", "2s3z"]
    for name in ("10m", "3m", "2s3z"):  # defect: defaults of environments were ignored
        with pytest.raises(UsageError, match=rf"of env\.map_name={name}.*env\.maps=\[{name}\]"):
            command(*words, f"env.map_name={name}")
    assert command(*words, "record=html") == 0
    words = ("hydra.run.dir=on", "checkpoint=run", "total_env_steps=20")
    assert command(*over(SMALL, MAPS, *ENTITIES, *words)) == 0


@pytest.mark.parametrize("in_file", ["maps: [3m, 8m], ", ""])
def test_a_map_in_a_file_gives_way_to_typed_maps_only(own_folder, in_file):
    (own_folder / "mine.yaml").write_text(f"env: {{{in_file}map_name: 2m_vs_1z}}")
    words = [*SMALL[:2], "experiment=mine.yaml", *ENTITIES]
    typed = [] if in_file else [MAPS]
    with pytest.raises(UsageError, match="place of env") if in_file else nullcontext():
        assert settings_from([*words, *typed]).plain["env"]["map_name"] == "2m_vs_1z"


OWN_MAP = """
name: {}
limit: 60
allies: [{{unit: marine, count: 3, at: [8, 16]}}]
enemies: [{{unit: {}, count: 3, at: [24, 16]}}]
"""


@pytest.fixture(scope="session")
def own_maps(tmp_path_factory, opponent) -> Path:
    """Files of maps and runs on them, beside that on 3m."""
    folder = tmp_path_factory.mktemp("own_maps")
    shutil.copytree(opponent, folder / "vdn-3m")
    for name, unit in (("even", "marine"), ("uneven", "zergling")):
        (folder / f"{name}.yaml").write_text(OWN_MAP.format(name, unit))
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
