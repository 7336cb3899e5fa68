"""SMACv2's scenarios: names and sizes, from tables alone."""

import pytest

from rltrain.battles.data.maps import find_map
from rltrain.battles.data.scenarios import SCENARIOS, find_scenario, scenario_options
from rltrain.battles.options import Options, compute_sizes
from rltrain.env.smac.backend import make_spec

# counts: n_actions, obs, state, then the same with a conic field of view
MORTALS = {
    "5_vs_5": (11, 82, 120, 23, 84, 190),
    "10_vs_10": (16, 162, 290, 28, 164, 430),
    "20_vs_20": (26, 322, 780, 38, 324, 1060),
    "10_vs_11": (17, 170, 306, 29, 172, 446),
    "20_vs_23": (29, 346, 858, 41, 348, 1138),
}
PROTOSS = {
    "5_vs_5": (11, 92, 130, 23, 94, 200),
    "10_vs_10": (16, 182, 310, 28, 184, 450),
    "20_vs_20": (26, 362, 820, 38, 364, 1100),
    "10_vs_11": (17, 191, 327, 29, 193, 467),
    "20_vs_23": (29, 389, 901, 41, 391, 1181),
}
TABLE = {
    f"{race}_{counts}": row
    for race, rows in (("terran", MORTALS), ("protoss", PROTOSS), ("zerg", MORTALS))
    for counts, row in rows.items()
}


def published(**options: object) -> Options:
    return Options(obs_own_pos=True, use_unit_ranges=True, **options)  # type: ignore[arg-type]


def test_there_are_exactly_the_15_published_scenarios() -> None:
    assert list(SCENARIOS) == list(TABLE)


@pytest.mark.parametrize("name", TABLE)
def test_sizes_of_the_scenario(name: str) -> None:
    row = find_scenario(name)
    plain, conic = compute_sizes(row, published()), compute_sizes(row, published(conic_fov=True))
    sizes = plain.n_actions, plain.obs, plain.state, conic.n_actions, conic.obs, conic.state
    assert sizes == TABLE[name]
    assert (plain.ally, plain.enemy) == (conic.ally, conic.enemy)
    assert make_spec(row, published()).max_steps == 200


def test_more_terran_agents_than_enemies_need_an_action_each() -> None:
    assert compute_sizes(find_scenario("terran_7_vs_3"), published()).n_actions == 6 + 7
    assert compute_sizes(find_scenario("protoss_7_vs_3"), published()).n_actions == 6 + 3


def test_other_counts_by_the_same_pattern() -> None:
    row = find_scenario("zerg_64_vs_1")
    assert (row.n_agents, row.n_enemies, row.limit) == (64, 1, 200)


@pytest.mark.parametrize("name", ["terran_0_vs_5", "terran_65_vs_5", "terrn_5_vs_5", ""])
def test_wrong_names_are_refused_with_the_pattern(name: str) -> None:
    with pytest.raises(ValueError, match="1 to 64 units a side"):
        find_scenario(name)


def test_nearest_names_are_offered() -> None:
    with pytest.raises(ValueError, match="Did you mean terran_5_vs_5"):
        find_scenario("teran_5_vs_5")


def test_smac_refuses_scenarios() -> None:
    with pytest.raises(ValueError, match=r"'terran_5_vs_5': .*type env=smacv2"):
        find_map("terran_5_vs_5")


def test_scenario_options_are_those_of_the_smacv2_package() -> None:
    found = scenario_options(find_scenario("terran_5_vs_6"))
    team = {"dist_type": "weighted_teams", "weights": [0.45, 0.45, 0.1], "observe": True}
    team |= {"unit_types": ["marine", "marauder", "medivac"], "exception_unit_types": ["medivac"]}
    start = {"dist_type": "surrounded_and_reflect", "p": 0.5, "map_x": 32, "map_y": 32}
    counts = {"n_units": 5, "n_enemies": 6}
    assert found["map_name"] == "10gen_terran"
    assert found["capability_config"] == {**counts, "team_gen": team, "start_positions": start}
