"""The stock-trading game: what it pays, what it shows, and that training knows nothing of tests."""

import inspect
import json
import math
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from gymnasium.utils.env_checker import check_env

import rltrain
from rltrain.api import settings_from
from rltrain.assemble.env import build_env
from rltrain.config.catalog import CONF
from rltrain.env.trading import (
    BUY,
    HELD,
    HOLD,
    SELL,
    StockTradingEnv,
    generated_prices,
    read_prices,
)
from tests.helpers import sparse

DOUBLING = [1, 2, 4, 8, 4, 8, 16, 32, 16, 8]


@pytest.fixture
def doubling() -> str:
    """Ten prices, five for training and five for tests with ``test_fraction=0.5``."""
    return written("\n".join(map(str, DOUBLING)))


def written(text: str, name: str = "prices.csv") -> str:
    """A file in the current folder; its path."""
    path = Path.cwd() / name
    path.write_text(text)
    return str(path)


def game(path: str, **given: Any) -> StockTradingEnv:
    values: dict[str, Any] = {"test_fraction": 0.5, "window": 1, "cost": 0.0}
    values |= {"episode_length": None, "prices": path}
    return StockTradingEnv(**{**values, **given})


def begun(path: str, **given: Any) -> StockTradingEnv:
    env = game(path, **given)
    env.reset(seed=0)
    return env


def play(env: StockTradingEnv, *actions: int) -> tuple[list[float], dict[str, Any]]:
    """Rewards in doublings, and the last info."""
    rewards = []
    for action in actions:
        _, reward, _, _, info = env.step(action)
        rewards.append(round(reward / (100 * math.log(2)), 6))
    return rewards, info


@pytest.mark.parametrize(
    ("actions", "rewards"),
    [
        ((HOLD, HOLD, HOLD), [0, 0, 0]),
        ((BUY, HOLD, HOLD), [1, 1, -1]),  # 2 to 4, 4 to 8, 8 to 4
        ((BUY, BUY, SELL), [1, 1, 0]),  # what is held cannot be bought again
        ((SELL, SELL, BUY), [0, 0, -1]),  # nor sold what is not held
        ((BUY, SELL, BUY), [1, 0, -1]),
    ],
)
def test_wealth_moves_with_the_price_while_the_share_is_held(doubling, actions, rewards):
    assert play(begun(doubling), *actions)[0] == rewards


def test_a_purchase_and_a_sale_cost_a_share_of_the_wealth(doubling: str) -> None:
    assert play(begun(doubling, cost=0.5), BUY, SELL, HOLD)[0] == [0, -1, 0]


def test_buying_and_holding_is_what_the_excess_is_counted_from(doubling: str) -> None:
    # two doublings; holding on would have kept one
    _, info = play(begun(doubling), BUY, HOLD, SELL)
    assert info["metrics"]["buy_and_hold"] == pytest.approx(100 * math.log(2))
    assert info["metrics"]["excess_over_buy_and_hold"] == pytest.approx(100 * math.log(2))


def test_buying_first_and_holding_has_no_excess() -> None:
    env = StockTradingEnv(cost=0.01)
    env.reset(seed=3)
    _, info = play(env, BUY, *[HOLD] * 249)
    assert info["metrics"]["excess_over_buy_and_hold"] == pytest.approx(0)


def test_only_what_changes_something_is_available(doubling: str) -> None:
    env = game(doubling)
    _, info = env.reset(seed=0)
    assert info["action_mask"].tolist() == [1, 1, 0]
    assert play(env, BUY)[1]["action_mask"].tolist() == [1, 0, 1]


