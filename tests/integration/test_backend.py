"""Which backend plays: refused, recorded, and changed for an evaluation."""

import shutil

import pytest

from rltrain import main as entry
from rltrain.battles.native import RULES_VERSION
from rltrain.common.files import get_json
from rltrain.errors import CheckpointError, UsageError
from tests.conftest import SMALL
from tests.env.smac.starcraft2.stand_in import install_game, install_package
from tests.helpers import without

WORDS = [
    *without(SMALL, "env=", "total_env_steps", "test."),
    *("env=smac", "total_env_steps=20", "test.episodes=1", "hydra.run.dir=run"),
]


@pytest.fixture(scope="module")
def trained_once(tmp_path_factory):
    """A short run on the built-in engine, made once."""
    folder = tmp_path_factory.mktemp("native")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("SC2PATH", str(folder / "no game"))
        assert entry.run(WORDS) == 0
    return folder / "run"


@pytest.fixture
def trained(trained_once, own_folder):
    shutil.copytree(trained_once, own_folder / "run")
    return own_folder / "run"


@pytest.fixture
def installed(tmp_path_factory, monkeypatch):
    """Stand-ins of the package and the game."""
    folder = tmp_path_factory.mktemp("installed")
    install_package(folder / "python")
    install_game(folder / "game", "3m")
    monkeypatch.syspath_prepend(str(folder / "python"))
    monkeypatch.setenv("SC2PATH", str(folder / "game"))


def record(path):
    return get_json(path)


def test_the_game_is_refused_where_it_is_not_installed(own_folder, monkeypatch):
    monkeypatch.setenv("SC2PATH", str(own_folder / "no game"))
    with pytest.raises(UsageError, match=r"(?s)missing on this machine.*StarCraft II in .*no game"):
        entry.run([*WORDS, "env.backend=sc2"])
    assert list(own_folder.iterdir()) == []


@pytest.mark.slow
def test_run_and_evaluation_say_what_played(trained):
    assert record(trained / "config.json")["env"]["backend"] == "auto"
    assert record(trained / "run.json")["environment"] == {
        "backend": "native",
        "rules_version": RULES_VERSION,
    }


@pytest.mark.slow
def test_a_policy_trained_natively_is_evaluated_in_the_game(trained, installed, capsys):
    overrides = ["mode=evaluate", f"checkpoint={trained}", "env.backend=sc2"]
    assert entry.run([*overrides, "test.episodes=3", "test.n_envs=2"]) == 0
    found = record(trained / "evaluation.json")
    assert found["environment"] == {"backend": "sc2", "package": "smac", "game": "Base75689"}
    assert [(e["length"], e["restarts"]) for e in found["episodes"]] == [(4, 0)] * 3
    assert "backend sc2" in capsys.readouterr().out


@pytest.mark.slow
def test_a_resume_in_the_game_is_refused_and_warned_of(trained, installed):
    with pytest.raises(CheckpointError, match="not played by the backend 'sc2'"):
        entry.run([f"resume={trained}", "total_env_steps=40"])
    assert "continues with {'backend': 'sc2'" in (trained / "train.log").read_text()
