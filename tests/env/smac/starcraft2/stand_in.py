"""A stand-in for the ``smac`` package and the game: SMAC's methods on a toy of 3m's sizes.

What agent 0 does decides what happens: STOP plays on, the moves are the faults. An episode takes
``LIMIT`` steps and is won if agent 1 attacks in the last one.
"""

from pathlib import Path

STOP, RAISE, EMPTY, DIE, HANG, ATTACK = range(1, 7)
LIMIT = 4

SOURCE = """
import os
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np


def unit(unit_type, x, y):
    pos = SimpleNamespace(x=float(x), y=float(y))
    return SimpleNamespace(
        unit_type=unit_type, pos=pos, health=45.0, shield=0.0, weapon_cooldown=0.0
    )


class StarCraft2Env:
    n_agents, n_actions, limit = 3, 9, 4

    def __init__(self, map_name, seed, continuing_episode, replay_dir, replay_prefix, **options):
        if replay_prefix == "broken":
            raise ImportError("descriptors cannot be created")
        self.seed_given, self.continuing = seed, continuing_episode
        self.replay_dir, self.replay_prefix, self.options = replay_dir, replay_prefix, options
        self.launches = self.episodes = self.battles_game = self.battles_won = 0
        self.force_restarts = self.t = 0
        self.faults = replay_prefix == "faults"
        self.agents, self.enemies = {}, {}

    def get_env_info(self):
        sizes = {"state_shape": 48, "obs_shape": 30, "n_actions": 9, "n_agents": 3}
        if self.replay_prefix == "sizes":
            sizes["obs_shape"] = 31
        return sizes

    def reset(self):
        if self.replay_prefix == "no reset":
            raise OSError("the game does not start")
        if self.episodes == 0:
            self.launches += 1
        if self.launches > 1:
            raise AssertionError("two games in one process")
        self.t = 0
        self.agents = {i: unit(3000, 10 + i + self.episodes % 2, 16) for i in range(3)}
        self.enemies = {i: unit(48, 23.5 - i, 15.25) for i in range(3)}
        return self.get_obs(), self.get_state()

    def step(self, actions):
        fault = actions[0] if self.faults else 1
        if fault == 2:
            raise ConnectionError("the game is gone")
        if fault == 3:
            self.force_restarts += 1
            return 0, True, {}
        if fault == 4:
            os._exit(9)
        if fault == 5:
            threading.Event().wait()
        self.t += 1
        self.agents[0].pos.x += 1
        self.enemies[2].health = 0.0
        info = {"battle_won": False, "dead_allies": 0, "dead_enemies": self.t - 1}
        if self.t == self.limit:
            self.episodes += 1
            self.battles_game += 1
            if actions[1] == 6:
                info["battle_won"] = True
                self.battles_won += 1
            elif self.continuing:
                info["episode_limit"] = True
            return 20.0, True, info
        return float(self.t), False, info

    def get_obs(self):
        row = np.zeros(32 if self.options["obs_timestep_number"] else 30, np.float32)
        row[:3] = self.t, self.episodes, self.seed_given % 1000
        row[-1] = self.t / self.limit
        return [row] * 3

    def get_state(self):
        return np.full(48, self.t, np.float32)

    def get_avail_actions(self):
        return [[0, 1, *[int(self.faults)] * 4, 1, 0, 0]] * 3

    def get_stats(self):
        rate = self.battles_won / self.battles_game
        return {"battles_won": self.battles_won, "battles_game": self.battles_game,
                "win_rate": rate, "restarts": self.force_restarts}

    def get_options(self):
        return {**self.options, "pid": os.getpid()}

    def fill_disk(self, half_written):
        self.half_written = half_written

    def save_replay(self):
        path = Path(self.replay_dir, f"{self.replay_prefix}_{self.episodes}.SC2Replay")
        half_written = getattr(self, "half_written", None)
        if half_written is not False:
            path.write_text("replay")
        if half_written is not None:
            raise OSError(28, "No space left on device")

    def close(self):
        self.launches = 0
"""


def install_package(folder: Path) -> None:
    """``smac`` and what it imports, below a folder for ``sys.path``."""
    place = folder / "smac" / "env" / "starcraft2"
    place.mkdir(parents=True)
    (place / "starcraft2.py").write_text(SOURCE)
    text = "from smac.env.starcraft2.starcraft2 import StarCraft2Env\n"
    (folder / "smac" / "__init__.py").touch()
    (folder / "smac" / "env" / "__init__.py").write_text(text)
    (place / "__init__.py").touch()
    for name in ("pysc2", "s2clientprotocol", "absl"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").touch()


WRAPPER = """
from smac.env import StarCraft2Env


class StarCraftCapabilityEnvWrapper:
    def __init__(self, capability_config, **options):
        self.config = capability_config
        self.env = StarCraft2Env(**options)
        self.resets = 0

    def __getattr__(self, name):
        return getattr(self.env, name)

    def reset(self):
        self.resets += 1
        pair = self.env.reset()
        return None if self.resets == 1 else pair

    def save_replay(self):
        self.env.save_replay()
"""


def install_smacv2(folder: Path) -> None:
    """``smacv2`` beside ``smac``; its first reset gives None."""
    place = folder / "smacv2" / "env" / "starcraft2"
    place.mkdir(parents=True)
    for each in (folder / "smacv2", folder / "smacv2" / "env", place):
        (each / "__init__.py").touch()
    (place / "wrapper.py").write_text(WRAPPER)


def install_game(folder: Path, *maps: str) -> None:
    """A folder as StarCraft II's own."""
    (folder / "Versions" / "Base75689").mkdir(parents=True)
    (folder / "Maps" / "SMAC_Maps").mkdir(parents=True)
    for name in maps:
        (folder / "Maps" / "SMAC_Maps" / f"{name}.SC2Map").touch()
