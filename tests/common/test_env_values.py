"""Values that environments return: numbers, truth values, and the arrays of a ``VectorEnv``."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

import rltrain
from rltrain.common.env_values import flag, one_number, read_outcome, require_fields, warn_of_nan
from rltrain.env.games.lockstep import GameEnv
from rltrain.errors import EnvError
from rltrain.hardware.env_share import Share
from rltrain.hardware.rollout import Rollout
from rltrain.types import Clock, EnvSpec
from tests.env.scripted import Zeros

NO_NUMBERS = [None, "1", b"1", np.str_("1"), np.array("1"), [1.0], (1.0,), {"a": 1}, 1j]
NO_NUMBERS += [np.zeros(2), np.zeros(0), [[1], [1, 2]], np.complex64(1), 10**400]
NO_NUMBERS += [np.ma.masked, np.ma.array([1.0], mask=[True])]


@pytest.mark.parametrize("kind", [bool, int, float, np.bool_, np.uint8, np.float32])
@pytest.mark.parametrize("value", [0, 1])
def test_a_number_of_any_type_is_read(kind: Any, value: int) -> None:
    array = np.array([[kind(value)]])
    for given in (kind(value), array[0, 0], array, torch.from_numpy(array)):
        assert one_number(given) == value
        assert flag(given, "terminated", str) is bool(value)


@pytest.mark.parametrize("given", NO_NUMBERS, ids=repr)
def test_nothing_else_is_a_number_or_a_truth_value(given: Any) -> None:
    """Defect: [False], (False,) and {"__all__": False} were True, without a message."""
    assert one_number(given) is None
    with pytest.raises(EnvError, match=r"(?s)^it returned truncated=.*: expected True or False\.$"):
        flag(given, "truncated", lambda: "it")


@pytest.mark.parametrize("given", [float("nan"), 2, -1, 0.5, np.array([2])], ids=repr)
def test_numbers_other_than_0_and_1_are_no_truth_values(given: Any) -> None:
    with pytest.raises(EnvError, match="expected True or False"):
        flag(given, "terminated", lambda: "it")


def test_an_info_that_is_no_dictionary_is_refused() -> None:
    with pytest.raises(EnvError, match=r"^it returned the info None: expected a dictionary"):
        read_outcome(None, lambda: "it")


class Batched(GameEnv):
    """Two agents with a reward each, paid in every one of three steps."""

    remembers = ("_t",)

    def __init__(self, n_envs: int) -> None:
        spec = EnvSpec(n_agents=2, n_actions=2, obs_shape=(3,), state_dim=1, n_rewards=2)
        super().__init__(spec, n_envs)
        self._t = np.zeros(n_envs, np.int64)

    def _begin(self, envs: np.ndarray, seeds: np.ndarray) -> None:
        self._t[envs], self.obs[envs] = 0, 0

    def _advance(self, action: np.ndarray, playing: np.ndarray) -> tuple[np.ndarray, ...]:
        self._t += playing
        self.obs[:] = self._t[:, None, None]
        return np.ones(self.n_envs), self._t >= 3, np.zeros(self.n_envs, np.bool_)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        reward, terminated = super().step(action)
        return reward.repeat(2, 1), terminated


def with_one(name: str, change: Any, since: int = 0) -> type[Batched]:
    """The same environment with one of its arrays, or what ``step`` returns, changed, from the
    beginning or a later step on.
    """

    class Changed(Batched):
        def __init__(self, n_envs: int) -> None:
            super().__init__(n_envs)
            if since == 0 and name not in ("reward", "terminated"):
                setattr(self, name, change(getattr(self, name)))

        def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            returned = dict(zip(("reward", "terminated"), super().step(action), strict=True))
            if name in returned and self._t[0] >= since:
                returned[name] = change(returned[name])
            elif name not in returned and self._t[0] == since > 0:
                setattr(self, name, change(getattr(self, name)))
            return returned["reward"], returned["terminated"]

    return Changed


CHANGES = {
    "reward of the team": ("reward", lambda x: x[:, 0], r"reward \[E, R\] .* shape \({E},\)"),
    "one reward": ("reward", lambda x: x[:, :1], r"reward \[E, R\] .* shape \({E}, 2\)"),
    "a list": ("reward", lambda x: x.tolist(), r"reward \[E, R\] as list: expected float32"),
    "text": ("reward", lambda x: x.astype("U8"), r"reward \[E, R\] as <U8"),
    "whole numbers": ("terminated", lambda x: x.astype(int), r"terminated \[E\] as int64"),
    "double obs": ("obs", lambda x: x.astype(float), r"obs \[E, N, \*O\] as float64"),
    "flat obs": ("obs", lambda x: x[:, 0], r"obs \[E, N, \*O\] .* expected .* \({E}, 2, 3\)"),
    "signed masks": ("avail_actions", lambda x: x.astype(np.int8), r"avail_actions .* as int8"),
    "no action": ("avail_actions", np.zeros_like, "gave agent 0 of environment 0 no available"),
    "no end": ("terminated", np.ones_like, "terminated of environment 0 without last"),
    "no state": ("state", lambda x: x[:, :0], r"state \[E, S\] .* expected .* \({E}, 1\)"),
    "int last": ("last", lambda x: x.astype(int), r"last \[E\] as int64"),
    "NaN": (
        "state",
        lambda x: x * np.nan,
        "gave nan as state at step 0 of environment 0: expected",
    ),
    "win": ("infos", lambda x: [{"win": "x"}] * len(x), r"0 returned info\['win'\]='x': expected"),
    "infos": ("infos", lambda x: [], r"have infos \[\]: expected a list of {E} dictionaries"),
}


NO_FORMS = ("win", "infos", "no action", "no end", "NaN")
"""Changes of values alone."""


@pytest.mark.parametrize("change", [name for name in CHANGES if name not in NO_FORMS])
def test_what_does_not_fit_from_a_later_step_on_is_named_with_the_step(change: str) -> None:
    """Defect: only the first step was looked at; what could be broadcast was."""
    name, of, said = CHANGES[change]
    policy = cast(Any, Zeros())
    rollout = Rollout(env=with_one(name, of, since=2)(2), policy=policy, seeds=lambda e, k: k)
    rollout.collect(1, Clock())
    with pytest.raises(EnvError, match=said.replace("{E}", "2")) as raised:
        rollout.collect(1, Clock())
    assert " gave at step 2 of environment 0 " in str(raised.value)


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_vector_environment_returns_has_to_fit_its_spec(change: str) -> None:
    """Defect: rewards [E] were broadcast to [E, R]; other faults ended runs as bugs of rltrain."""
    name, of, said = CHANGES[change]
    made = with_one(name, of)
    for n_envs in (1, 2):  # E == R as well
        rollout = Rollout(env=made(n_envs), policy=Zeros(), seeds=lambda e, k: k)
        with pytest.raises(EnvError, match=said.replace("{E}", str(n_envs))):
            rollout.collect(5, Clock())
    share = Share(1, 4, 2, 6)  # a worker's
    rollout = Rollout(env=made(2), policy=Zeros(), seeds=lambda e, k: k, share=share)
    with pytest.raises(EnvError) as raised:
        rollout.collect(5, Clock())
    assert "nvironment 0" not in str(raised.value)
    found = rltrain.check_env(made)
    with pytest.raises(AssertionError, match=said.replace("{E}", "1")):
        raise AssertionError(str(found.problems))


def test_a_vector_environment_that_fits_is_accepted() -> None:
    env = Batched(2)
    env.reset(lambda e, k: k)
    require_fields(env)
    assert rltrain.check_env(Batched).problems == []
    assert rltrain.check_env(with_one("reward", lambda x: x.astype(float))).problems == []
    nan = with_one("reward", lambda x: x * np.nan)
    assert "gave nan as reward at step 1 of environment 0" in str(rltrain.check_env(nan))


class Unending(Batched):
    """Never clears ``last``."""

    def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        before = self.last.copy()
        returned = super().step(action)
        self.last |= before
        return returned


class Unbegun(Batched):
    def reset(self, seeds: Any) -> None:
        super().reset(seeds)
        self.last[:] = True


@pytest.mark.parametrize("made", [Unending, Unbegun])
def test_an_episode_that_begins_with_its_end_is_refused(made: type[Batched]) -> None:
    """Defect: the run took steps without end that were none."""
    said = r"gave last of environment 0 where an episode begins: expected that reset\(\) and"
    rollout = Rollout(env=made(2), policy=Zeros(), seeds=lambda e, k: k)
    with pytest.raises(EnvError, match=said):
        rollout.collect(5, Clock())
    assert " where an episode begins" in str(rltrain.check_env(made))


class Infinite(Batched):
    """Shows ``value`` at step ``at`` of the last environment."""

    value, at = 0.0, 0

    def _begin(self, envs: np.ndarray, seeds: np.ndarray) -> None:
        super()._begin(envs, seeds)
        self.obs[-1, 1, 2] = self.value if self._t[-1] == self.at else 0

    def _advance(self, action: np.ndarray, playing: np.ndarray) -> tuple[np.ndarray, ...]:
        returned = super()._advance(action, playing)
        self.obs[-1, 1, 2] = self.value if self._t[-1] == self.at else 0
        return returned


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_the_environment_is_blamed_for_values_that_are_nan(
    tmp_path: Path, value: float, at: int
) -> None:
    """Defect: "lower algo.optimizer.lr", and exit code 5."""
    made = type("Made", (Infinite,), {"value": value, "at": at})
    words = ["algo=iql", "hardware.n_envs=2", "logger=[]", "hardware.device=cpu"]
    rollout = rltrain.make_trainer(words, tmp_path, env=made).rollout
    step = ["step 0", "step 1", "step 2", "the final step"][at]
    with pytest.raises(EnvError, match=rf"gave {value} as obs at {step} of environment 1: "):
        rollout.collect(8, Clock())
    assert f"gave {value} as obs at {step} of environment 0: " in str(rltrain.check_env(made))


def test_a_metric_without_a_finite_mean_is_named_once(caplog):
    warn_of_nan.cache_clear()
    for _ in range(2):
        read_outcome({"metrics": {"a": np.nan, "b": -np.inf, "c": np.bool_(True)}}, lambda: "it")
    assert [text.split(" is ")[0] for text in caplog.messages] == [
        f"info['metrics'][{name!r}]" for name in "ab"
    ]
