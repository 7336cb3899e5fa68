"""``env.maps``: one policy for maps of several sizes."""

import json
from contextlib import nullcontext
from pathlib import Path

import pytest

from rltrain.api import settings_from
from rltrain.battles.data.map_file import SHIPPED
from rltrain.common.files import get_json
from rltrain.errors import UsageError

SMALL = (
    *("algo=qmix", "env=smac", "total_env_steps=60", "test.interval=60", "test.episodes=2"),
    *("test.n_envs=2", "hardware.n_envs=2", "hardware.threads=1", "algo.batch_size=2"),
    *("buffer.capacity=20", "logger=[]", "logger.console=false", "hydra.run.dir=run"),
)
ENTITIES = ("algo/network=attention", "algo.network.embed_dim=8", "algo/mixer=entities")
SHORT = "total_env_steps=20"
OWN = SHIPPED / "ambush.yaml"
MAPS = "env.maps=[3m,5m_vs_6m]"


@pytest.mark.slow
def test_results_are_those_of_each_map_and_other_maps_can_be_played(command, capsys):
    assert command(*SMALL, MAPS, *ENTITIES) == 0
    rows = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    tests = [row for row in rows if "test/win_rate" in row]
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
    assert command(*SMALL[:-1], MAPS, *ENTITIES, "hydra.run.dir=on", "checkpoint=run", SHORT) == 0


REFUSED = [
    (ENTITIES[2:], r"GRUAgents \(algo\.network\) takes one size only"),
    ((*ENTITIES[:2], "algo.network.agent_id=true"), r"AttentionAgents .* takes one size only"),
    ((*ENTITIES[:2],), "the mixer QMix is for teams of one size"),
    ((*ENTITIES[:2], "algo=iql"), "the mixer Independent is for teams of one size"),
    ((*ENTITIES, "algo=ow_qmix"), "algo/critic=central is for teams of one size"),
    ((*ENTITIES, "env.start_positions=x.json"), r"env\.start_positions=x\.json apply to one map"),
    ((*ENTITIES, "env.obs_last_action=true"), r"env\.obs_last_action=true shows more"),
    ((*ENTITIES, "env.obs_instead_of_state=true"), r"env\.obs_instead_of_state=true shows more"),
    ((*ENTITIES, "env.opponent=closest"), "needs the built-in engine and its own enemies"),
    ((*ENTITIES, "env.map_weights=[1,-2]"), r"env\.map_weights"),
    ((*ENTITIES, "env.map_weights=hard"), r"env\.map_weights"),
    (
        (*ENTITIES, "env.map_name=3m"),
        r"takes the place of env\.map_name=3m\. Type env\.maps=\[3m\]",
    ),
    ((*ENTITIES, "env.map_name=2s3z"), r"takes the place of env\.map_name=2s3z"),
    (
        (*ENTITIES, "+test.env.map_name=2s3z"),
        r"place of test\.env\.map_name=2s3z.*\+test\.env\.maps=",
    ),
    (
        (*ENTITIES, f"env.map_file={OWN}"),
        r"is none of env.maps=.*Type 'env\.maps=\[3m,5m_vs_6m,ambush",
    ),
    (("env.maps=null", "env.map_weights=[1,2]"), r"apply to env\.maps, which is not set"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED)
def test_what_does_not_fit_several_maps_is_refused_in_one_sentence(command, words, message):
    typed = {word.partition("=")[0]: word for word in (*SMALL, MAPS, *words)}
    with pytest.raises(UsageError, match=message):
        command(*typed.values())


@pytest.mark.parametrize("in_file", ["maps: [3m, 8m], ", ""])
def test_a_map_in_a_file_gives_way_to_typed_maps_only(own_folder, in_file):
    (own_folder / "mine.yaml").write_text(f"env: {{{in_file}map_name: 2m_vs_1z}}")
    words = [*SMALL[:2], "experiment=mine.yaml", *ENTITIES]
    typed = [] if in_file else [MAPS]
    with pytest.raises(UsageError, match="place of env") if in_file else nullcontext():
        assert settings_from([*words, *typed]).plain["env"]["map_name"] == "2m_vs_1z"
