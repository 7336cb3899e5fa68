"""Maps of any size by name."""

import numpy as np
import pytest

from rltrain.battles.data.maps import find_map
from rltrain.battles.data.spawn import start_points
from tests.battles.conftest import random_legal


@pytest.mark.parametrize(
    ("map_name", "agents", "enemies", "bits"),
    [
        ("4m", ["marine"] * 4, ["marine"] * 4, 0),
        ("7m_vs_8m", ["marine"] * 7, ["marine"] * 8, 0),
        ("4s_vs_6z", ["stalker"] * 4, ["zealot"] * 6, 0),
        ("2s3z_vs_3z2s", ["stalker"] * 2 + ["zealot"] * 3, ["zealot"] * 3 + ["stalker"] * 2, 2),
        ("2z1s_vs_8zg", ["stalker"] + ["zealot"] * 2, ["zergling"] * 8, 2),
        ("3c_vs_1s1z", ["colossus"] * 3, ["stalker", "zealot"], 3),
        ("64m", ["marine"] * 64, ["marine"] * 64, 0),
        ("2m3z_vs_1s2m", ["marine"] * 2 + ["zealot"] * 3, ["stalker"] + ["marine"] * 2, 2),
    ],
)
def test_teams_of_a_name_can_be_played(battle, map_name, agents, enemies, bits) -> None:
    b, rng = battle(map_name), np.random.default_rng(0)
    assert (list(b.map_data.ally_types), list(b.map_data.enemy_types)) == (agents, enemies)
    assert b.map_data.unit_type_bits == bits
    points = np.array(start_points(b.map_data))
    gaps = np.hypot(*(points[:, None] - points[None]).transpose(2, 0, 1))
    assert gaps[~np.eye(len(points), dtype=bool)].min() > 0.6
    while not b.ended[0]:
        b.step(random_legal(b.avail, rng))
    assert b.world.clock[0] <= b.map_data.limit
    assert np.isfinite(b.obs).all()


def test_other_sizes_stand_as_on_smac_maps() -> None:
    """The first units of a larger team stand where a smaller one does."""
    small, large = (np.array(start_points(find_map(name))) for name in ("3m", "4m"))
    assert {tuple(p) for p in small[:3]} < {tuple(p) for p in large[:4]}


@pytest.mark.parametrize(
    ("map_name", "message"),
    [
        ("0m", "expected 1 to 64 units in all"),
        ("3m_vs_65m", "expected 1 to 64 units in all"),
        ("2s0z", "at least one of every type"),
        ("3q_vs_3m", "unknown units .*: 3q.* type for example 7m_vs_8m"),
        ("3m2m", "names marines of one team twice"),
        ("m_vs_8m", "unknown SMAC map"),
        ("3m_vs_", "unknown SMAC map"),
        ("-3m", "unknown SMAC map"),
        ("3m_vs_4m_vs_5m", "unknown SMAC map"),
    ],
)
def test_other_names_are_refused(map_name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find_map(map_name)
