"""YAML of one's own: folders beside the shipped configuration, presets by their path, and the
config.json of a run that is repeated. It is composed, checked and suggested as ours is. Of a file
that cannot be parsed, the reason and the line are named.
"""

import json
from pathlib import Path

import pytest

import rltrain
from rltrain.api import settings_from
from rltrain.common.files import get_json
from rltrain.config.compose import compose_checked
from rltrain.errors import CheckpointError, RltrainError, UsageError
from rltrain.main import run
from tests.helpers import over, without

PRESET = """
defaults:
  - override /algo: vdn
  - override /env: two_step
algo:
  batch_size: 9
"""
FILES = {
    "experiment/mine.yaml": f"# @package _global_{PRESET}",
    "env/my_game.yaml": "_target_: rltrain.env.MatrixGames\ngame: climbing  # the payoff table\n"
    "length: 1  # env steps\n",
    "algo/network/small.yaml": "_target_: rltrain.algo.GRUAgents\nhidden_dim: 8\nlayers: 1\n",
}


@pytest.fixture
def folder(own_folder):
    """A folder of YAML, and a preset that lies elsewhere."""
    for name, text in FILES.items():
        (own_folder / "myconf" / name).parent.mkdir(parents=True, exist_ok=True)
        (own_folder / "myconf" / name).write_text(text)
    (own_folder / "my preset.yaml").write_text(PRESET)
    return own_folder


@pytest.mark.parametrize(
    "overrides",
    [
        *(
            pytest.param([f"hydra.searchpath=[{path}]", "experiment=mine"], marks=pytest.mark.slow)
            for path in ("myconf", "file://myconf")
        ),
        ["experiment=./my preset.yaml"],
        ["experiment=my preset.yaml", "hydra.searchpath=[myconf]"],
    ],
    ids=" ".join,
)
def test_a_preset_of_ones_own(folder, overrides):
    settings = settings_from([*overrides, "seed=3"])
    assert (settings.choices["algo"], settings.choices["env"]) == ("vdn", "two_step")
    assert (settings.algo.batch_size, settings.run.seed) == (9, 3)
    assert Path(settings.choices["experiment"]).stem in ("mine", "my preset")


def test_options_of_groups_of_ones_own(folder):
    overrides = ["hydra.searchpath=[myconf]", "env=my_game", "algo=vdn", "env.game=qtran"]
    assert settings_from(overrides).nodes["env"].kwargs == {"game": "qtran", "length": 1}
    assert settings_from(overrides).choices["env"] == "my_game"


def test_a_scripted_policy_is_evaluated_in_an_environment_of_ones_own(command, folder):
    """Defect: the folder was refused, as for a checkpoint, which has its configuration."""
    words = ["--config-dir=myconf", "mode=evaluate", "algo=scripted", "algo.policy=random"]
    assert command(*words, "env=my_game", "test.episodes=1") == 0
    with pytest.raises(UsageError, match="Hydra's own settings"):
        command(*words[:2], "checkpoint=demo/3m")


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["--config-dir=myconf", "--config-dir myconf", "-cd myconf"])
def test_the_flag_of_the_command(command, small, folder, flag):
    base = without(small, "env=", "algo.")
    assert command(*flag.split(), *base, "experiment=mine", "hydra.run.dir=run") == 0
    config = get_json(folder / "run/config.json")
    assert (config["choices"]["experiment"], config["algo"]["batch_size"]) == ("mine", 9)


@pytest.mark.slow
def test_in_a_sweep_and_from_python(command, small, folder):
    base = over(without(small, "env=", "algo."), "total_env_steps=40")
    sweep = ["experiment=mine,./my preset.yaml", "hydra.sweep.dir=s"]
    assert command("-m", "--config-dir=myconf", *base, *sweep) == 0
    configs = [get_json(p) for p in sorted(folder.glob("s/*/config.json"))]
    assert [config["algo"]["batch_size"] for config in configs] == [9, 9]
    result = rltrain.train([*base, "experiment=./my preset.yaml"], progress=False)
    assert get_json(result.run_dir / "config.json")["choices"]["algo"] == "vdn"


def test_a_file_that_was_changed_is_read_again(folder):
    overrides = ["experiment=./my preset.yaml"]
    assert settings_from(overrides).algo.batch_size == 9
    (folder / "my preset.yaml").write_text(PRESET.replace("9", "11"))
    assert settings_from(overrides).algo.batch_size == 11


WRONG = {
    "hydra.searchpath=[nowhere]": r"there is no folder .*nowhere",
    "hydra.searchpath=[myconf/env]": r"holds none of the groups algo, ",
    "experiment=./nothing.yaml": r"there is no file .*nothing\.yaml",
    "hydra.searchpath=[myconf] experiment=mime": "unknown experiment 'mime'.*experiment=mine",
    "hydra.searchpath=[myconf] env=my_gme": r"unknown env 'my_gme'.*env=my_game",
    "env=./my.yaml": r"--config-dir=FOLDER with FOLDER/env/NAME\.yaml",
}


@pytest.mark.parametrize("line", WRONG)
def test_what_is_not_there_is_named(folder, line):
    with pytest.raises(UsageError, match=f"(?s){WRONG[line]}"):
        compose_checked(line.split())


UNKNOWN = r"Unknown key '{}' in .*/broken\.yaml. Did you mean '{}'"
BROKEN = {
    "algo: {batch_siz: 3}": UNKNOWN.format(r"algo\.batch_siz", r"algo\.batch_size"),
    "sed: 3": UNKNOWN.format("sed", "seed"),
    "algo: {loss: {gama: 0.9}}": r"algo\.loss\.gama",
    "algo: {batch_size: many}": r"algo\.batch_size=many: expected a whole number",
    "defaults: [override /algo: dqnn]": r"dqnn.*/broken\.yaml",
    "algo: [": r"cannot be composed: .*broken\.yaml",
}


