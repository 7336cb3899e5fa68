"""SMACv2 scenarios as options of the smacv2 package."""

from rltrain.battles.data.scenarios import find_scenario
from rltrain.battles.data.smacv2_config import scenario_options


def test_scenario_options_are_those_of_the_smacv2_package() -> None:
    found = scenario_options(find_scenario("terran_5_vs_6"))
    assert found["map_name"] == "10gen_terran"
    assert found["capability_config"] == {
        "n_units": 5,
        "n_enemies": 6,
        "team_gen": {
            "dist_type": "weighted_teams",
            "unit_types": ["marine", "marauder", "medivac"],
            "exception_unit_types": ["medivac"],
            "weights": [0.45, 0.45, 0.1],
            "observe": True,
        },
        "start_positions": {
            "dist_type": "surrounded_and_reflect",
            "p": 0.5,
            "map_x": 32,
            "map_y": 32,
        },
    }
