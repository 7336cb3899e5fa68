"""States with what no environment shows are refused: compiled code indexes with them."""

import numpy as np
import pytest

from rltrain.env.games.matrix import TwoStepGames
from rltrain.env.games.stag_hunt import StagHunt
from tests.env.games.test_classic_control import pair
from tests.env.games.test_stag_hunt import SETTINGS

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
    "stag hunt": lambda: StagHunt(n_envs=2, **SETTINGS),
    "two-step game": lambda: TwoStepGames(n_envs=2),
    "cart pole": lambda: pair("CartPole-v1", n_envs=2)[0],
    "gymnasium": lambda: pair("CartPole-v1", n_envs=2)[1],
}


@pytest.mark.parametrize("name", CASES)
def test_what_no_environment_shows_is_refused(name):
    env = MAKE[name]()
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
