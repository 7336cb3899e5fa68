"""Agents that end, are kept, come back or come late: drawn schedules against a reference."""

import numpy as np
import pytest

import rltrain
from rltrain.env import check
from rltrain.env.env_options import EnvOptions
from rltrain.env.gymnasium import adapted
from rltrain.env.team.two_teams import FixedOpponents
from rltrain.errors import EnvError
from tests.env.team.scripted import Scripted, Turns, stepping

N_STEPS = 12
REWARDS = ("sum", "mean", "individual")


class Scheduled(Scripted):
    """Who is in ``agents`` and who ends after each step, prescribed; pays 1 + its own number to
    each that is there, and -100 to whoever has ended before.
    """

    def __init__(self, listed, ended, cut, flags_stay=False):
        n = len(listed[0])
        super().__init__(sizes=(2,) * n, actions=(3,) * n, mask=np.array([0, 1, 1], np.int8))
        self.listed, self.ends, self.cuts, self.flags_stay = listed, ended, cut, flags_stay

    def names(self, flags):
        return [a for a, there in zip(self.possible_agents, flags, strict=True) if there]

    def reset(self, seed=None, options=None):
        super().reset(seed)
        self.agents, self.dead, self.given = self.names(self.listed[0]), set(), []
        return self.seen(self.agents), self.infos(self.agents)

    def step(self, actions):
        self.t += 1
        self.given.append(dict(actions))
        there = set(self.agents) | set(actions)
        self.agents = self.names(self.listed[self.t])
        flags = [self.names(each[self.t]) for each in (self.ends, self.cuts)]
        shown = sorted(there | set(self.agents))
        terminated, truncated = ({a: a in f for a in shown} for f in flags)
        if self.flags_stay:
            terminated |= {a: True for a in self.dead if a in shown}
        rewards = {a: -100.0 if a in self.dead else ord(a) - 96.0 for a in shown}
        self.dead = (self.dead | {*flags[0], *flags[1]}) & set(self.agents)
        return self.seen(shown), rewards, terminated, truncated, self.infos(shown)


def drawn(rng):
    """Who is in ``agents`` at every step, who terminates, and who is truncated."""
    n = int(rng.integers(1, 5))
    listed, ended, cut = (np.zeros((N_STEPS + 2, n), bool) for _ in range(3))
    listed[0] = rng.random(n) < 0.7
    listed[0, rng.integers(n)] = True
    p_end, p_keep, p_come = rng.choice([0.05, 0.2, 0.5]), rng.random(), rng.choice([0, 0.1, 0.4])
    for t in range(1, N_STEPS + 2):
        last = rng.random(n) < p_end
        how = rng.random(n) < 0.5
        ended[t], cut[t] = last & how & listed[t - 1], last & ~how & listed[t - 1]
        stays = np.where(last, rng.random(n) < p_keep, rng.random(n) < 0.9)
        listed[t] = np.where(listed[t - 1], stays, rng.random(n) < p_come)
    return listed, ended, cut


def reference(listed, ended, cut):
    """Per step: who acts, who sees something, and whether the episode ends and how."""
    present, out, steps = listed[0].copy(), np.zeros(listed.shape[1], bool), []
    for t in range(1, N_STEPS + 1):
        acting = present.copy()
        died, stopped = acting & ended[t], acting & cut[t] & ~ended[t]
        out = (out | died | stopped) & listed[t]  # absent once: it may come back
        present = listed[t] & ~out
        over = not present.any()
        shown = present if not over else stopped if stopped.any() else acting
        limit = t == N_STEPS and not over
        steps.append((acting, shown, over and not stopped.any(), (over and stopped.any()) or limit))
        if over or limit:
            return steps
    raise AssertionError("an episode ends at the limit")


def played(team, env, reward, steps):
    """Compare an episode with the reference; returns its rewards."""
    seen, found = team.reset(7), []
    n, paid = len(env.possible_agents), np.arange(1, len(env.possible_agents) + 1)
    for t, (acting, shown, terminated, truncated) in enumerate(steps, 1):
        assert (seen.avail_actions == np.where(acting[:, None], [0, 1, 1], [1, 0, 0])).all()
        seen, value, *ends = team.step(np.where(acting, 1 + np.arange(n) % 2, 0))[:4]
        assert env.given[-1] == {
            a: 1 + i % 2 for i, a in enumerate(env.possible_agents) if acting[i]
        }
        each = {"individual": acting * paid, "sum": [(acting * paid).sum()]}
        each["mean"] = [(acting * paid).sum() / acting.sum()]
        np.testing.assert_allclose(value, each[reward], rtol=1e-6)
        assert ends == [terminated, truncated]
        np.testing.assert_array_equal(seen.obs, np.where(shown[:, None], [7, t], [0, 0]))
        np.testing.assert_array_equal(seen.state, seen.obs.reshape(-1))
        alive = np.where(shown[:, None], [0, 1, 1], [1, 0, 0])
        np.testing.assert_array_equal(seen.avail_actions, alive)
        found.append(value)
    return found


