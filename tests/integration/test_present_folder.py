"""Modules in the current folder are someone else's unless their names were typed or are trusted:
no command on a stranger's run looks for any there, whatever its environment lacks.
"""

import json
import shutil
import sys
from contextlib import suppress

import pytest

from rltrain.config.compose import compose_checked
from rltrain.config.trust import PUBLISHED
from rltrain.env.team.make_pettingzoo import find_maker
from rltrain.errors import RltrainError
from tests.helpers import forged
from tests.marks import slow_except

LACKED = ("chess", "rlcard", "pymunk", "Box2D", "ale_py", "minatar", "coverage", "colorama")
"""Packages that environments, or what they import, try to import."""
IDS = [f"{package}.{name}" for package, names in PUBLISHED.items() for name in names.split()]
COMMANDS = (
    *("mode=evaluate checkpoint=run", "mode=watch checkpoint=run", "mode=export checkpoint=run"),
    *("resume=run total_env_steps=160", "config=run total_env_steps=10", "mode=report runs=run"),
    *("mode=push checkpoint=run hub.repo=a/b", "mode=match checkpoints=[run,closest]"),
    *("mode=doctor config=run", "resume=sweep", "env=two_step checkpoint=run total_env_steps=10"),
)
KINDS = {
    **{name: [f"env={name}"] for name in ("mpe", "magent", "lbf", "rware", "atari", "minatar")},
    "Box2D": ["env=gymnasium", "env.id=LunarLander-v3"],
    "MuJoCo": ["env=gymnasium", "env.id=Ant-v5"],
    **{name: ["env=pettingzoo", f"env.id={name}"] for name in IDS},
}
"""What is typed for every kind of environment that a file may name."""
CHESS = "pettingzoo.classic.chess_v6"
FAST_KINDS = [kind for kind in KINDS if kind not in IDS or kind in {*IDS[::6], CHESS}]
TRIED = [(COMMANDS[0], kind) for kind in KINDS] + [(each, CHESS) for each in COMMANDS[1:]]
FAST = [(words, kind) for words, kind in TRIED[:-2] if kind in FAST_KINDS]


class Looking:
    """A finder that writes down what is looked for while the current folder is on the path."""

    def __init__(self, folder):
        self.folder, self.names = str(folder), []

    def find_spec(self, name, path=None, target=None):
        if path is None and self.folder in sys.path:
            self.names.append(name)


@pytest.fixture
def looked_for(own_folder, monkeypatch):
    """Names of modules that were looked for in the current folder."""
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p not in ("", str(own_folder))])
    looking = Looking(own_folder)
    monkeypatch.setattr(sys, "meta_path", [looking, *sys.meta_path])
    for name in LACKED:
        (own_folder / f"{name}.py").write_text("open('EXECUTED', 'w').close()")
    yield looking.names
    assert not (own_folder / "EXECUTED").exists()


@pytest.mark.sampled(12)
@pytest.mark.usefixtures("figures_not_drawn")
@pytest.mark.parametrize("tried", slow_except(FAST, TRIED), ids=" ".join)
def test_no_command_imports_from_there_for_a_strangers_run(
    command, trained_once, own_folder, looked_for, tried
):
    words, typed = tried[0], KINDS[tried[1]]
    shutil.copytree(trained_once, "run")
    forged(own_folder / "run", env=compose_checked([*typed, "algo=iql"]).plain["env"])
    jobs = [{"folder": "0", "overrides": [*typed, "algo=iql", "total_env_steps=10", "logger=[]"]}]
    plan = {"config_sha256": "0", "n_jobs": 1, "started": "", "jobs": jobs}
    plan |= {key: ["seed=1"] for key in ("overrides", "typed")}
    (own_folder / "sweep").mkdir()
    (own_folder / "sweep/sweep.json").write_text(json.dumps(plan))
    with suppress(RltrainError):  # the weights are of another environment
        command(*words.split(), *(["test.episodes=1"] if "mode=" in words else []))
    assert looked_for == []


@pytest.mark.parametrize("id", IDS)
def test_a_published_environment_is_of_an_installed_package_even_if_that_is_missing(
    own_folder, looked_for, monkeypatch, id
):
    package, _, module = id.rpartition(".")
    folder = own_folder.joinpath(*package.split("."))
    folder.mkdir(parents=True)
    for path in (own_folder / package.partition(".")[0] / "__init__.py", folder / f"{module}.py"):
        path.write_text("open('EXECUTED', 'w').close()\nenv = print")
    for name in [*sys.modules]:
        if name.partition(".")[0] == package.partition(".")[0]:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if "site-packages" not in p])
    with pytest.raises(ValueError, match=f"env.id={id}"):
        find_maker(id)
    assert looked_for == []