@pytest.mark.parametrize("text", BROKEN)
def test_a_preset_of_ones_own_is_checked_like_ours(own_folder, text):
    (own_folder / "broken.yaml").write_text(f"{text}\n")
    with pytest.raises(UsageError, match=BROKEN[text]):
        settings_from(["experiment=./broken.yaml"])


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("experiment/mine", "seed: 3\n", "# @package _global_"),
        (
            "env/smac",
            "_target_: my.Thing\n",
            r"smac\.yaml has the name of a file that rltrain ships",
        ),
    ],
)
def test_a_file_without_its_header_or_of_a_shipped_name_is_explained(folder, name, text, said):
    (folder / f"myconf/{name}.yaml").write_text(text)
    with pytest.raises(UsageError, match=said):
        settings_from(["hydra.searchpath=[myconf]", "experiment=mine"])


def test_help_and_completion_know_them(command, folder, capsys, monkeypatch):
    assert command("--config-dir=myconf", "--help", "env=my_game") == 0
    assert "game" in capsys.readouterr().out
    monkeypatch.setenv("COMP_LINE", "rltrain --config-dir=myconf env=my")
    assert command("-sc", "query=bash") == 0
    assert capsys.readouterr().out == "env=my_game\n"


@pytest.mark.slow
def test_a_run_is_repeated_from_its_config(command, small, folder):
    assert command(*small, "seed=5", "hydra.run.dir=first") == 0
    for path in ("first/config.json", "first"):
        again = [f"config={path}", "total_env_steps=40", "hydra.run.dir=again-" + Path(path).name]
        assert command(*again) == 0
    first, again = (get_json(folder / name / "config.json") for name in ("first", "again-first"))
    changed = {key for key in first if first[key] != again[key]}
    assert changed == {"total_env_steps", "config"}
    assert again["config"] == str(folder / "first")


@pytest.mark.slow
def test_repeated_runs_can_be_swept(command, small, folder):
    words = ["env=matrix", "algo=vdn", "total_env_steps=40", "hydra.run.dir=first"]
    assert command(*over(small, *words)) == 0
    sweep = ["config=first", "env.game=climbing,qtran", "hydra.sweep.dir=s"]
    assert command("-m", *sweep) == 0
    configs = [get_json(p) for p in sorted(folder.glob("s/*/config.json"))]
    found = [(c["choices"]["algo"], c["env"]["game"], c["total_env_steps"]) for c in configs]
    assert found == [("vdn", "climbing", 40), ("vdn", "qtran", 40)]


def test_a_repeated_run_takes_foreign_data_as_such(command, small, folder):
    assert command(*small, "total_env_steps=40", "hydra.run.dir=first") == 0
    config = get_json(Path("first/config.json"))
    Path("bad.json").write_text(json.dumps({**config, "seed": "${oc.env:HOME}"}))
    with pytest.raises(CheckpointError, match="interpolation"):
        command("config=bad.json")
    Path("bad.json").write_text(json.dumps({**config, "callbacks": [{"_target_": "os.system"}]}))
    with pytest.raises(CheckpointError, match=r"os\.system.*trust=\[os\]"):
        command("config=bad.json")
    typed = compose_checked(["config=first", "seed=9", "dataset.held_out=0.4"]).settings().typed
    assert typed - {"dataset"} == {"config", "seed", "dataset.held_out"}
    with pytest.raises(UsageError, match="repeats a run with its algo"):
        command("config=first", "algo=vdn")
    absent = r"none\.json is not there: expected the config\.json"
    with pytest.raises(CheckpointError, match=absent):
        command("config=none.json")
    with pytest.raises(UsageError, match="sed"):
        command("config=first", "sed=3")


YAML = "name: mine\nlimit: 9\nallies: [1, }\n"
JSON = '{\n "overrides": [],\n "metric": }'
PLAIN = ("algo=dqn", "env=cartpole")
UNPARSED = {
    "map.yaml": ("algo=qmix", "env=smac", "env.map_file=map.yaml"),
    "starts.json": ("algo=qmix", "env=smac", "env.start_positions=starts.json"),
    "preset.yaml": (*PLAIN, "experiment=preset.yaml"),
    "conf/experiment/mine.yaml": ("--config-dir=conf", *PLAIN, "experiment=mine"),
    "conf/env/mine.yaml": ("--config-dir=conf", "algo=dqn", "env=mine"),
    "conf/tune/mine.yaml": ("--config-dir=conf", "mode=tune", *PLAIN, "tune=mine"),
    "saved.json": ("config=saved.json",),
    "run/config.json": ("resume=run",),
    "sweep/sweep.json": ("resume=sweep",),
    "study/study.json": ("mode=tune", *PLAIN, "tune.dir=study"),
    "data/dataset.json": (*PLAIN, "dataset.read=data"),
}


@pytest.mark.parametrize("name", UNPARSED)
def test_the_file_the_reason_and_the_line_are_named(own_folder, name):
    """Defect: of a map only the line was named, of a study nothing."""
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(JSON if path.suffix == ".json" else YAML, encoding="utf-8")
    with pytest.raises(RltrainError) as found:
        run(UNPARSED[name])
    message = str(found.value)
    assert name in message
    assert "line 3" in message
    assert "xpect" in message  # that something else was expected
    assert "\n" not in message
    assert found.value.exit_code in (2, 3)
