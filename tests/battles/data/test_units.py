"""Units' numbers: those of the maps for agents, those of the game for enemies."""

import numpy as np
import pytest

from rltrain.battles import Battles, Options
from rltrain.battles.data.units import AGENT_UNITS, UNITS
from rltrain.battles.engine.world import P

DIFFER = {"hydralisk": {"health": (80, 90)}, "medivac": {"speed": (2.75, 2.5)}}


def test_two_types_differ() -> None:
    assert {name for name in UNITS if AGENT_UNITS[name] != UNITS[name]} == set(DIFFER)
    assert AGENT_UNITS["medivac"].acceleration == 2.3125


@pytest.mark.parametrize(
    ("map_name", "unit"), [("MMM", "medivac"), ("zerg_10_vs_11", "hydralisk"), ("MMM2", "medivac")]
)
def test_each_side_has_its_own(map_name: str, unit: str) -> None:
    battles = Battles(map_name=map_name, n_envs=8, options=Options())
    battles.reset({e: e for e in range(8)})
    ((name, (of_agents, of_enemies)),) = DIFFER[unit].items()
    agents, seen = battles.map_data.n_agents, 0
    for e in range(8):
        kinds = [kind.sc2_id == UNITS[unit].sc2_id for kind in battles.unit_types(e)]
        expected = np.where(np.arange(len(kinds)) < agents, of_agents, of_enemies)
        values = battles.table("param", e)[P.HEALTH if name == "health" else P.SPEED]
        assert values[kinds].tolist() == expected[kinds].tolist()
        assert [getattr(k, name) for k in battles.unit_types(e)] == pytest.approx(values.tolist())
        seen += sum(kinds)
    assert seen >= 8
    assert battles.max_reward(0) == pytest.approx(
        10 * (len(kinds) - agents)
        + 200
        + sum(k.health + k.shield for k in battles.unit_types(0)[agents:])
    )


def test_smaclite_has_one_table() -> None:
    from rltrain.battles.smaclite.maps import find_map_under

    row = find_map_under("smaclite", "2s3z")
    assert row.agent_units is row.units
