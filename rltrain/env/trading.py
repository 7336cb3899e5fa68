"""A stock-trading game: the example of a custom environment (docs/own_environment.md).

``StockTradingEnv`` is a plain Gymnasium environment, independent of rltrain; ``trading_env`` at the
end makes it available on the command line.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from io import TextIOWrapper
from itertools import chain
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from PIL import Image, ImageDraw, ImageFont

from rltrain.common.files import absolute_path, open_plain
from rltrain.common.number_types import Count, Fraction, Probability, Whole
from rltrain.env.gymnasium import GymnasiumEnv
from rltrain.env.vector import SyncVectorEnv
from rltrain.types import Info

HOLD, BUY, SELL = range(3)
PERCENT = 100.0
MOST_BYTES = 1 << 27
"""A larger file of prices is not read."""

DRIFT = 0.0002  # mean log return per step
WANDERING = 0.005  # standard deviation of permanent changes, per step
SHOCK = 0.02  # standard deviation of temporary changes, per step
REVERSION = 0.3  # fraction of a temporary change that reverts per step

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 40, 28  # margins of a chart
PAPER, INK, GRID = (255, 255, 255), (60, 60, 60), (200, 200, 200)
HELD, SHARE, WEALTH = (214, 240, 214), (150, 150, 150), (31, 119, 180)


class StockTradingEnv(gymnasium.Env):
    """Trading a single stock: the agent's wealth is entirely in cash or entirely in the stock.

    At each step, the agent sees the last ``window`` log returns, standardized with the training
    prices, and whether it holds the stock. It holds, buys or sells at the current price, then the
    price moves. The reward is 100 x the change of log wealth, about percent. An impossible purchase
    or sale changes nothing (``info["action_mask"]``).

    The first prices are for training, the last ``test_fraction`` for tests; an environment holds
    only its own part. An episode has ``episode_length`` steps from a random position and is
    truncated at its end, where ``info["metrics"]`` has the return of buying at the first step and
    holding, and the excess over it.

    Args:
        training: use the training prices instead of the test prices.
        prices: a CSV file with a price per line, oldest first, in the column ``close`` (or its only
            column); None: ``n_prices`` prices generated with ``price_seed``.
        test_fraction: fraction of the prices, at the end, reserved for tests.
        window: log returns in the observation.
        cost: fraction of the wealth that a purchase or sale costs.
        episode_length: steps; None: all prices in one episode.
        render_mode: ``rgb_array`` to draw a chart of the episode, or None.

    Raises:
        ValueError: a file without prices, or with too few that differ.
    """

    masks_actions = True
    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012 (as Gymnasium has it)

    def __init__(
        self,
        *,
        training: bool = True,
        prices: str | None = None,
        n_prices: int = 20_000,
        price_seed: int = 0,
        test_fraction: float = 0.2,
        window: int = 10,
        cost: float = 0.001,
        episode_length: int | None = 250,
        render_mode: str | None = None,
    ) -> None:
        series = generated_prices(n_prices, price_seed) if prices is None else read_prices(prices)
        n_train = len(series) - round(test_fraction * len(series))
        log_prices = np.log(series)
        own = log_prices[:n_train] if training else log_prices[n_train:]
        needed = window + (episode_length or 1) + 1
        if min(n_train, len(series) - n_train) < needed:
            raise ValueError(
                f"{len(series)} prices with test_fraction={test_fraction:g} are {n_train} for "
                f"training and {len(series) - n_train} for tests: expected {needed} or more of "
                "each (window + episode_length + 1). Lower episode_length or window, or provide "
                "more prices."
            )
        known = np.diff(log_prices[:n_train])  # known before the tests
        if not known.std() > 0:
            raise ValueError("The training prices always change by the same factor: expected more.")
        self.returns = np.diff(own)  # [n]: from price i to price i + 1
        self.seen_returns = ((self.returns - known.mean()) / known.std()).astype(np.float32)
        if not 0 <= cost < 1:
            raise ValueError(f"cost={cost}: expected a share of 0 or more, below 1.")
        self.window, self.fee = window, -math.log1p(-cost)
        self.length = episode_length or len(self.returns) - window
        self.action_space = spaces.Discrete(3)
        self.observation_space = spaces.Box(-np.inf, np.inf, (window + 1,), np.float32)
        self.start, self.now, self.holds, self.gain = window, window, False, 0.0
        self.render_mode = render_mode
        self.held: list[bool] = []  # in each step of the episode
        self.gains = [0.0]  # after each step, and before the first

    def reset(
        self, *, seed: int | None = None, options: Info | None = None
    ) -> tuple[np.ndarray, Info]:
        super().reset(seed=seed)
        last_start = len(self.returns) - self.length
        self.start = int(self.np_random.integers(self.window, last_start + 1))
        self.now, self.holds, self.gain = self.start, False, 0.0
        self.held, self.gains = [], [0.0]
        return self._seen(), self._info()

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, Info]:
        traded = action == (SELL if self.holds else BUY)
        self.holds ^= traded
        change = self.holds * self.returns[self.now] - traded * self.fee
        self.gain += change
        self.held.append(self.holds)
        self.gains.append(self.gain)
        self.now += 1
        over = self.now == self.start + self.length
        info = self._info()
        if over:
            passive = self.returns[self.start : self.now].sum() - self.fee
            info["metrics"] = {
                "buy_and_hold": PERCENT * passive,
                "excess_over_buy_and_hold": PERCENT * (self.gain - passive),
            }
        return self._seen(), PERCENT * change, False, over, info

    def render(self) -> np.ndarray:
        """A chart of the episode so far: uint8 [H, W, 3]."""
        share = np.append(0.0, self.returns[self.start : self.now].cumsum())
        wealth = [PERCENT * gain for gain in self.gains]
        return draw_chart(PERCENT * share, wealth, self.held, self.length)

    def _seen(self) -> np.ndarray:
        """The returns up to the current price, and the position: float32 [window + 1]."""
        seen = self.seen_returns[self.now - self.window : self.now]
        return np.append(seen, np.float32(self.holds))

    def _info(self) -> Info:
        return {"action_mask": np.array([1, not self.holds, self.holds], np.uint8)}


def draw_chart(
    share: np.ndarray, wealth: Sequence[float], held: Sequence[bool], length: int
) -> np.ndarray:
    """Draw the episode so far.

    Args:
        share: percent gain of the stock since the first step, at steps 0 … now.
        wealth: percent gain of the agent, likewise.
        held: whether the stock was held in each step, 0 … now - 1.
        length: steps of the whole episode.

    Returns:
        The image, uint8 [H, W, 3].
    """
    image = Image.new("RGB", (WIDTH, HEIGHT), PAPER)
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(size=14)
    low, high = min(share.min(), *wealth, -1.0), max(share.max(), *wealth, 1.0)
    xs = LEFT + np.arange(length + 1) * (WIDTH - LEFT - RIGHT) / length

    def y(percent: float) -> float:
        return TOP + (high - percent) / (high - low) * (HEIGHT - TOP - BOTTOM)

    for t, held_now in enumerate(held):
        if held_now:
            draw.rectangle((xs[t], TOP, xs[t + 1], HEIGHT - BOTTOM), HELD)
    draw.line((LEFT, y(0), WIDTH - RIGHT, y(0)), GRID)
    for percent in (low, high):
        draw.text((LEFT - 6, y(percent)), f"{percent:+.0f}%", INK, font, anchor="rm")
    for values, color, line_width in ((share, SHARE, 2), (wealth, WEALTH, 3)):
        points = [(x, y(value)) for x, value in zip(xs, values, strict=False)]
        if len(points) > 1:
            draw.line(points, color, line_width, joint="curve")
    draw.rectangle((LEFT + 300, TOP / 2 - 7, LEFT + 314, TOP / 2 + 7), HELD)
    words = (
        (f"agent {wealth[-1]:+.1f}%", WEALTH),
        (f"share {share[-1]:+.1f}%", SHARE),
        ("held", INK),
        (f"step {len(held)} / {length}", INK),
    )
    for x, (text, color) in zip((0, 150, 322, 450), words, strict=True):
        draw.text((LEFT + x, TOP / 2), text, color, font, anchor="lm")
    return np.asarray(image)


def generated_prices(n: int, seed: int) -> np.ndarray:
    """``n`` prices whose logarithm is a drifting random walk plus a mean-reverting part (a discrete
    Ornstein-Uhlenbeck process): prices below the walk tend to rise.
    """
    rng = np.random.default_rng(seed)
    walk = np.cumsum(DRIFT + WANDERING * rng.standard_normal(n))
    shocks = SHOCK * rng.standard_normal(n)
    away = np.zeros(n)
    for t in range(1, n):
        away[t] = (1 - REVERSION) * away[t - 1] + shocks[t]
    return 100 * np.exp(walk + away)


def read_prices(path: str) -> np.ndarray:
    """The prices of a CSV file, oldest first.

    Raises:
        ValueError: no such file, no column ``close`` among several, or an invalid price.
    """
    try:
        with open_plain(absolute_path(path), MOST_BYTES) as file:
            rows = csv.reader(TextIOWrapper(file, "utf-8-sig", newline=""))
            return np.fromiter(prices_in(filter(None, rows)), float)
    except (OSError, ValueError, csv.Error) as error:
        raise ValueError(f"env.prices={path} cannot be read: {error}.") from error


def prices_in(rows: Iterator[list[str]]) -> Iterator[float]:
    """The prices in the rows of a table; errors as ``read_prices``."""
    first = next(rows, [])
    header = [name.strip().lower() for name in first]
    named = "close" in header
    if not named and len(header) != 1:
        raise ValueError(
            "expected a header with a column 'close', or a single column of prices, got the first "
            f"line {','.join(first)!r:.80}"
        )
    column = header.index("close") if named else 0
    for number, row in enumerate(rows if named else chain([first], rows), start=1 + named):
        try:
            price = float(row[column])
        except (ValueError, IndexError):
            price = math.nan
        if not 0 < price < math.inf:
            raise ValueError(f"row {number} has no price above 0, but {','.join(row)!r:.80}")
        yield price


def trading_env(
    *,
    n_envs: int,
    training: bool,
    record: bool,
    prices: str | None,
    n_prices: Count,
    price_seed: Whole,
    test_fraction: Fraction,
    window: Count,
    cost: Probability,
    episode_length: Count | None,
) -> SyncVectorEnv:
    """``n_envs`` environments of the game on their part of the prices; ``record`` renders them.

    Raises:
        ValueError: a file without prices, or with too few.
    """
    keywords: Mapping[str, Any] = {
        "training": training,
        "prices": prices,
        "n_prices": n_prices,
        "price_seed": price_seed,
        "test_fraction": test_fraction,
        "window": window,
        "cost": cost,
        "episode_length": episode_length,
        "render_mode": "rgb_array" if record else None,
    }
    return SyncVectorEnv(make=lambda: GymnasiumEnv(StockTradingEnv(**keywords)), n_envs=n_envs)
