"""Images of battles: sizes, positions of units, bars, events, and frames of videos; a battle as
numbers.
"""

import numpy as np
import pytest

from rltrain.battles.data.terrain import PATHABLE
from rltrain.battles.data.units import UNITS
from rltrain.battles.engine.world import Order, Outcome, U
from rltrain.battles.render.canvas import (
    BANNERS,
    BLOCKED,
    ENERGY_BAR,
    FINE,
    HEALTH_BAR,
    LOW,
    PANEL,
    SHIELD_BAR,
    footer,
    ground,
    header,
    make_canvas,
)
from rltrain.battles.render.events import events_between, snapshot
from rltrain.battles.render.painter import SUBFRAMES, TAIL, Painter
from rltrain.battles.render.sprites import HEADINGS, SHAPES, TEAMS, sprite, to_heading
from rltrain.env.smac import Smacv2VectorEnv, SmacVectorEnv, StarCraft2Env, parallel_env
from tests.battles.conftest import ATTACK, EAST, STOP, actions, place, seeds

RED, YELLOW, GREEN = (color for _, color in HEALTH_BAR)


def picture(battles) -> np.ndarray:
    """The current state of the first battle, without the shots of the last step."""
    return Painter(battles, 0).frame()


def pixel_of(battles, x: float, y: float) -> tuple[int, int]:
    """Row and column of a point of the map in the picture."""
    across, down = make_canvas(battles.map_data.terrain).at(x, y)
    return int(down / FINE), int(across / FINE)


def longest_run(image: np.ndarray, color: tuple[int, int, int]) -> int:
    """Most pixels of exactly this color in one row."""
    return int((image == color).all(-1).sum(1).max())


TYPES = tuple((name, 10) for name in UNITS)
LINES = {
    "a long name": (header("n" * 40, "", ""), header("", "step 9999 / 10000", "")),
    "many types": (footer(TYPES[:7], ()), footer((), TYPES[:7])),
}


@pytest.mark.parametrize("line", LINES)
def test_the_words_of_a_line_do_not_overlap(line) -> None:
    """Defect: those of maps from files did."""
    left, right = (np.flatnonzero((np.asarray(im) != PANEL).any((0, 2))) for im in LINES[line])
    assert left.max() < right.min()


@pytest.mark.parametrize("terrain", PATHABLE)
def test_images_are_480_wide_with_an_even_height_for_videos(terrain) -> None:
    canvas = make_canvas(terrain)
    assert ground(terrain).size == (480 * FINE, canvas.height * FINE)
    assert canvas.height % 2 == 0
    assert 250 <= canvas.height <= 700


def test_picture_is_the_same_every_time_and_changes_nothing(battle) -> None:
    b = battle("MMM")
    b.step(actions(b, a0=EAST))
    before = b.state_dict()
    one, other = picture(b), picture(b)
    np.testing.assert_array_equal(one, other)
    assert one.dtype == np.uint8
    assert one.shape == (make_canvas("field").height, 480, 3)
    after = b.state_dict()
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_free_and_blocked_cells_differ(battle) -> None:
    b = battle("corridor")
    image = picture(b)
    assert tuple(image[pixel_of(b, 4.5, 6.5)]) == LOW
    assert tuple(image[pixel_of(b, 24.5, 6.5)]) == BLOCKED


def test_plateau_is_lighter_and_its_ramps_between(battle) -> None:
    b = battle("2c_vs_64zg")
    image = picture(b)
    low, ramp, high = (int(image[pixel_of(b, x, 14.5)][0]) for x in (2.5, 5.5, 10.5))
    assert low < ramp < high


def test_units_are_drawn_at_their_positions_in_team_colors(battle) -> None:
    b = place(battle(), {0: (10.0, 16.0), 3: (20.0, 12.0)})
    image = picture(b)
    ally, enemy = TEAMS
    assert tuple(image[pixel_of(b, 9.8, 16.0)]) == ally["body"]
    assert tuple(image[pixel_of(b, 20.2, 12.0)]) == enemy["body"]
    assert tuple(image[pixel_of(b, 15.6, 16.4)]) == LOW


def test_length_of_bars_is_the_remaining_share(battle) -> None:
    b = place(battle(), {0: (10.0, 16.0)})
    lengths = []
    for health, color in ((45.0, GREEN), (22.5, YELLOW), (9.0, RED)):
        b.world.unit[0, U.HEALTH, 0] = health
        lengths.append(longest_run(picture(b), color))
    # The bar is 15 pixels wide; of 7.5 pixels one is mixed with the trough.
    assert lengths == [15, 7, 3]