def test_an_episode_ends_as_a_time_limit_does(doubling: str) -> None:
    env = begun(doubling)
    ends = [env.step(HOLD)[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]


def test_observations_are_standardised_by_the_training_prices(doubling: str) -> None:
    env, tests = game(doubling), game(doubling, training=False)
    known = np.log(2) * np.array([1, 1, 1, -1])  # returns of 1, 2, 4, 8, 4
    scaled = (np.log(2) - known.mean()) / known.std()
    np.testing.assert_allclose(env.reset(seed=0)[0], [scaled, 0], rtol=1e-6)
    assert env.step(BUY)[0][1] == 1
    np.testing.assert_allclose(tests.reset(seed=0)[0], [scaled, 0], rtol=1e-6)  # 8 to 16


def altered(at: range, factor: float) -> str:
    prices = generated_prices(400, 0)
    prices[at] *= factor * (1 + 0.3 * np.sin(np.arange(len(at))))
    return written("close\n" + "\n".join(map(str, prices)), f"altered-{at.start}.csv")


def test_training_knows_nothing_of_the_prices_of_tests() -> None:
    given: dict[str, Any] = {"test_fraction": 0.25, "episode_length": None}
    parts = range(300, 400), range(301, 390)
    one, two = (StockTradingEnv(prices=altered(at, 7.0), **given) for at in parts)
    for a, b in ((one.returns, two.returns), (one.seen_returns, two.seen_returns)):
        np.testing.assert_array_equal(a, b)
        assert len(a) == 299  # the last training price is number 299


def test_test_episodes_begin_with_a_window_of_test_prices() -> None:
    env = StockTradingEnv(training=False, n_prices=400, test_fraction=0.25, episode_length=None)
    env.reset(seed=0)
    assert (len(env.returns), env.now - env.window) == (99, 0)
    np.testing.assert_array_equal(env.returns, np.diff(np.log(generated_prices(400, 0)[300:])))


def test_episodes_lie_inside_their_part() -> None:
    env = StockTradingEnv(n_prices=160, test_fraction=0.5, episode_length=20)
    starts = [env.reset(seed=seed) is not None and env.start for seed in range(300)]
    assert (min(starts), max(starts)) == (env.window, 79 - 20)  # 80 prices, 79 returns


def test_seeds_choose_episodes() -> None:
    env = StockTradingEnv()
    first, other, again = (env.reset(seed=seed)[0] for seed in (1, 2, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_generated_prices_come_back() -> None:
    returns = np.diff(np.log(generated_prices(20_000, 0)))
    together = np.corrcoef(returns[:-1], returns[1:])[0, 1]
    assert -0.2 < together < -0.1  # in theory -0.14
    np.testing.assert_array_equal(generated_prices(50, 3), generated_prices(50, 3))
    assert not np.array_equal(generated_prices(50, 3), generated_prices(50, 4))


@pytest.mark.filterwarnings("ignore:.*A Box observation space")
def test_gymnasium_finds_no_fault() -> None:
    check_env(StockTradingEnv(), skip_render_check=True)


def test_the_yaml_and_the_class_have_the_same_defaults() -> None:
    node = yaml.safe_load((CONF / "env" / "trading.yaml").read_text(encoding="utf-8"))
    parameters = inspect.signature(StockTradingEnv).parameters
    ours = {n: p.default for n, p in parameters.items() if n not in ("training", "render_mode")}
    assert {k: v for k, v in node.items() if k not in ("defaults", "_target_")} == ours


def test_the_chart_grows_with_the_episode_and_shows_when_the_share_was_held(doubling: str) -> None:
    env = game(doubling, render_mode="rgb_array")
    env.reset()
    held = []
    for action in (HOLD, BUY, HOLD):
        env.step(action)
        held.append((env.render() == HELD).all(-1).sum())  # with the swatch of the legend
    assert env.render().shape == (360, 640, 3)
    assert 0 < held[0] < held[1] < held[2]


@pytest.mark.parametrize("record", [False, True])
def test_it_is_drawn_for_a_record_only(record: bool) -> None:
    settings = settings_from(["algo=scripted", "env=trading", f"record={record}", "mode=evaluate"])
    env = build_env(settings, 1, training=False)
    assert env.frames_per_second == (15 if record else None)


@pytest.mark.parametrize(
    "text", ["1\n2.5\n", "Date,Close,Volume\n2020-01-01,1,9\n2020-01-02,2.5,9\n", "close\n1\n\n2.5"]
)
def test_prices_are_read_from_a_file(text: str) -> None:
    assert read_prices(written(text)).tolist() == [1, 2.5]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("close\n1\n-2\n", r"row 3 has no price above 0, but '-2'"),
        ("close\n1\nnan\n", r"row 3 has no price"),
        ("day,close\n1\n", r"row 2 has no price above 0, but '1'"),
        ("day,price\n1,2\n", r"expected a header with a column 'close'.*'day,price'"),
        ("", r"expected a header"),
        ("close," + "c" * 9_000 + "\n" + "x" * 9_000, r"but 'x{79}\.$"),
        ("c," * 9_000, r"first line '(c,){39}c\.$"),
    ],
)
def test_a_file_that_is_no_price_list_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_prices(written(text))


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("/dev/zero", path), sparse])
def test_a_file_without_an_end_is_refused_at_once(tmp_path: Path, make: Any) -> None:
    make(tmp_path / "prices.csv")
    with pytest.raises(ValueError, match=r"is a pipe, a device or a socket|is larger than"):
        read_prices(str(tmp_path / "prices.csv"))


