"""A file that a command names and that cannot be parsed: the file, the reason and the line."""

from pathlib import Path

import pytest

from rltrain.errors import RltrainError
from rltrain.main import run

YAML = "name: mine\nlimit: 9\nallies: [1, }\n"
JSON = '{\n "overrides": [],\n "metric": }'
BASE = ("algo=dqn", "env=cartpole")
FILES = {
    "map.yaml": ("algo=qmix", "env=smac", "env.map_file=map.yaml"),
    "starts.json": ("algo=qmix", "env=smac", "env.start_positions=starts.json"),
    "preset.yaml": (*BASE, "experiment=preset.yaml"),
    "conf/experiment/mine.yaml": ("--config-dir=conf", *BASE, "experiment=mine"),
    "conf/env/mine.yaml": ("--config-dir=conf", "algo=dqn", "env=mine"),
    "conf/tune/mine.yaml": ("--config-dir=conf", "mode=tune", *BASE, "tune=mine"),
    "saved.json": ("config=saved.json",),
    "run/config.json": ("resume=run",),
    "sweep/sweep.json": ("resume=sweep",),
    "study/study.json": ("mode=tune", *BASE, "tune.dir=study"),
    "data/dataset.json": (*BASE, "dataset.read=data"),
}


@pytest.mark.parametrize("name", FILES)
def test_the_file_the_reason_and_the_line_are_named(own_folder, name):
    """Defect: of a map only the line was named, of a study nothing."""
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(JSON if path.suffix == ".json" else YAML, encoding="utf-8")
    with pytest.raises(RltrainError) as found:
        run(FILES[name])
    message = str(found.value)
    assert name in message
    assert "line 3" in message
    assert "xpect" in message  # that something else was expected
    assert "\n" not in message
    assert found.value.exit_code in (2, 3)
