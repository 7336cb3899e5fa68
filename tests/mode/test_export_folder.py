"""The folder of an export: what stands in its place, what kills left of others, what is kept; runs
whose weights are exported.
"""

import os
from pathlib import Path

import pytest

import rltrain
from rltrain.errors import StorageError, UsageError
from rltrain.mode.export.network import SHIPPED, export
from tests.helpers import full, unchanged

ONE_AGENT = ["env=cartpole", "hardware.threads=1", "hardware.n_envs=1", "tuned=none"]


def saved(overrides, folder, env=None):
    """A run folder with the weights of the initialization."""
    trainer = rltrain.make_trainer([*overrides, "test.n_envs=2"], run_dir=folder, env=env)
    trainer.start()
    trainer.save("weights")
    trainer.close()
    return folder


@pytest.fixture
def run(own_folder):
    """A run whose weights can be exported."""
    return saved([*ONE_AGENT, "algo=dqn"], own_folder / "run")


@pytest.fixture
def nothing_written(monkeypatch):
    """Exports make their folder and put nothing into it."""
    monkeypatch.setattr("rltrain.mode.export.network.written", lambda *_: {})
    monkeypatch.setattr("rltrain.mode.export.network.show", lambda *shown: None)


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("onnx", r"onnx/0 cannot be written.*copy the checkpoint"),  # nor by root
        ("onnx/0", r"onnx/0 already exists and is not a folder"),
        ("onnx/0/policy.onnx.mine", r"is not empty \(policy\.onnx\.mine\)"),
    ],
)
def test_files_in_its_place_or_beside_those_of_an_export_are_named_and_kept(run, file, said):
    (run / file).parent.mkdir(parents=True, exist_ok=True)
    names = ("policy.onnx", "export.json") if file.endswith("mine") else ()
    for path in (run / file, *(run / "onnx/0" / name for name in names)):
        path.touch()
    with unchanged(run), pytest.raises(UsageError, match=said):
        export(run, [], None)


def test_what_killed_exports_left_is_removed(run, monkeypatch, nothing_written):
    (run / "onnx/.tmp-0-77/inner").mkdir(parents=True)

    def written(settings, source, folder):
        assert [path.name for path in folder.parent.iterdir()] == [folder.name]
        return {}

    monkeypatch.setattr("rltrain.mode.export.network.written", written)
    assert export(run, [], None) == run / "onnx/0"
    assert [path.name for path in (run / "onnx").iterdir()] == ["0"]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "left",
    [
        *(["act.py"], ["policy.onnx"], ["act.py", "policy.onnx"], ["__pycache__"], []),
        ["act.py", "policy.onnx", "export.json"],
    ],
)
@pytest.mark.parametrize("place", ["0", ".tmp-0-replaced"])
@pytest.mark.usefixtures("nothing_written")
def test_what_a_killed_export_left_of_another_is_replaced(run, left, place):
    """Defect: without export.json it was someone else's."""
    (run / "onnx" / place).mkdir(parents=True)
    for name in left:
        (run / "onnx" / place / name).write_bytes(SHIPPED.read_bytes())
    assert export(run, [], None) == run / "onnx/0"
    assert [path.name for path in (run / "onnx").iterdir()] == ["0"]
    assert not [*(run / "onnx/0").iterdir()]


@pytest.mark.usefixtures("nothing_written")
def test_an_export_that_cannot_take_the_place_of_another_leaves_it(run, monkeypatch):
    """Defect: it was deleted first."""
    (run / "onnx/0").mkdir(parents=True)
    (run / "onnx/0/policy.onnx").touch()

    def replace(path, target):
        if path.name.startswith(".tmp-"):
            full()
        os.replace(path, target)

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(StorageError):
        export(run, [], None)
    assert [path.name for path in (run / "onnx").rglob("*")] == ["0", "policy.onnx"]
