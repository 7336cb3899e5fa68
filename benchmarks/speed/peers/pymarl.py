"""PyMARL and EPyMARL: their runners, learners and loop, imported from their source folder."""

import sys
import types
from importlib.util import find_spec
from itertools import count

import numpy as np
from peers.paused import Paused


class FreeEnv:
    """Constant random observations; episode i has ``lengths[i]`` time steps, over and over."""

    def __init__(self, n_agents, n_actions, obs_dim, state_dim, lengths, modern, **_):
        rng = np.random.default_rng(0)
        self.lengths, self.modern, self.episodes = lengths, modern, count()
        self.episode_limit = max(lengths)
        self.obs = list(rng.standard_normal((n_agents, obs_dim), np.float32))
        self.state = rng.standard_normal(state_dim, np.float32)
        self.avail_actions = rng.random((n_agents, n_actions)) < 0.7
        self.avail_actions[:, 0] = True
        self.avail_actions = self.avail_actions.astype(int).tolist()

    def reset(self):
        self.left = self.lengths[next(self.episodes) % len(self.lengths)]

    def step(self, actions):
        self.left -= 1
        return (None, 1.0, self.left == 0, False, {}) if self.modern else (1.0, self.left == 0, {})

    def get_obs(self):
        return self.obs

    def get_state(self):
        return self.state

    def get_avail_actions(self):
        return self.avail_actions

    def get_env_info(self):
        return {
            "n_agents": len(self.obs),
            "n_actions": len(self.avail_actions[0]),
            "obs_shape": len(self.obs[0]),
            "state_shape": len(self.state),
            "episode_limit": self.episode_limit,
        }

    def get_stats(self):
        return {}

    def close(self):
        pass


def program(folder, config, env_config, overrides, path=None):
    """Their ``run_sequential`` with these settings, and the module of their learner."""
    sys.path[:0] = [f"{folder}/src", *([path] if path else [])]
    sys.argv[1:] = []
    smac = types.ModuleType("smac.env")  # what they import whether it is used or not
    smac.MultiAgentEnv = smac.StarCraft2Env = FreeEnv
    sys.modules.update({"smac": types.ModuleType("smac"), "smac.env": smac})
    if find_spec("smaclite") is None:
        sys.modules["smaclite"] = types.ModuleType("smaclite")
    import run
    import yaml
    from envs import REGISTRY
    from utils.logging import Logger, get_logger

    REGISTRY["free"] = FreeEnv
    settings = {}
    for name in ("default", f"algs/{config}", *([f"envs/{env_config}"] if env_config else [])):
        with open(f"{folder}/src/config/{name}.yaml") as file:
            settings.update(yaml.safe_load(file))
    environment = {**settings["env_args"], **overrides.pop("env_args", {}), "seed": 1}
    settings.update(overrides, env_args=environment, use_cuda=False, device="cpu")
    settings.update(t_max=10**9, test_interval=10**9, test_nepisode=settings["batch_size_run"])
    settings.update(log_interval=10**9, runner_log_interval=10**9, learner_log_interval=10**9)
    logger = Logger(get_logger())
    logger.console_logger.setLevel("ERROR")
    return lambda: run.run_sequential(types.SimpleNamespace(**settings), logger)


def train(folder, config, overrides, warm_up, env_config=None, path=None):
    """Env steps of a training run after ``warm_up`` of them; a piece is a call of their runner."""
    start = program(folder, config, env_config, overrides, path)
    from runners import REGISTRY

    runner = REGISTRY[overrides.get("runner", "episode")]
    original = runner.run

    def body(pause):
        done = {"before": 0}

        def paused_run(self, test_mode=False):
            if not test_mode and self.t_env > done["before"]:
                pause(float(self.t_env - done["before"]))
                done["before"] = self.t_env
            return original(self, test_mode=test_mode)

        runner.run = paused_run
        start()

    do, work = Paused(body), 0.0
    while work < warm_up:
        work += do()
    return do


def update(folder, overrides, lengths):
    """Updates of one batch of episodes of these lengths."""
    overrides["env_args"]["lengths"] = lengths
    start = program(folder, "qmix", None, {**overrides, "buffer_size": len(lengths)})
    from learners.q_learner import QLearner

    original = QLearner.train

    def body(pause):
        def repeated(self, batch, t_env, episode_num):
            while True:
                original(self, batch, t_env, episode_num)
                pause(1.0)

        QLearner.train = repeated
        start()

    return Paused(body)
