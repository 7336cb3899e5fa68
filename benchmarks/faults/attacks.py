"""Attacks in a configuration that try to execute code, or to read or write outside the run: nodes,
values of keys, overrides of a sweep.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TOUCH = {"command": "touch PWNED"}
OPTIONS = {"time_limit": "bootstrap", "max_episode_steps": None, "frame_stack": 1, "reward": "sum"}
GYMNASIUM = {
    **OPTIONS,
    **{"_target_": "rltrain.env.gymnasium_env", "id": "CartPole-v1", "kwargs": {}},
    **{"reward_clip": None, "factored": False},
}
PETTINGZOO = {**OPTIONS, "_target_": "rltrain.env.pettingzoo_env", "kwargs": TOUCH}
DOWNLOAD = {"filename": "x; touch PWNED;#", "url": "y"}
FROM_CLASS = {
    **{k: v for k, v in GYMNASIUM.items() if k != "id"},
    **{"_target_": "rltrain.env.from_class", "maker": "os:system", "kwargs": TOUCH},
}
CALLED = {**FROM_CLASS, "n_envs": 1, "training": True, "record": False}
"""The same for a part that receives no arguments from the program."""

NODES: Mapping[str, Any] = {
    "os.system": {"_target_": "os.system", **TOUCH},
    "subprocess.Popen": {"_target_": "subprocess.Popen", "args": "touch PWNED", "shell": True},
    "builtins.eval": {"_target_": "builtins.eval", "source": "open('PWNED', 'w')"},
    "from_class": CALLED,
    "id of a module": {**GYMNASIUM, "id": "os:system", "kwargs": TOUCH},
    "id of a package": {**GYMNASIUM, "id": "evil:CartPole-v1"},
    "id that makes others": {**GYMNASIUM, "id": "GymV21Environment-v0"},
    "a function of a package": {
        **PETTINGZOO,
        **{"id": "magent2.utility:download_file", "kwargs": DOWNLOAD},
    },
    "a module of a package": {**PETTINGZOO, "id": "pettingzoo.utils.deprecated_module"},
    "a name in a published module": {**PETTINGZOO, "id": "mpe2.simple_spread_v3:env"},
    "a module beside the user": {**PETTINGZOO, "id": "evil"},
    "importlib": {"_target_": "importlib.import_module", "name": "evil"},
    "functools.partial": {"_target_": "functools.partial", "func": "os.system"},
    "locate": {"_target_": "rltrain.common.imports.locate", "target": "os.system"},
    "own callback": {"_target_": "rltrain.config.python_objects.own_callback", "name": "x"},
    "nowhere": {"_target_": "rltrain.config.trust.nowhere"},
    "a class of another group": {"_target_": "rltrain.logger.CsvFile"},
    "an interpolation": {"x": "${oc.env:HOME}"},
    "an interpolation alone": "${oc.decode:x}",
    "a list": [[{"_target_": "os.system", **TOUCH}]],
    "Hydra's instantiate": {"_target_": "hydra.utils.instantiate", "config": TOUCH},
}
PARTS = (
    *("env", "buffer", "algo.network", "algo.loss", "algo.mixer", "algo.critic"),
    *("algo.distribution", "algo.exploration", "algo.target_update", "algo.optimizer"),
    *("callbacks", "logger.x", "logger.wandb", "test.function"),
)
VALUES: Mapping[str, Mapping[str, Any]] = {
    "test.env.id": {"env": GYMNASIUM, "test.env": {"id": "os:system", "kwargs": TOUCH}},
    "test.env.maker": {"env": GYMNASIUM, "test.env": {**CALLED}},
    "test.env.kwargs": {"env": GYMNASIUM, "test.env": {"kwargs": {"path": "{outside}/secret"}}},
    "test.env of a package": {"env": PETTINGZOO, "test.env": {"id": "magent2.utility:x"}},
    "test.env of a part": {"test.env": {"x": NODES["os.system"]}},
    "env.kwargs": {"env": GYMNASIUM, "env.kwargs": {"path": "{outside}/secret"}},
    "a class in env.kwargs": {"env": GYMNASIUM, "env.kwargs": {"x": NODES["os.system"]}},
    "a module in env.kwargs": {"env": GYMNASIUM, "env.kwargs": {"env_id": "os:system"}},
    "test.function": {"test.function": "os.system"},
    "test.function of ours": {"test.function": "rltrain.env.from_class"},
    "its own trust": {"trust": ["os", "subprocess"], "env": NODES["os.system"]},
    "its own trust of ours": {"trust": ["rltrain"], "algo.loss": CALLED},
    "dataset.write": {"dataset.write": "{outside}/data"},
    "dataset.read": {"dataset.read": "{outside}"},
    "logger.wandb.dir": {"logger.wandb": {"_target_": "rltrain.logger.Wandb", "dir": "{outside}"}},
    "logger.wandb.entity": {"logger.wandb": {"_target_": "rltrain.logger.Wandb", "entity": "x"}},
    "hardware.address": {
        **{"hardware.n_workers": 1, "hardware.overlap": False, "hardware.max_restarts": 1},
        **{"hardware.address": "ray://127.0.0.1:9", "hardware.worker_cpus": 1.0},
        **{"hardware.worker_resources": {}, "env.timeout": 60.0},
    },
    "env.prices": {
        "env": {
            **{"_target_": "rltrain.env.trading_env", "prices": "{outside}/secret"},
            **{"n_prices": 2000, "price_seed": 0, "test_fraction": 0.2, "window": 10},
            **{"cost": 0.001, "episode_length": 20},
        }
    },
    "env.start_positions": {
        "env": {
            **{"_target_": "rltrain.env.smac.SmacVectorEnv", "map_name": "3m"},
            "start_positions": "{outside}/secret",
        }
    },
    "env.map_file": {
        "env": {
            **{"_target_": "rltrain.env.smac.SmacVectorEnv", "map_name": "3m"},
            "map_file": "{outside}/secret",
        }
    },
    "env.replay_dir": {
        "env": {
            **{"_target_": "rltrain.env.smac.SmacVectorEnv", "map_name": "3m"},
            "replay_dir": "{outside}",
        }
    },
    "algo.optimizer": {"algo.optimizer.foreach": "/etc/passwd"},
}
"""Values by key; ``{outside}`` is a folder outside the run."""
BEFORE_TRAINING = {"checkpoint": {"checkpoint": "{outside}/run"}}
"""The same for a run without its own checkpoint."""

OVERRIDES = [
    *(f"+{key}={{_target_: os.system, command: touch PWNED}}" for key in ("x", "env.kwargs.x")),
    *(f"++{key}={{_target_: os.system}}" for key in ("env", "buffer", "algo.loss", "callbacks")),
    *(f"{part}._target_=os.system" for part in ("env", "buffer", "algo.network", "algo.optimizer")),
    *(f"{part}._target_=rltrain.env.from_class" for part in ("algo.loss", "algo.mixer", "buffer")),
    *("env=gymnasium\nenv.id=os:system", "env=pettingzoo\nenv.id=magent2.utility:download_file"),
    *("env=gymnasium\n+test.env.id=os:system", "test.function=os.system", "+env.maker=os:system"),
    *("callbacks=[{_target_: os.system}]", "callbacks=[{_target_: rltrain.logger.CsvFile}]"),
    *("trust=[os]\ntest.function=os.system", "+trust=[os]\ncallbacks=[{_target_: os.system}]"),
    *("hydra.searchpath=[file:///tmp]", "+hydra.searchpath=[file:///tmp]", "hydra.run.dir=/tmp/x"),
    *(
        "hydra/launcher=joblib",
        "experiment=evil.yaml",
        "experiment='./evil.yml'",
        "experiment=evil",
    ),
    *(
        "env=/tmp/evil",
        "algo=../evil",
        "env@algo=smac",
        "+env@x=smac",
        "config=/tmp",
        "resume=/tmp",
    ),
    *("checkpoint=/tmp/run", "checkpoint=hf://a/b", "dataset.write=/tmp/x", "dataset.read=/tmp/x"),
    *("hardware=ray\nhardware.address=ray://x:1", "env=trading\nenv.prices=/etc/passwd"),
    *("+logger.wandb.dir=/tmp", "+logger.wandb.entity=x", "env=smac\nenv.start_positions=/etc/x"),
    "env=smac\nenv.map_file=/etc/passwd",
    *("tuned=${oc.env:HOME}", "env.game=${oc.env:HOME}", "env=smac\nenv.map_name=${oc.env:HOME}"),
    *("~algo", "report.dir=/tmp", "mode=report", "tune.dir=/tmp"),
    *("experiment=pkg://evil", "algo.loss.gamma='${oc.env:HOME}'", "stop.metric='a${seed}'"),
    *(
        "env=gymnasium\nenv.id=evil:Env-v0",
        "env=gymnasium\n+env.kwargs.path=/etc/passwd",
        "seed=1,2",
    ),
    *("env=gymnasium\nenv.id=GymV21Environment-v0", "runs=/tmp", "hydra.sweep.dir=/tmp/x"),
]
"""Overrides of a job in ``sweep.json``, several with a line each."""