def test_drawn_schedules_equal_a_reference():
    rng, kinds = np.random.default_rng(0), set()
    for i in range(40):
        schedule = drawn(rng)
        steps = reference(*schedule)
        env = Scheduled(*schedule, flags_stay=bool(i % 2))
        team = adapted(env, EnvOptions(reward=REWARDS[i % 3], max_episode_steps=N_STEPS))
        for _ in range(2):  # nothing of an episode is left in the next one
            played(team, env, REWARDS[i % 3], steps)
        acts = np.array([acting for acting, *_ in steps])
        listed, ends = schedule[0][1 : len(acts)], (schedule[1] | schedule[2])[1 : len(acts)]
        kept = listed & ends & acts[:-1]
        kinds |= {"kept"} if kept.any() else set()
        kinds |= {"late"} if (acts[1:] & ~acts[:1]).any() else set()
        kinds |= (
            {"back"} if any((np.diff(a.astype(int)) > 0).any() and a[0] for a in acts.T) else set()
        )
        kinds |= {steps[-1][2:]}
        assert (team.kept is not None) == kept_by(schedule, steps)
    assert kinds >= {"kept", "late", "back", (True, False), (False, True)}


def kept_by(schedule, steps):
    """Whether an agent that ended stays in ``agents``."""
    listed, ended, cut = schedule
    return any((x[0] & (ended[t] | cut[t]) & listed[t]).any() for t, x in enumerate(steps, 1))


@pytest.mark.parametrize("flags_stay", [False, True])
def test_one_of_three_that_is_kept_is_out_for_good(flags_stay):
    listed = np.ones((9, 3), bool)
    ended = np.zeros_like(listed)
    ended[2, 0] = True  # a dies at step 2
    env = Scheduled(listed, ended, np.zeros_like(listed), flags_stay)
    team = adapted(env, EnvOptions(max_episode_steps=8))
    team.reset(0)
    rewards = [float(team.step(np.array([1, 1, 1]))[1][0]) for _ in range(8)]
    assert rewards == [6, 6, *[5] * 6]
    assert [("a" in given) for given in env.given] == [True, True, *[False] * 6]


class Kept(Scripted):
    """Agents that end stay in ``agents``, while others continue or after the last one."""

    when = "middle"

    def step(self, actions):
        before, acting = list(self.agents), [a for a in self.agents if a in actions]
        self.agents = acting
        found = super().step(actions)
        if self.when == ("middle" if self.agents else "end"):
            self.agents = before
        return found


@pytest.mark.parametrize("when", ["middle", "end", "never"])
def test_the_check_names_agents_that_are_kept(when, monkeypatch):
    monkeypatch.setattr(check, "N_STEPS", 20)

    class Checked(Kept):
        def __init__(self):
            super().__init__(leaves={"a": 1})

    Checked.when = when
    found = rltrain.check_env(Checked)
    said = [sum("self.agents still has" in each for each in part) for part in found]
    assert said == {"middle": [1, 0], "end": [0, 1], "never": [0, 0]}[when]
    if when == "middle":
        assert "self.agents still has a after step 1" in found.problems[0]


def test_agents_that_die_in_turns_stay_out():
    team = adapted(Turns(), EnvOptions(reward="individual"))
    team.reset(0)
    found = [team.step(np.ones(3, int)) for _ in range(5)]
    assert [step[1].tolist() for step in found] == [[1, 1, 1]] * 2 + [[0, 1, 1]] * 3
    assert [step[2:4] for step in found] == [(False, False)] * 4 + [(False, True)]


def test_opponents_that_are_kept_choose_no_actions():
    listed = np.ones((9, 3), bool)
    ended = np.zeros_like(listed)
    ended[2, 0], ended[4, 1] = True, True
    listed[6, 0] = False  # a is absent once, and returns
    env = Scheduled(listed, ended, np.zeros_like(listed))
    team = adapted(FixedOpponents(env, {"a"}, lambda *_: 1), EnvOptions(max_episode_steps=8))
    team.reset(0)
    rewards = [float(team.step(np.array([1, 1]))[1][0]) for _ in range(8)]
    assert rewards == [5, 5, 5, 5, 3, 3, 3, 3]
    assert ["".join(sorted(given)) for given in env.given] == [
        *("abc", "abc", "bc", "bc"),
        *("c", "c", "c", "ac"),
    ]


Blind = stepping(lambda env, obs, *rest: ({a: obs[a] for a in env.agents}, *rest))
Blank = stepping(
    lambda env, obs, *rest: ({a: obs[a] if a in env.agents else None for a in obs}, *rest)
)
"""Agents in their last step get no observation, or None."""


@pytest.mark.parametrize("kind", [Blind, Blank])
def test_no_last_observation_of_agents_that_terminated(kind):
    team = adapted(kind(leaves={"a": 1}, length=2))
    team.reset(7)
    assert team.step(np.array([1, 1]))[0].obs.tolist() == [[0, 0], [7, 1]]
    seen, reward, terminated, truncated, _ = team.step(np.array([0, 1]))
    assert (reward.tolist(), terminated, truncated) == ([2], True, False)
    assert (seen.obs.tolist(), seen.avail_actions.tolist()) == ([[0, 0]] * 2, [[1, 0]] * 2)
    assert seen.state.tolist() == [0, 0, 0, 0]


def test_a_last_observation_that_has_a_value_is_asked_for():
    team = adapted(Blind(length=1, cut=True))
    team.reset(7)
    with pytest.raises(EnvError, match=r"no observation for the agent [ab]: .* was truncated"):
        team.step(np.array([1, 1]))
