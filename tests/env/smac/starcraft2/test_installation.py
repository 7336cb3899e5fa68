"""What of the game is found, what is missing, and what to type."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from rltrain.battles.data.maps import MAPS
from rltrain.battles.native import RULES_VERSION
from rltrain.env.smac.starcraft2 import installation
from rltrain.env.smac.starcraft2.installation import (
    about_game,
    choose_backend,
    missing,
    package_folder,
)
from rltrain.env.smac.starcraft2.worker import use_python_protobuf
from rltrain.env.smac.vector import SmacVectorEnv
from tests.env.smac.starcraft2.stand_in import install_game, install_package


@pytest.fixture
def nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No game here, and no package but what a test puts into ``python``."""
    monkeypatch.setenv("SC2PATH", str(tmp_path / "game"))
    (tmp_path / "python").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path / "python"))
    monkeypatch.setattr(installation, "NEEDED_MODULES", ())
    return tmp_path


def test_every_missing_part_is_listed_with_a_command(nothing: Path) -> None:
    with pytest.raises(ValueError, match=r"env\.backend=sc2") as error:
        SmacVectorEnv(map_name="3m", n_envs=1, backend="sc2")
    text = str(error.value)
    for part in (
        f"the Python package smac: {sys.executable} -m pip install --no-deps git+https://github.com/oxwhirl/smac.git",
        f"StarCraft II in {nothing / 'game'}: ",
        "the map 3m.SC2Map",
        "env.backend=native",
        "mode=doctor",
    ):
        assert part in text


def test_installed_parts_are_not_missing(nothing: Path) -> None:
    assert len(missing("smac", "3m")) == 3
    install_package(nothing / "python")
    assert len(missing("smac", "3m")) == 2
    install_game(nothing / "game")
    assert [m.what.split()[1] for m in missing("smac", "3m")] == ["map"]
    (nothing / "game" / "Maps" / "SMAC_Maps" / "3m.SC2Map").touch()
    assert missing("smac", "3m") == []


def test_auto_chooses_the_game_only_if_all_parts_are_installed(nothing: Path) -> None:
    install_package(nothing / "python")
    assert choose_backend("auto", "smac", "3m") == "native"
    install_game(nothing / "game", "3m")
    assert choose_backend("auto", "smac", "3m") == "sc2"
    assert choose_backend("sc2", "smac", "3m") == "sc2"
    assert choose_backend("native", "smac", "3m") == "native"
    assert choose_backend("auto", "smacv2", "32x32_flat") == "native"


def test_optimizer_package_of_the_same_name_is_not_smac(nothing: Path) -> None:
    (nothing / "python" / "smac").mkdir()
    (nothing / "python" / "smac" / "__init__.py").touch()
    assert package_folder("smac") is None


def test_install_commands_are_valid_shell_commands(nothing: Path) -> None:
    """Both packages' maps have archives of the same name; the game's folder may have another."""
    lines = [m.fix for package in ("smac", "smacv2") for m in missing(package, "3m")]
    assert len(lines) == 6
    subprocess.run(["bash", "-n"], input="\n".join(lines), text=True, check=True)
    files = re.findall(r"wget -O (\S+)", " ".join(dict.fromkeys(lines)))
    assert sorted(files) == ["SC2.zip", "smac_maps.zip", "smacv2_maps.zip"]
    assert all(f"mkdir -p '{nothing}/game/Maps/SMAC_Maps'" in line for line in lines[2::3])
    assert lines[1].endswith(f"mv '{nothing}/StarCraftII' '{nothing}/game'")


def test_scripted_policies_use_the_engine_unless_the_game_is_requested(nothing: Path) -> None:
    install_package(nothing / "python")
    install_game(nothing / "game", "3m")
    assert choose_backend("auto", "smac", "3m", scripted=True) == "native"
    assert choose_backend("sc2", "smac", "3m", scripted=True) == "sc2"


def test_requested_game_version_is_recorded(nothing: Path) -> None:
    install_game(nothing / "game", "3m")
    assert about_game("smac", "4.6.2")["game"] == "4.6.2"
    assert about_game("smac")["game"].startswith("Base")


def test_absent_modules_are_named(nothing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "NEEDED_MODULES", ("no_such_module_here",))
    install_package(nothing / "python")
    assert "no_such_module_here" in missing("smac", "3m")[0].what


def test_built_in_engine_is_recorded_as_backend() -> None:
    about = SmacVectorEnv(map_name="3m", n_envs=1).about
    assert about == {"backend": "native", "rules_version": RULES_VERSION}


@pytest.mark.skipif(package_folder("smac") is None, reason="the smac package is not installed")
def test_our_maps_are_those_of_the_package() -> None:
    use_python_protobuf()
    registry = pytest.importorskip("smac.env.starcraft2.maps.smac_maps").map_param_registry

    assert set(registry) == set(MAPS)
    for name, theirs in registry.items():
        ours = MAPS[name]
        assert theirs["n_agents"] == ours.n_agents, name
        assert theirs["n_enemies"] == ours.n_enemies, name
        assert theirs["limit"] == ours.limit, name
        assert theirs["unit_type_bits"] == ours.unit_type_bits, name
        assert theirs["map_type"] == ours.map_type, name
