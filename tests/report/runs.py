"""Runs for the tests of reports: made in memory, and as run folders."""

import json

import numpy as np

from rltrain.config.catalog import SHIPPED
from rltrain.config.schema import ReportSettings
from rltrain.report.run_data import Run


def run(folder, algo="dqn", env="CartPole-v1", seed=0, values=(0.0, 1.0), **about):
    """A run with tests at 0, 100, 200, … env steps."""
    x = np.arange(len(values)) * 100.0
    columns = {"env_steps": x, "updates": x / 4, "seconds": x * 60}
    columns |= {about.pop("metric", "test/return_mean"): np.array(values, float)}
    about = {"library": "rltrain", **about}
    return Run(folder=folder, algo=algo, env=env, seed=seed, columns=columns, **about)


def settings(**changes):
    """The defaults of conf/config.yaml, with few resamples."""
    import yaml

    keys = SHIPPED.root.keys
    read = {k.removeprefix("report."): yaml.safe_load(v.value) for k, v in keys.items()}
    defaults = {k: v for k, v in read.items() if k in ReportSettings.__annotations__}
    return ReportSettings(**{**defaults, "resamples": 50, **changes})


PYMARL = {"name": "qmix", "env": "sc2", "env_args": {"map_name": "3m"}, "seed": 1}
"""A configuration of PyMARL."""


def write_files(folder, files):
    """Files with bytes, text, or JSON of other values."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if not isinstance(content, bytes):
            text = content if isinstance(content, str) else json.dumps(content)
            content = text.encode("utf-8", "surrogatepass")
        (folder / name).write_bytes(content)


def write_run(folder, algo="dqn", env="cartpole", seed=0, values=(0.0, 1.0), **config):
    """A run folder of rltrain with tests at 0, 100, 200, … env steps."""
    choices = {"algo": algo, "env": env, "buffer": "replay", "logger": "default", "tuned": None}
    ids = {"cartpole": "CartPole-v1", "acrobot": "Acrobot-v1"}
    tree = {"seed": seed, "env": {"id": ids[env]}, "algo": {"batch_size": 32, "lr": 0.1}}
    rows = [
        {"env_steps": 100 * i, "updates": i, "seconds": i, "test/return_mean": value}
        for i, value in enumerate(values)
    ]
    files = {
        "config.json": {"choices": choices, **tree, **config},
        "run.json": {"status": "finished"},
    }
    write_files(folder, {**files, "metrics.jsonl": "".join(json.dumps(row) + "\n" for row in rows)})
    return folder
