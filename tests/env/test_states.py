"""Saved states of every kind of environment: continued exactly, and refused where no environment
shows what they hold, since compiled code indexes with it.
"""

import importlib.util

import numpy as np
import pytest

from rltrain.battles.data.maps import map_names
from rltrain.common import checkpoint
from rltrain.env import StagHunt, lbf_env, magent_env, minatar_env, mpe_env, rware_env
from rltrain.env.games.matrix import MatrixGames, TwoStepGames
from rltrain.env.smac import Smacv2VectorEnv, SmacVectorEnv
from tests.battles.conftest import legal, seeds
from tests.env.games.test_classic_control import made
from tests.env.games.test_stag_hunt import SETTINGS
from tests.env.smac.test_smacv2 import LIMITED, PUBLISHED
from tests.env.team.test_benchmarks import LBF, MAGENT, MPE, RWARE
from tests.env.test_minatar import GAMES, OPTIONS
from tests.helpers import require_same_steps

GAME_OF_TWO = {"game": "adversarial_pursuit", "max_episode_steps": 50}
MINATAR = {**OPTIONS, "n_envs": 2, "time_limit": "bootstrap"}
ONE_OF_A_KIND = {"3m", "MMM2", "1c3s5z", "2c_vs_64zg", "so_many_baneling", "2s_vs_1sc"}
ROWS = [  # an environment, its options, and steps before and after its state is saved
    *((TwoStepGames, {"n_envs": 2}, n, 5) for n in range(4)),
    *((MatrixGames, {"game": "qplex", "length": 3, "n_envs": 2}, n, 5) for n in range(4)),
    (StagHunt, {**SETTINGS, "n_envs": 2}, 230, 50),  # into the second episodes
    (mpe_env, {**MPE, "game": "tag"}, 55, 5),
    (lbf_env, {**LBF, "max_episode_steps": 50}, 55, 5),
    (rware_env, {**RWARE, "max_episode_steps": 50}, 55, 5),
    (magent_env, {**MAGENT, **GAME_OF_TWO}, 55, 5),
    *((minatar_env, {**MINATAR, "game": game}, 150, 250) for game in GAMES),
    *((SmacVectorEnv, {"map_name": name, "n_envs": 2}, 14, 40) for name in map_names()),
    (SmacVectorEnv, {"map_name": "MMM", "n_envs": 2, "heuristic_ai": True}, 14, 30),
    *(
        (Smacv2VectorEnv, {"map_name": f"{race}_5_vs_5", **PUBLISHED, **more, "n_envs": 2}, 14, 60)
        for race in ("terran", "protoss", "zerg")
        for more in ({}, LIMITED)
    ),
]


def marked(make, options, n_before, n_after):
    """A row as a parameter of a test, slow or skipped where it must be."""
    name = options.get("map_name", options.get("game", ""))
    slow = name not in ONE_OF_A_KIND and "heuristic_ai" not in options
    if make is Smacv2VectorEnv:  # every race, and both sights
        slow = options["conic_fov"] != name.startswith("protoss")
    elif make is not SmacVectorEnv:
        slow = False
    marks = [pytest.mark.slow] if slow else []
    if make is minatar_env and importlib.util.find_spec("minatar") is None:
        marks.append(pytest.mark.skip(reason="MinAtar is not installed"))
    id = f"{make.__name__}-{name}-{n_before}"
    return pytest.param(make, options, n_before, n_after, marks=marks, id=id)


@pytest.mark.parametrize(("make", "options", "n_before", "n_after"), [marked(*row) for row in ROWS])
def test_a_saved_state_is_continued_exactly(make, options, n_before, n_after, tmp_path):
    one, other, rng = make(**options), make(**options), np.random.default_rng(0)
    for env, n in ((one, n_before), (other, 3)):
        env.reset(seeds)
        for _ in range(n):
            env.step(legal(env, rng))
    checkpoint.write(tmp_path, 0, {"env": one.state_dict()})
    other.load_state_dict(checkpoint.read(tmp_path / "0", "env"))
    assert other.lost is None or not other.lost.any()
    require_same_steps(one, other, (legal(one, rng) for _ in range(n_after)))


NAN, FAR = float("nan"), 10**17
SHOWN = [("obs", NAN), ("state", NAN), ("avail_actions", 0), ("episode", -1), ("episode", FAR)]
CASES = {
    "stag hunt": [
        *SHOWN,
        *((key, bad) for key in ("agents", "prey") for bad in (-1, SETTINGS["size"])),
        *((key, 2) for key in ("free", "alive")),
        *(("t", bad) for bad in (-1, FAR)),
    ],
    "two-step game": [*SHOWN, *(("place", bad) for bad in (-1, 4))],
    "cart pole": [*SHOWN, ("states", NAN), *(("t", bad) for bad in (-1, 501))],
    "gymnasium": [*SHOWN[-2:], ("actions", -1), ("actions", 2)],
}
MAKE = {
    "stag hunt": lambda n: StagHunt(n_envs=n, **SETTINGS),
    "two-step game": lambda n: TwoStepGames(n_envs=n),
    "cart pole": lambda n: made("CartPole-v1", n_envs=n),
    "gymnasium": lambda n: made("CartPole-v1", compiled=False, n_envs=n),
}


@pytest.mark.parametrize("name", CASES)
def test_what_no_environment_shows_is_refused(name):
    env = MAKE[name](2)
    env.reset(lambda e, k: 10 * e + k)
    stay = np.full((2, env.spec.n_agents), 4 if name == "stag hunt" else 0)
    env.step(stay)
    whole = env.state_dict()
    env.load_state_dict(whole)
    for key, bad in CASES[name]:
        if not np.size(whole[key]):
            continue  # no global state
        state = env.state_dict()
        np.atleast_1d(state[key][-1] if key == "actions" else state[key][-1:])[...] = bad
        with pytest.raises(ValueError, match=rf"env\.{key} has"):
            env.load_state_dict(state)
    for key, value in whole.items():
        if isinstance(value, np.ndarray) and key != "values":  # which are only compared
            for wrong in (value[..., None], value.astype(complex)):
                with pytest.raises(ValueError, match=rf"env\.{key} should be"):
                    env.load_state_dict({**whole, key: wrong})
    other = MAKE[name](3)
    other.reset(seeds)
    with pytest.raises(ValueError, match=r"2 environments, this run has 3: set hardware\.n_envs=2"):
        other.load_state_dict(whole)