@pytest.mark.parametrize(
    ("prices", "given", "said"),
    [
        ([5] * 20, {}, r"training prices always change by the same factor"),
        (DOUBLING, {"cost": 1}, r"cost=1: expected a share .* below 1"),
        (DOUBLING, {"episode_length": 5}, r"10 prices .* 5 for training .* 5 for .* 7 or more"),
    ],
)
def test_a_game_that_cannot_be_played_is_refused(prices, given, said) -> None:
    with pytest.raises(ValueError, match=said):
        game(written("\n".join(map(str, prices))), **given)


def test_a_missing_file_is_refused() -> None:
    said = rf"^env\.prices=nowhere\.csv cannot be read: .*'{Path.cwd()}/nowhere\.csv'\.$"
    with pytest.raises(ValueError, match=said):
        read_prices("nowhere.csv")


SHORT = ["hardware.threads=1", "logger.wandb.mode=disabled", "logger.console=false"]
SHORT += ["total_env_steps=80", "algo.learning_starts=16", "test.episodes=2", "test.interval=1_000"]
SHORT += ["algo.batch_size=8", "log.interval=40", "buffer.capacity=100"]


@pytest.mark.slow
def test_the_class_trains_from_python(tmp_path: Path) -> None:
    run = rltrain.make_trainer(["algo=dqn", *SHORT], run_dir=tmp_path / "run", env=StockTradingEnv)
    results = [run.iterate() for _ in range(2)]
    assert results[-1]["updates"] > 0
    assert "test/excess_over_buy_and_hold_mean" in results[-1]
    training, testing = (r.env.envs[0].env for r in (run.rollout, run.test_rollout))
    assert (len(training.returns), len(testing.returns)) == (15_999, 3_999)
    run.close()


def test_the_command_trains_and_tests_on_parts_of_their_own(tmp_path: Path) -> None:
    overrides = ["algo=dqn", "env=trading", "env.n_prices=2_000", *SHORT]
    trainer = rltrain.make_trainer(overrides, run_dir=tmp_path / "run")
    training, testing = (r.env.envs[0].env for r in (trainer.rollout, trainer.test_rollout))
    assert (len(training.returns), len(testing.returns)) == (1_599, 399)
    trainer.start()
    trainer.save()
    trainer.close()
    result = rltrain.evaluate(tmp_path / "run", episodes=3)
    record = json.loads((tmp_path / "run/evaluation.json").read_text())
    excess = [row["metrics"]["excess_over_buy_and_hold"] for row in record["episodes"]]
    assert result.metrics["test/excess_over_buy_and_hold_mean"] == pytest.approx(np.mean(excess))


@pytest.mark.slow
def test_dqn_beats_buying_and_holding_on_prices_it_has_never_seen(tmp_path: Path) -> None:
    overrides = ["experiment=trading", "hardware.threads=1", "logger.wandb.mode=disabled"]
    overrides += ["logger.console=false", "test.interval=1_000_000"]
    trainer = rltrain.make_trainer(overrides, run_dir=tmp_path / "run")
    trainer.run(trainer.total_env_steps)
    assert trainer.test()["test/excess_over_buy_and_hold_mean"] > 10


def test_a_loaded_policy_wants_the_mask(tmp_path: Path) -> None:
    overrides = ["algo=dqn", "env=trading", "algo.network.hidden_sizes=[4]", "test.episodes=1"]
    with closing(rltrain.make_trainer(overrides, run_dir=tmp_path)) as trainer:
        obs = np.zeros(trainer.rollout.env.spec.obs_shape, np.float32)
        with pytest.raises(ValueError, match=r"avail_actions: expected the shape .* got none"):
            trainer.compute_actions([obs])
        masks = np.array([[1, 1, 0]])
        assert trainer.compute_actions([obs], avail_actions=masks)[0] in (0, 1)
