"""The comparison with recorded battles, on small data in the same formats that the engine made."""

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from benchmarks.game import __main__ as command
from benchmarks.game.data import CENTER, MAX_DISTANCE, Folder, Orders, layout_of
from benchmarks.game.parts import MOST, PARTS, Row, criterion, order_shares
from benchmarks.game.play import health_of, open_battles, places_of
from benchmarks.game.policies import Rate, mean_rates
from benchmarks.game.repeated_orders import kills
from rltrain.battles.engine.world import U

STEPS, EAST, STOP, ATTACK = 20, 4, 1, 6
START = {
    "allies": {"marine": [[9, 16], [9, 15.3115], [9.6885, 16]]},
    "enemies": {"marine": [[23, 16], [23, 15.3115], [23.6885, 16]]},
}


def choose(avail):
    """Attack the first enemy in range, else walk east."""
    attack = avail[:, :, ATTACK:]
    action = np.where(attack.any(2), ATTACK + attack.argmax(2), EAST)
    return np.where(avail[:, :, 0] > 0, 0, action)


def record(path: Path) -> None:
    """Two battles of the engine in the format of records, and the first as a replay's orders."""
    battles = open_battles("3m", 2, [START])
    shown: list[list[np.ndarray]] = []
    while not battles.ended.all():
        action = choose(battles.avail)
        shown.append([places_of(battles), health_of(battles), action, battles.obs.copy()])
        shown[-1].append(battles.world.unit[:, U.COOLDOWN, :3].clip(0))
        battles.step(action)
    place, health, action, obs, load = (np.array(column) for column in zip(*shown, strict=True))
    scaled = (place - CENTER) / MAX_DISTANCE
    agents = [health[..., :3, None] / 45, load[..., None] / 15, scaled[:, :, :3]]
    enemies = [health[..., 3:, None] / 45, scaled[:, :, 3:]]
    parts = [np.concatenate(team, -1).reshape(len(place), 2, -1) for team in (agents, enemies)]
    state = np.concatenate([*parts, np.zeros((len(place), 2, 27))], -1).swapaxes(0, 1)
    n = len(place)
    reward = np.zeros((2, n), np.float32)
    np.savez(
        path / "records" / "3m_a.npz", offset=np.array([0, n, 2 * n], np.int32),
        state=state.reshape(2 * n, -1).astype(np.float32), reward=reward.ravel(),
        obs=obs.swapaxes(0, 1).reshape(2 * n, 3, -1),
        actions=action.swapaxes(0, 1).reshape(2 * n, 3).astype(np.int8),
    )  # fmt: skip
    steps, dead = [], []
    first = place[0, 0]
    order = [int(np.hypot(*(first[:3] - p).T).argmin()) for p in START["allies"]["marine"]]
    foes = [int(np.hypot(*(first[3:] - p).T).argmin()) for p in START["enemies"]["marine"]]
    for t in range(n):
        row = {}
        for k, j in enumerate(order):
            a = int(action[t, 0, j])
            if a == EAST:
                row[str(k)] = ["move", "E", *place[t, 0, j]]
            elif a >= ATTACK:
                row[str(k)] = ["attack", 3 + foes.index(a - ATTACK), *place[t, 0, 3 + a - ATTACK]]
        steps.append([8 * t, row])
        names = order + [3 + j for j in foes]
        if t:
            gone = (health[t, 0] <= 0) & (health[t - 1, 0] > 0)
            dead += [[8 * t - 4, names.index(j), None, [0, 0]] for j in np.flatnonzero(gone)]
    units = [["Marine_RL", 1, [9, 16]], ["Marine_RL", 1, [9, 15]], ["Marine_RL", 1, [9, 16]]]
    units += [["Marine", 2, [23, 16]], ["Marine", 2, [23, 15]], ["Marine", 2, [23, 16]]]
    battle = {"units": units, "steps": steps, "deaths": dead, "finished": True, "won": False}
    battle |= {"tracker_positions": [], "first_loop": 0, "loops": 8 * n}
    replay = {"map": "3m", "game_version": "4.10", "battles": [battle]}
    with gzip.open(path / "orders" / "engine.json.gz", "wt") as file:
        json.dump(replay, file)


