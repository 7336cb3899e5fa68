"""SMAC's options and the sizes of observations, states and actions that follow from a map and its
options.

Everything is computed from tables: no world is built and nothing is compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from rltrain.battles.data.map_data import SIZE, Group, MapData
from rltrain.battles.data.spawn import RecordedStarts, read_starts
from rltrain.battles.data.units import UNITS, UnitType
from rltrain.battles.option_checks import (
    Count,
    Flag,
    NonNegative,
    Positive,
    Probability,
    Real,
    check_choice,
    check_ranges,
)

N_ACTIONS_NO_ATTACK, N_ACTIONS_MOVE = 6, 4
STARTS = ("fixed", "jittered")
MOST_LOOPS = 10_000
"""Of one env step, which nothing interrupts."""
LARGEST = 1_000_000_000
"""Of all other numbers: sums in single precision lose the parts of larger ones."""
DIFFICULTIES = (*"123456789", "A")


@dataclass(frozen=True, kw_only=True)
class SmacOptions:
    """SMAC's constructor options that matter to a battle."""

    step_mul: Count = 8  # simulation loops per env step
    move_amount: Positive = 2.0  # length of a move order, cells
    obs_all_health: Flag = True  # health of visible units; includes obs_own_health
    obs_own_health: Flag = True
    obs_last_action: Flag = False  # last actions of visible allies
    obs_pathing_grid: Flag = False  # 8 pathing values around the agent
    obs_terrain_height: Flag = False  # 9 height values
    obs_instead_of_state: Flag = False  # state = all observations
    obs_timestep_number: Flag = False  # t / limit at the end
    state_last_action: Flag = True
    state_timestep_number: Flag = False
    reward_sparse: Flag = False  # 1, -1 or 0 at the end
    reward_only_positive: Flag = True  # ignore ally damage and deaths
    reward_death_value: NonNegative = 10.0
    reward_win: Real = 200.0
    reward_defeat: Real = 0.0
    reward_negative_scale: NonNegative = 0.5  # weight of ally damage and deaths
    reward_scale: Flag = True  # divide by max_reward / reward_scale_rate
    reward_scale_rate: Positive = 20.0

    def __post_init__(self) -> None:
        check_ranges(self)
        for name, value in vars(self).items():
            most = MOST_LOOPS if name == "step_mul" else LARGEST
            if abs(value) > most:
                raise ValueError(f"{name}={value!r}: expected at most {most:,}")


@dataclass(frozen=True, kw_only=True)
class Options(SmacOptions):
    """The options of a battle: SMAC's, and SMACv2's with the values that leave SMAC as it is."""

    obs_own_pos: Flag = False  # own position, share of the map
    use_unit_ranges: Flag = False  # every unit type has its own sight and shooting range
    min_attack_range: NonNegative = 2.0  # no shooting range is shorter, cells
    conic_fov: Flag = False  # agents see and shoot in a cone that they turn
    num_fov_actions: Count = 12  # directions of the cone; it is one such part of a circle wide
    prob_obs_enemy: Probability = 1.0  # of seeing an enemy that another agent saw first
    action_mask: Flag = True  # enemies out of range are not available
    fully_observable: Flag = False  # all living units are in sight
    zero_enemy_block: Flag = False  # SMACv2 as published: see field_of_view.register
    fixed_max_reward: Flag = False  # SMACv2 as published: rewards are scaled by the first team

    def smacv2_options(self) -> dict[str, object]:
        """Those that the ``smacv2`` package has: all but the switches for its bugs."""
        bugs = ("zero_enemy_block", "fixed_max_reward")
        return {name: value for name, value in asdict(self).items() if name not in bugs}

    @property
    def beyond_smac(self) -> list[str]:
        """Those of SMACv2 that do not leave SMAC as it is, with their values."""
        mine = {f.name: f.default for f in fields(Options) if not hasattr(SmacOptions, f.name)}
        return [f"{k}={getattr(self, k)}" for k, v in mine.items() if getattr(self, k) != v]

    @property
    def own_health(self) -> bool:
        """As SMAC does it: showing all units' health includes one's own."""
        return self.obs_all_health or self.obs_own_health

    @property
    def n_actions_no_attack(self) -> int:
        """No-op, stop, moves and turns of the view: the first attack."""
        return N_ACTIONS_NO_ATTACK + self.num_fov_actions * self.conic_fov