def test_shields_and_energy_have_their_own_bars(battle) -> None:
    b = place(battle("2s3z"), {0: (10.0, 16.0)})
    full = longest_run(picture(b), SHIELD_BAR)
    b.world.unit[0, U.SHIELD, 0] = 40.0  # of 80
    assert longest_run(picture(b), SHIELD_BAR) == full // 2 > 5
    b.world.unit[0, U.SHIELD, 0] = 0.0
    assert longest_run(picture(b), SHIELD_BAR) == 0
    b = battle("MMM")
    medivac = b.map_data.ally_types.index("medivac")
    place(b, {medivac: (10.0, 16.0)})
    b.world.unit[0, U.ENERGY, medivac] = 200.0
    full = longest_run(picture(b), ENERGY_BAR)
    b.world.unit[0, U.ENERGY, medivac] = 100.0
    assert longest_run(picture(b), ENERGY_BAR) == full // 2 > 5


def test_every_unit_type_has_its_own_sprite_that_turns() -> None:
    assert set(SHAPES) == set(UNITS)
    looks = {kind: np.asarray(sprite(kind, 0, 0, 20.0)).tobytes() for kind in SHAPES}
    assert len(set(looks.values())) == len(looks)
    assert [to_heading(*to) for to in ((1, 0), (0, 1), (-1, 0), (0, -1))] == [0, 6, 12, 18]
    up = np.asarray(sprite("marine", 0, HEADINGS // 4, 20.0))[..., 3] > 128
    assert up[: len(up) // 2].sum() > up[len(up) // 2 :].sum()  # the gun points up


def happened(b, steps: int = 1, **orders: int) -> list[tuple[str, int, int]]:
    """(kind, unit, other) of everything in some steps with the same orders."""
    found = []
    for _ in range(steps):
        before = snapshot(b, 0)
        b.step(actions(b, **orders))
        events = events_between(before, snapshot(b, 0), b.table("param", 0), b.scene.loops)
        assert all(before.clock <= h.begin < h.end for h in events)
        found += [(h.kind, h.unit, h.other) for h in events]
    return found


def test_shots_and_targets_follow_from_cooldowns(battle) -> None:
    b = place(battle(), {0: (10.0, 16.0), 1: (5.0, 16.0), 3: (14.0, 16.0)})
    assert happened(b, a0=ATTACK, a1=STOP) == [("instant", 0, 3), ("instant", 3, 0)]
    assert happened(b, a0=STOP, a1=STOP) == []  # 13.8 loops from shot to shot


def test_events_have_the_kind_of_the_weapon(battle) -> None:
    b = battle("1c3s5z")
    kinds = b.map_data.ally_types
    colossus, stalker, zealot = map(kinds.index, ("colossus", "stalker", "zealot"))
    foe = b.map_data.n_agents + b.map_data.enemy_types.index("zealot")
    place(b, {colossus: (8.0, 16.0), stalker: (9.0, 19.0), zealot: (11.2, 16.0), foe: (12.2, 16.0)})
    shoot = ATTACK + foe - b.map_data.n_agents
    orders = {f"a{i}": shoot for i in (colossus, stalker, zealot)}
    found = set(happened(b, 2, **orders))
    wanted = {("beam", colossus, foe), ("missile", stalker, foe), ("twice", zealot, foe)}
    assert wanted <= found
    b = place(battle("corridor"), {0: (18.0, 19.0), 6: (18.9, 19.0)})
    assert ("claw", 6, 0) in happened(b, 2)


def test_healing_explosions_and_deaths_are_events(battle) -> None:
    b = battle("MMM")
    marine, medivac = map(b.map_data.ally_types.index, ("marine", "medivac"))
    place(b, {marine: (10.0, 16.0), medivac: (11.0, 16.0)})
    b.world.unit[0, U.HEALTH, marine] = 20
    assert happened(b, **{f"a{medivac}": ATTACK + marine}) == [("heal", medivac, marine)]
    b = place(battle("so_many_baneling"), {0: (14.0, 16.0), 7: (14.6, 16.0)})
    b.world.unit[0, [U.HEALTH, U.SHIELD], 0] = 1
    assert happened(b) == [("blast", 7, -1), ("death", 0, -1)]


def test_shot_is_drawn_between_attacker_and_target(battle) -> None:
    b = place(battle(), {0: (10.0, 16.0), 3: (14.0, 16.0)})
    painter = Painter(b, 0)
    middle = pixel_of(b, 12.0, 16.0)
    assert int(painter.frame()[middle].min()) < 120
    b.step(actions(b, a0=ATTACK))
    assert int(painter.frame()[middle].min()) > 140


def test_painter_draws_images_per_step_and_more_after_the_end(make) -> None:
    env = make("3m", n_envs=2)
    assert [len(images) for images in env.render([0, 1])] == [1, 1]
    env.step(np.full((2, 3), EAST))
    one, other = env.render([0, 1])
    assert len(one) == len(other) == SUBFRAMES
    assert not np.array_equal(one[0], one[-1])  # they move
    env.battles.world.clock[:] = 59
    env.render([0, 1])
    env.step(np.full((2, 3), EAST))
    assert env.last.all()
    assert [len(images) for images in env.render([0, 1])] == [SUBFRAMES + TAIL] * 2
    env.step(np.full((2, 3), EAST))
    assert [len(images) for images in env.render([1])] == [1]


@pytest.mark.parametrize("outcome", BANNERS)
def test_outcome_is_written_across_the_field(battle, outcome) -> None:
    b = battle()
    color = BANNERS[outcome][1]
    assert longest_run(picture(b)[30:-30], color) < 5
    b.world.outcome[0] = outcome
    assert longest_run(picture(b)[30:-30], color) > 20


def test_return_is_summed_over_drawn_steps(make) -> None:
    env = make("3m")
    env.render([0])
    painter = env.battles.painter(0)
    total, rng = 0.0, np.random.default_rng(0)
    while not env.last[0]:
        legal = np.where(env.avail_actions == 1, rng.random(env.avail_actions.shape), -1)
        reward, _ = env.step(legal.argmax(-1))
        total += float(reward[0, 0])
        env.render([0])
        assert painter.total == pytest.approx(total, abs=1e-4)
    env.reset(seeds)
    env.render([0])
    assert env.battles.painter(0).total == 0


def test_single_environments_render_the_same_picture() -> None:
    env = StarCraft2Env(map_name="3m", seed=0)
    env.reset()
    np.testing.assert_array_equal(env.render(), picture(env.battles))
    assert env.battles.world.outcome[0] == Outcome.RUNNING
    with pytest.raises(ValueError, match=r"unknown mode 'human': expected one of rgb_array"):
        env.render("human")
    several = parallel_env(map_name="3m")
    assert several.metadata["render_modes"] == ["rgb_array"]
    several.reset(seed=0)
    np.testing.assert_array_equal(several.render(), picture(several.env.battles))


@pytest.fixture(scope="module")
def stalkers():
    env = SmacVectorEnv(map_name="2s3z", n_envs=1)
    env.reset(lambda e, k: 5)
    return env


def test_attacks_aim_at_the_enemy_of_that_number(stalkers):
    world, *_ = stalkers.drawing(0)
    for _ in range(20):
        can = stalkers.avail_actions[0]
        action = np.where(can[:, -1], can.shape[1] - 1, can.argmax(1))
        action = np.where(can[:, 4], np.where(can[:, -1], action, 4), action)
        stalkers.step(action[None])
        aims = np.flatnonzero(action >= world["first_target"])
        if len(aims):
            break
    columns = stalkers.drawing(0).columns
    assert len(aims)
    assert (columns["target"][aims] == len(can) + action[aims] - world["first_target"]).all()
    assert (columns["order"][aims] == Order.ATTACK).all()


def test_agents_see_what_their_observations_show(stalkers):
    drawn, layout = stalkers.drawing(0), stalkers.spec.layout["obs"]["enemies"]
    blocks = stalkers.obs[0, :, layout["start"] :][:, : layout["count"] * layout["size"]]
    shown = blocks.reshape(5, layout["count"], layout["size"]).any(-1)
    assert np.array_equal(drawn.columns["sees"][:, 5:], shown)
    assert drawn.columns["x"].shape == (10,)
    assert not drawn.columns["sees"][np.arange(5), np.arange(5)].any()


def test_cones_of_smacv2_are_drawn():
    env = Smacv2VectorEnv(map_name="terran_5_vs_5", n_envs=1, conic_fov=True)
    env.reset(lambda e, k: 5)
    world, looks, columns = env.drawing(0)
    assert 0 < world["cone"] < np.pi
    assert len(world["actions"]) == world["first_target"] > 6
    assert columns["facing"].shape == (len(looks),) == (10,)