def write_policy(path: Path) -> None:
    torch.manual_seed(0)
    modules = {"fc1": torch.nn.Linear(42, 8), "rnn": torch.nn.GRUCell(8, 8)}
    modules["fc2"] = torch.nn.Linear(8, 9)
    weights = {f"{m}.{n}": w for m, module in modules.items() for n, w in module.named_parameters()}
    save_file({n: w.detach() for n, w in weights.items()}, path / "policies" / "one.safetensors")
    row = {"file": "one.safetensors", "map": "3m", "algorithm": "qmix", "act": "greedy"}
    row |= {"win_rate_game": "0.5", "win_rate_low": "0.4", "win_rate_high": "0.6"}
    with open(path / "policies" / "index.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, list(row))
        writer.writeheader()
        writer.writerow(row)


@pytest.fixture
def data(tmp_path: Path, monkeypatch) -> Folder:
    for name in ("records", "orders", "starts", "policies"):
        (tmp_path / name).mkdir()
    starts = {"maps": {"3m": {"starts": [START]}}}
    (tmp_path / "starts" / "measured_starts.json").write_text(json.dumps(starts))
    record(tmp_path)
    write_policy(tmp_path)
    monkeypatch.setattr("benchmarks.game.parts.WALKED", ("engine",))
    monkeypatch.setattr("benchmarks.game.parts.REPLAYED", ("engine",))
    return Folder(tmp_path)


def test_the_engine_walks_as_in_its_own_records(data: Folder) -> None:
    rows = list(PARTS["walk"](data))
    assert {row.name.partition(":")[0] for row in rows} == {"3m", "engine"}
    assert max(row.engine for row in rows) < 1e-3


def test_fights_that_begin_at_its_own_records_go_alike(data: Folder) -> None:
    rows = {row.name: row for row in PARTS["fights"](data)}
    assert rows["enemies' distance from their places after 1 steps"].engine < 0.05
    health = rows["agents' health after 2 steps"]
    assert health.engine == pytest.approx(health.game, abs=25)


def test_deaths_under_its_own_orders_come_at_the_same_time(data: Folder) -> None:
    rows = {row.name: row for row in PARTS["deaths"](data)}
    assert rows["engine: share of orders that are impossible"].engine < 0.5
    errors = [row.engine for name, row in rows.items() if "median error" in name]
    assert errors
    assert min(errors) <= 16


def test_the_command_prints_every_part_and_keeps_a_row(data, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(command, "KEPT", tmp_path / "game.jsonl")
    found = command.main([str(data.path), "--keep", "tried"])
    text = capsys.readouterr().out
    assert list(found) == list(PARTS)
    assert all(row.name in text for rows in found.values() for row in rows)
    (line,) = (tmp_path / "game.jsonl").read_text().splitlines()
    kept = json.loads(line)
    assert kept["note"] == "tried"
    assert kept["criterion"] == pytest.approx(criterion(found))
    assert set(kept["parts"]) == set(PARTS)


def test_a_folder_that_does_not_exist_is_refused(tmp_path, capsys) -> None:
    with pytest.raises(SystemExit):
        command.main([str(tmp_path / "nothing")])
    assert "is not a folder of recorded data" in capsys.readouterr().err


def test_the_criterion_weighs_parts_and_limits_single_rows() -> None:
    far, near = Row("a", 100, 0, 1), Row("b", 1, 0, 1)
    assert criterion({"first": [far, near]}) == (MOST + 1) / 2
    assert criterion({"first": [near], "policies": [far]}) == (1 + 4 * MOST) / 5


def test_enemy_numbers_are_named_by_their_places() -> None:
    c, s, e = (23, 16), (23, 15.3), (23.7, 16)
    shares = order_shares(np.array([[c, e, s], [s, e, c], [c, e, s], [e, s, c]], float))
    assert shares == {"CES": 0.5, "SEC": 0.25, "ESC": 0.25, "CSE": 0}


def test_the_layout_is_the_one_whose_moves_begin_at_the_recorded_places() -> None:
    other = json.loads(json.dumps(START).replace("9.6885", "9.75"))
    units = [["Marine_RL", 1, [9, 16]]] * 3 + [["Marine", 2, [23, 16]]] * 3
    battle = {"units": units, "steps": [[0, {"2": ["move", "E", 9.75, 16]}]]}
    assert layout_of(battle, [START, other]) == 1


def test_files_of_one_map_and_algorithm_are_one_value() -> None:
    rates = [
        Rate("a", "3m", "qmix", 0.2, 0.4, 0.6, 0.5),
        Rate("b", "3m", "qmix", 0.4, 0.5, 0.9, 0.7),
    ]
    ((name, value),) = mean_rates(rates).items()
    assert name == "3m qmix"
    assert value == pytest.approx((0.3, 0.4, 0.9, 0.6))


def test_kills_are_counted_by_the_loop_after_their_order() -> None:
    units = [["Zergling_RL", 1, [9, 16]], ["Stalker_RL", 1, [9, 15]], ["Zergling", 2, [23, 16]]]
    attack = {"0": ["attack", 2, 23, 16], "1": ["attack", 2, 23, 16]}
    steps = [[0, attack], [8, attack], [16, {"0": ["stop"]}]]
    counts = {}
    for killer in (0, 1, 2, None):
        for loop in (3, 8, 9, 16, 17):
            battle = {"units": units, "steps": steps, "deaths": [[loop, 2, killer, [23, 16]]]}
            counts[killer, loop] = {
                kind: np.flatnonzero(n).tolist()
                for kind, n in kills(Orders("", "", [battle])).items()
            }
    new, repeated = ("zergling", False), ("zergling", True)
    expected = {(0, 3): {new: [2]}, (0, 8): {new: [7]}, (0, 9): {repeated: [0]}}
    expected[0, 16] = {repeated: [7]}  # before the order of that loop
    assert counts == {key: expected.get(key, {}) for key in counts}