@dataclass(frozen=True, kw_only=True)
class Smacv2Options(Options):
    """The options of a battle, with the values that SMACv2 is published with."""

    obs_own_pos: Flag = True
    use_unit_ranges: Flag = True


@dataclass(frozen=True, kw_only=True)
class StartOptions:
    """Start positions of the built-in engine."""

    start: Literal["fixed", "jittered"] = "fixed"
    start_jitter: Positive = 0.25  # jittered: cells along each axis, at most
    start_positions: str | None = None  # file of recorded ones; None: those of the map

    def __post_init__(self) -> None:
        check_choice("start", self.start, STARTS)
        check_ranges(self)
        if self.start_jitter > SIZE:
            width = f"expected at most {SIZE}, the cells of a map"
            raise ValueError(f"start_jitter={self.start_jitter!r}: {width}")

    def recorded(self, map_data: MapData, rules: str) -> RecordedStarts | None:
        """The start positions of the file for a map. Raises ValueError if it cannot be used."""
        if self.start_positions is None:
            return None
        if map_data.drawn_from:
            raise ValueError(
                f"start_positions={self.start_positions}: {map_data.name} draws teams and start "
                "positions for every battle. Leave start_positions out."
            )
        if rules != "sc2":
            raise ValueError(
                f"start_positions replaces the start positions of StarCraft II, and rules={rules} "
                "has its own: choose rules=sc2, or leave start_positions out."
            )
        return read_starts(self.start_positions, map_data)

    @property
    def jitter(self) -> float:
        """Cells by which start positions differ from episode to episode, along each axis."""
        return self.start_jitter if self.start == "jittered" else 0.0


@dataclass(frozen=True, kw_only=True)
class ProgramOptions:
    """SMAC's constructor options that only steer the StarCraft II program.

    ``difficulty`` has no effect, because the maps do not use the built-in AI.
    """

    difficulty: Literal[1, 2, 3, 4, 5, 6, 7, 8, 9, "A"] = 7
    game_version: str | None = None  # None: the newest installed one
    replay_dir: str = ""
    replay_prefix: str = ""
    window_size_x: Count = 1920
    window_size_y: Count = 1200
    debug: Flag = False

    def __post_init__(self) -> None:
        check_ranges(self)
        check_choice("difficulty", str(self.difficulty), DIFFICULTIES)


@dataclass(frozen=True)
class Sizes:
    """Lengths of the named blocks; ``obs`` and ``state`` are the totals."""

    n_actions: int
    move: int
    enemy: int  # per enemy
    ally: int  # per other ally
    own: int
    obs: int
    state_ally: int  # per ally
    state_enemy: int  # per enemy
    state: int


def compute_sizes(map_data: MapData, options: Options) -> Sizes:
    """SMAC's formulas for all lengths."""
    agents, enemies = map_data.n_agents, map_data.n_enemies
    ally_shield, enemy_shield = map_data.shield_bits
    bits = map_data.unit_type_bits
    n_actions = options.n_actions_no_attack + max(enemies, agents * map_data.heals)
    move = N_ACTIONS_MOVE + 8 * options.obs_pathing_grid + 9 * options.obs_terrain_height
    enemy = 4 + options.obs_all_health * (1 + enemy_shield) + bits
    ally = (
        4 + options.obs_all_health * (1 + ally_shield) + bits + options.obs_last_action * n_actions
    )
    own = options.own_health * (1 + ally_shield) + bits
    own += 2 * options.obs_own_pos + 2 * options.conic_fov
    obs = move + enemies * enemy + (agents - 1) * ally + own + options.obs_timestep_number
    state_ally = 4 + ally_shield + 2 * options.conic_fov + bits
    state_enemy = 3 + enemy_shield + bits
    state = agents * state_ally + enemies * state_enemy
    state += options.state_last_action * agents * n_actions + options.state_timestep_number
    if options.obs_instead_of_state:
        state = agents * obs
    return Sizes(n_actions, move, enemy, ally, own, obs, state_ally, state_enemy, state)


