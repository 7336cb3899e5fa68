"""Check an environment and describe its problems.

To add a check: a generator of sentences, and its line in ``check``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from rltrain.common.env_values import EXACT, ROUNDED, read_outcome, require_ended, require_fields
from rltrain.common.failures import close_all
from rltrain.common.machine.torch_settings import EnvContext
from rltrain.common.metrics import episode_metrics
from rltrain.common.spec_record import mask_entries, require_alike
from rltrain.env.actions import Actions, as_mask, numbered
from rltrain.env.make_gymnasium import from_class
from rltrain.env.spaces import unbounded
from rltrain.env.team.adapter import PARTS, TeamEnv
from rltrain.env.team.agent_spaces import MASK
from rltrain.env.team.first_episode import has_masks
from rltrain.env.third_party import reset_reason, returns
from rltrain.env.vector import SyncVectorEnv, require_separate
from rltrain.errors import STOPS, EnvError
from rltrain.interfaces import VectorEnv
from rltrain.types import EnvSpec, Episode, Info

N_STEPS = 500  # that are played, twice
LARGE = 100.0
"""Observations beyond this are hardly learned from."""
SMALL = 0.1
"""Images whose largest values stay below this are probably codes."""


class Findings(NamedTuple):
    """``problems`` keep an environment from being trained on as it is meant; ``hints`` may."""

    problems: list[str]
    hints: list[str]

    def __str__(self) -> str:
        lines = [f"Problem: {each}" for each in self.problems]
        lines += [f"Hint: {each}" for each in self.hints]
        return "\n".join(lines) or "No problem was found."


MaskUse = Mapping[str, list[bool]]
"""Whether infos had masks, of each ``reset`` and of each ``step`` that ended no episode."""


class Played(NamedTuple):
    """Observations and statistics of ``N_STEPS`` time steps of one environment."""

    obs: np.ndarray  # [T, N, *O]
    state: np.ndarray  # [T, S]
    reward: np.ndarray  # [T, R]
    last: np.ndarray  # [T]


def check_env(env: object, **kwargs: Any) -> Findings:
    """Play an environment with random actions, twice, and say what is wrong with it.

    Args:
        env: a class or factory of Gymnasium or PettingZoo, or an environment made by one.
        kwargs: what it is made with.
    """
    is_made = not callable(env) or isinstance(env, gymnasium.Env)
    vectors: list[VectorEnv] = []  # training and tests have one each
    try:
        with EnvContext():
            make = partial(from_class, (lambda: env) if is_made else env, n_envs=1, record=False)
            for training in (True,) if is_made else (True, False):
                vectors.append(make(training=training, kwargs=kwargs))
            require_separate(vectors)
            require_alike(vectors[0].spec, vectors[-1].spec)
    except (ValueError, EnvError) as error:
        return Findings([str(error)], [])
    else:
        return check(vectors[0])
    finally:
        if not is_made:
            close_all("an environment", vectors)


def check(env: VectorEnv) -> Findings:
    """Check environments in lockstep, of which the first one is examined."""
    problems: list[str] = []
    masked: MaskUse = {"reset": [], "step": []}
    beyond: list[str] = []
    adapter: Any = env.envs[0] if isinstance(env, SyncVectorEnv) else None
    team, raw = adapter if isinstance(adapter, TeamEnv) else None, getattr(adapter, "env", None)
    try:
        if raw is not None:
            problems += (check_single if team is None else check_team)(raw, masked, beyond)
        first, second = played(env), played(env)
    except STOPS:
        raise
    except BaseException as error:  # whatever someone's environment raises
        if isinstance(error.__cause__, StopIteration):  # in a check, which is a generator
            error = error.__cause__
        known = isinstance(error, (EnvError, RuntimeError))
        said = str(error) if known else f"the environment raised {reset_reason(error)}"
        return Findings(problems or [said], [])
    problems += check_seeds(first, second)
    problems += check_kept(team, others_go_on=True)
    hints = [*check_kept(team, others_go_on=False), *check_agents(team), *beyond[:1]]
    hints += check_numbers(first, env.spec, team)
    hints += check_masks(masked, env.spec if adapter is not None and team is None else None)
    hints += () if team is None else team.remarks
    return Findings(problems, hints)


def played(env: VectorEnv) -> Played:
    """``N_STEPS`` time steps with random available actions, always the same."""
    rng = np.random.default_rng(0)
    env.reset(lambda e, k: 1_000 + k)
    require_fields(env)
    steps, lengths = [], np.zeros(env.n_envs, np.int64)
    for _ in range(N_STEPS):
        obs, state, before = env.obs[0].copy(), env.state[0].copy(), env.last.copy()
        draws = rng.random(env.avail_actions.shape) * env.avail_actions
        reward, terminated = env.step(draws.argmax(-1))
        lengths = np.where(before, 0, lengths + 1)
        require_fields(env, lengths, reward=reward, terminated=terminated)
        require_ended(env, terminated, before)
        for e in np.flatnonzero(env.last).tolist():
            outcome = read_outcome(env.infos[e], partial("Environment {}".format, e))
            episode_metrics([Episode(0.0, 0, outcome)])
        steps.append((obs, state, reward[0].copy(), before[0]))
    return Played(*map(np.stack, zip(*steps, strict=True)))


def check_seeds(first: Played, second: Played) -> Iterator[str]:
    """Episodes of one seed and the same actions must be the same."""
    for name, one, two in zip(Played._fields, first, second, strict=True):
        if not np.array_equal(one, two):
            differs = (one != two).reshape(len(one), -1).any(1)
            yield (
                f"two episodes with the same seed and the same actions differ ({name}, first at "
                f"step {int(differs.argmax())}). Draw all random numbers from a generator that "
                "reset(seed=…) seeds, such as self.np_random after super().reset(seed=seed), and "
                "begin every episode from scratch."
            )
            return


def check_numbers(seen: Played, spec: EnvSpec, team: TeamEnv | None) -> Iterator[str]:
    """Find properties that make learning hard."""
    if not seen.last.any() and (spec.max_steps or 0) < N_STEPS:  # the last step's end is not seen
        yield (
            f"no episode ended within {N_STEPS} steps of random actions. Give it a time limit: "
            "truncated=True after some steps, or env.max_episode_steps."
        )
    seen_obs = np.abs(seen.obs.astype(np.float64)) * spec.obs_scale  # as the network gets them
    largest = float(seen_obs.max())
    images = [seen_obs[..., a:b] for a, b, scale in spec.obs_bytes if scale < 1]
    for image in [seen_obs] if spec.obs_scale < 1 else images:
        if 0 < (most := float(image.max())) < SMALL:
            yield (
                f"images of bytes are at most {most:.3g} of the largest value that their space "
                "declares. If they are codes rather than colors, declare their true bound (Box(0, "
                "10, …, np.uint8)), or one-hot them with a wrapper."
            )
    whole = "'int" in str(spec.obs_space) or "'uint" in str(spec.obs_space)
    if largest > EXACT and whole:
        yield ROUNDED
    elif largest > LARGE:
        yield (
            f"observations are as large as {largest:.3g}. Scale them to about ± 1, or type "
            "algo.network.normalize_obs=true."
        )
    if (seen.obs == seen.obs[0]).all():
        yield "observations never changed. Do they show what the agents need to know?"
    if not seen.reward.any():
        or_zero = " (or agents' rewards add up to 0, and need env.reward=individual)"
        summed = or_zero if team is not None and spec.n_rewards == 1 else ""
        yield f"{N_STEPS} random steps were never rewarded{summed}: exploration may find nothing."


def check_masks(masked: MaskUse, single: EnvSpec | None) -> Iterator[str]:
    """A mask where that of a ``single`` agent is not looked for, and masks that only one of the
    two methods gives.
    """
    for name in mask_entries((single and single.obs_space) or {}):
        yield (
            f"the observation's entry {name} is learned from and masks no actions: the mask "
            "of a single agent is read from info['action_mask'], of reset() and of every step()."
        )
    if masked["step"] and any(masked["reset"]) != any(masked["step"]):
        one, other = ("reset", "step") if any(masked["reset"]) else ("step", "reset")
        yield (
            f"{one}() gives masks of available actions, info['{MASK}'], and {other}() gives none: "
            "there, all actions are available. Give one in the info of reset() and of every step()."
        )


def check_agents(team: TeamEnv | None) -> Iterator[str]:
    """An agent that is truncated while others continue, and names that a loaded policy cannot be
    asked by.
    """
    if team is not None and team.cut_early is not None:
        name, t = team.cut_early
        yield (
            f"{name} is truncated at step {t}, while others continue. The episode is the team's: "
            "what the agent would have got later is learned as 0. Truncate all agents together."
        )
    if team is not None and team.spec.agents is None:
        yield (
            "agents are not named by text or whole numbers, all different as text: a loaded policy "
            "takes arrays of all agents, and cannot be asked by name."
        )


def check_kept(team: TeamEnv | None, others_go_on: bool) -> Iterator[str]:
    """A team that keeps agents which have ended, while others continue or after the last one."""
    if team is not None and team.kept is not None and team.kept[2] == others_go_on:
        name, t, _ = team.kept
        yield (
            f"self.agents still has {name} after step {t}, although it has terminated or was "
            "truncated. PettingZoo expects that step() removes such agents. Here they stay out "
            "until they were absent once."
        )


def check_single(env: gymnasium.Env, masked: MaskUse, beyond: list[str]) -> Iterator[str]:
    """Compare what the methods of an environment of one agent return with its spaces."""
    space, rng = env.observation_space, np.random.default_rng(0)
    pair: Any = env.reset(seed=0)
    if not returns(pair, 2):
        yield f"reset() returned {describe(pair)}: expected (observation, info), info a dict."
        return
    obs, info = pair
    yield from outside(obs, space, "the first observation", beyond)
    masked["reset"].append(MASK in info)
    actions = numbered(env.action_space, "the environment")

    def stepped(info: Info) -> Any:
        action = actions.own(int(rng.choice(available(info.get(MASK), actions))))
        return env.step(action)

    step = stepped(info)
    for t in range(1, N_STEPS):
        if not returns(step, 5):
            yield (
                f"step() returned {describe(step)}: expected (observation, reward, terminated, "
                "truncated, info), info a dict."
            )
            return
        problems = [
            f"{name} is {describe(ended)}: expected True or False."
            for name, ended in zip(("terminated", "truncated"), step[2:4], strict=True)
            if not isinstance(ended, (bool, np.bool_))
        ]
        problems += outside(step[0], space, f"the observation of step {t}", beyond)
        yield from problems
        if problems:
            return
        if step[2] or step[3]:
            obs, info = env.reset(seed=t)
            masked["reset"].append(MASK in info)
            step = (obs, 0.0, False, False, info)
            continue
        if step[4] is not info:
            masked["step"].append(MASK in step[4])
        step = stepped(step[4])


def check_team(env: Any, masked: MaskUse, beyond: list[str]) -> Iterator[str]:
    """The same for a parallel environment."""
    for name in env.possible_agents:
        if env.action_space(name) is not env.action_space(name):
            yield f"action_space({name!r}) is a new object in every call: return the same one."
    obs, infos = env.reset(seed=0)  # dictionaries, see ``first_episode``
    agents = list(env.agents)
    for name in agents:
        space = env.observation_space(name)
        yield from outside(obs.get(name), space, f"{name}'s first observation", beyond)
    if set(obs) != set(agents):
        yield f"reset() shows {sorted(obs)}, but self.agents is {agents}: set it in reset()."
    masked["reset"].append(has_masks(infos))
    actions = {name: allowed(env, name, obs[name], infos.get(name, {})) for name in agents}
    step = env.step(actions)
    if not isinstance(step, tuple) or len(step) != 5:
        yield (
            f"step() returned {describe(step)}: expected five dictionaries by agent: observations, "
            "rewards, terminated, truncated, infos."
        )
        return
    for what, by_agent in zip(PARTS[:4], step, strict=False):
        if isinstance(by_agent, Mapping) and set(by_agent) != set(agents):
            yield (
                f"step() returned {what} of {sorted(by_agent)}: expected {agents}, the agents that "
                "acted, also those that leave."
            )
    if env.agents:
        masked["step"].append(has_masks(step[4]))


def allowed(env: Any, name: str, obs: Any, info: Any) -> object:
    """An available action of an agent."""
    space = env.action_space(name)
    space.seed(0)
    own = obs if isinstance(obs, Mapping) and MASK in obs else info
    mask = own.get(MASK) if isinstance(own, Mapping) else None
    if mask is None:
        return space.sample()
    actions = numbered(space, name)
    return actions.own(int(available(mask, actions)[0]))


def available(mask: object, actions: Actions) -> np.ndarray:
    """Numbers of available actions; all for a mask that does not fit, which is found later."""
    fits = None if mask is None else as_mask(mask, actions)
    return np.arange(actions.n) if fits is None or not fits.any() else np.flatnonzero(fits)


def outside(obs: object, space: Any, what: str, beyond: list[str]) -> Iterator[str]:
    """An observation that is not in its space; ``beyond`` is added where only real numbers exceed
    their bounds.
    """
    if space.contains(obs):
        return
    where = f"{what} is {describe(obs)}, which is not in its space {space}"
    if unbounded(space).contains(obs):
        beyond.append(f"{where}, and is learned from as it is. Declare wider bounds.")
    else:
        yield f"{where}: check its shape, its dtype and its range."


def describe(value: object) -> str:
    """A value in a few words."""
    if isinstance(value, np.ndarray):
        numbers = value.size and value.dtype.kind in "biuf"
        among = f" from {value.min()!s} to {value.max()!s}" if numbers else ""
        return f"an array {value.dtype} {list(value.shape)}{among}"
    if isinstance(value, tuple):
        return f"{len(value)} values ({', '.join(type(each).__name__ for each in value)})"
    return f"{type(value).__name__} {value!r}"[:80]