def require_scale(map_data: MapData, options: Options) -> None:
    """Raise ValueError if rewards would be divided by 0 or less, with the weakest enemies."""
    enemies: Sequence[UnitType] = map_data.unit_types[map_data.n_agents :]
    if drawn := [UNITS[name] for name in map_data.drawn_from]:
        weakest = min(drawn, key=lambda unit: unit.health + unit.shield)
        enemies = [weakest] * map_data.n_enemies
    most = max_reward_against(enemies, options)
    if options.reward_scale and most <= 0:
        raise ValueError(
            f"reward_win={options.reward_win!r}: rewards are divided by that of a flawless win, "
            f"which is {most:g}. Expected one above 0: choose a larger reward_win or "
            "reward_death_value, or reward_scale=False"
        )


def max_reward_against(enemies: Sequence[UnitType], options: Options) -> float:
    """Unscaled reward of a win in which each of these enemies dies once."""
    body = sum(unit.health + unit.shield for unit in enemies)
    return len(enemies) * options.reward_death_value + options.reward_win + body


def block_layout(map_data: MapData, options: Options) -> dict[str, Any]:
    """Blocks of rows in order, by kind: name to start, count and size of a row (plain numbers)."""
    sizes = compute_sizes(map_data, options)
    agents, enemies = map_data.n_agents, map_data.n_enemies
    obs = _blocks(
        ("move", 1, sizes.move),
        ("enemies", enemies, sizes.enemy),
        ("allies", agents - 1, sizes.ally),
        ("own", 1, sizes.own),
        ("timestep", 1, int(options.obs_timestep_number)),
    )
    first = options.n_actions_no_attack
    actions = _blocks(("untargeted", first, 1), ("targets", sizes.n_actions - first, 1))
    layout = {"obs": obs, "actions": actions}
    if options.obs_instead_of_state:
        return {**layout, "state": _blocks(("obs", agents, sizes.obs))}
    state = _blocks(
        ("allies", agents, sizes.state_ally),
        ("enemies", enemies, sizes.state_enemy),
        ("last_action", agents, sizes.n_actions * options.state_last_action),
        ("timestep", 1, int(options.state_timestep_number)),
    )
    return {**layout, "state": state}


def largest(maps: Sequence[MapData]) -> MapData:
    """A map with the sizes of the largest team of agents, of enemies and of targets of an action
    among maps ``for_any``, to lay all of them out alike."""
    agents = max(row.n_agents for row in maps)
    enemies = max(max(row.n_enemies, row.n_agents * row.heals) for row in maps)
    return replace(
        maps[0],
        map_type="",
        limit=max(row.limit for row in maps),
        allies=(Group("marine", agents, 8, 16),),
        enemies=(Group("marine", enemies, 24, 16),),
        drawn_from=(),
    )


def columns(small: dict[str, Any], large: dict[str, Any], kind: str) -> list[int]:
    """Where each number of the obs or state of the layout ``small`` belongs in ``large``."""
    return [
        large[kind][name]["start"] + row * large[kind][name]["size"] + k
        for name, block in small[kind].items()
        for row in range(block["count"])
        for k in (columns(small, large, "obs") if name == "obs" else range(block["size"]))
    ]


def _blocks(*rows: tuple[str, int, int]) -> dict[str, dict[str, int]]:
    blocks, start = {}, 0
    for name, count, size in rows:
        if count * size:
            blocks[name] = {"start": start, "count": count, "size": size}
        start += count * size
    return blocks
