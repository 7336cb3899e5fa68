"""Random command lines: real keys with wrong values, Hydra's syntax, modes and flags. Each exits
with code 0 or 2 (3 for a missing run), without a traceback and without writing anything. Training
commands are only built and closed, sweeps and searches only composed.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from benchmarks.faults.overrides import clear
from rltrain.config.catalog import Catalog
from rltrain.config.compose import compose_checked
from rltrain.config.overrides import flat_keys
from rltrain.errors import RltrainError, UsageError
from rltrain.main import run
from rltrain.mode.train import Result

N_LINES = 3000
LONGEST_ANSWER = 12
"""Maximum lines of the message about several wrong overrides."""
ALGOS = ("simple_q", "dqn", "rainbow", "iqn", "r2d2", "pqn", "vdn", "qmix", "qtran", "scripted")
ENVS = ("cartpole", "two_step", "matrix", "smac", "smacv2", "smaclite", "gymnasium", "trading")
LOADING = ("checkpoint=", "resume=", "config=", "runs=", "dataset.read=")
"""Exit code for a missing run."""
VALUES = (
    *("", "abc", "-1", "0", "1", "2", "0.5", "1e6", "1_000", "1e400", "nan", "inf", "-inf", "null"),
    *(
        "true",
        "false",
        "yes",
        "'",
        '"',
        "''",
        "'a b'",
        "[",
        "]",
        "{",
        "[1,2]",
        "[[1],[2]]",
        "[null]",
    ),
    *("{a: 1}", "{a:1,b:[2]}", "{}", "[]", "[{_target_: os.getcwd}]", "{_target_: nowhere}"),
    *("é", "李明", "../..", "/", "~", "~nobody/x", ".", "a=b", "a/b", "a:b", "a.b", "*", "?", "@x"),
    *("9" * 400, "-" * 50, "x" * 300, "1.5e-3", "0x10", "1:3", "1k", "50%", "1/2", "10**6", "1 2"),
)
SYNTAX = (
    *("1,2", "a,b", "choice(1,2)", "choice(a,b)", "choice()", "range(1,3)", "range(0,1,0.5)"),
    *("range(3)", "interval(0,1)", "interval(1e-4,1e-2)", "glob(*)", "glob([*],exclude=x)"),
    *("sort(3,1,2)", "sort(choice(3,1),reverse=true)", "shuffle(1,2)", "tag(a,choice(1,2))"),
    *(
        "int(3.2)",
        "float(1)",
        "str(1)",
        "bool(1)",
        "int(abc)",
        "json_str({a:1})",
        "int(choice(1,2))",
    ),
    *("extend_list(1,2)", "nope(1)", "range(1,2,0)", "range(0,100000)", "interval(a,b)"),
    *("${seed}", "${nope}", "${oc.env:HOME}", "${oc.env:NOPE_NOT_SET}", "${oc.decode:abc}", "???"),
    *("${hydra:runtime.cwd}", "${hydra:nope}", "${now:%Y}", "${eval:1}", "${", "${seed", "$seed"),
    *("\\", "\\,", "a\\,b", "'a,b'", "[1,2],[3]", "{a:1},{a:2}", "${.}", "${..x}", "${algo.loss}"),
)
FLAGS = (
    *("-m", "-m", "-m", "--multirun", "--cfg job", "--cfg=job", "--cfg", "--cfg nope", "-c job"),
    *("--resolve", "-p algo", "--package algo.loss", "-p nope", "--package", "--help", "-h"),
    *("--version", "--config-dir=.", "--config-dir nowhere", "-cd", "--nope", "--seed=1", "-x"),
    *("--config-name=x", "--config-path=x", "--info searchpath", "-sc query=bash", "--"),
)
WHOLE = (
    *("mode=train", "mode=evaluate", "mode=watch", "mode=export", "mode=push", "mode=import"),
    *("mode=report", "mode=tune", "mode=nope", "mode=", "mode=[train]", "mode=train,evaluate"),
    *("checkpoint=nowhere", "resume=nowhere", "resume=latest", "config=nowhere", "runs=nowhere"),
    *("checkpoint=latest", "checkpoint=.", "resume=.", "config=.", "runs=.", "runs=[x]", "resume="),
    *("load_step=best", "load_step=-1", "load_step=all", "record=video", "record=1", "trust=[x]"),
    *("trust=x", "callbacks=[]", "callbacks=x", "callbacks=[{_target_: json.JSONDecoder}]"),
    *("callbacks=[{_target_: rltrain.callback.Callback}]", "callbacks=[{a: 1}]", "experiment=nope"),
    *("callbacks=[{_target_: builtins.int}]", "callbacks=[null]", "callbacks=[1]", "tuned=none"),
    *("test.function=json.loads", "test.function=json.JSONDecoder", "test.function=nope.nope"),
    *("algo.loss._target_=json.JSONDecoder", "algo.mixer._target_=builtins.int", "buffer=nope"),
    *("algo.network._target_=json.JSONDecoder", "buffer._target_=builtins.list", "tuned=auto"),
    *("env._target_=json.loads", "env._target_=nope.Nope", "algo.optimizer._target_=json.loads"),
    *("algo.exploration._target_=builtins.int", "hydra.run.dir=x", "hydra.run.dir=", "hydra.x=1"),
    *("hydra.sweep.dir=x", "hydra/launcher=joblib", "hydra/launcher=nope", "hydra.searchpath=[x]"),
    *("hydra.sweeper.max_batch_size=2", "hydra.job.chdir=true", "hydra/sweeper=basic", "hydra=x"),
    *("experiment=./x.yaml", "experiment=zoo/dqn", "dataset.write=.", "dataset.read=x", "train"),
    *("algo=[dqn,qmix]", "algo={a:1}", "algo=null", "algo@x=dqn", "algo/loss=nope", "env=dqn"),
    *("logger=[]", "logger=csv", "logger=[csv,nope]", "logger=null", "logger.wandb=null", "=1"),
    *("hardware=process", "hardware=cuda", "hardware=ddp", "hardware=ray", "hardware=nope", "a b"),
    *("algo/network=conv", "algo/network=lstm", "algo/network=hpn", "algo/mixer=qplex", "=", "=="),
    *("algo/distribution=quantile", "buffer=episode", "buffer=on_policy", "buffer=sequence", "~"),
)


def cases(folder: Path, seed: int, n_cases: int | None) -> Iterator[tuple[str, str | None]]:
    """Lines of one to six parts."""
    rng = random.Random(seed)
    keys = known_keys()
    with contextlib.chdir(folder), built_only():
        for _ in range(N_LINES if n_cases is None else n_cases):
            line = drawn(rng, keys)
            yield " ".join(line), answered(folder, line)
            clear(folder)


def known_keys() -> list[str]:
    """Every key of every algorithm and environment, and every group."""
    found = dict.fromkeys(
        key
        for words in (*([f"algo={a}"] for a in ALGOS), *([f"env={e}"] for e in ENVS))
        for key in flat_keys(compose_checked(words).tree)
    )
    return [*found, *Catalog().groups]


def drawn(rng: random.Random, keys: list[str]) -> list[str]:
    """One command line."""
    line = [f"algo={rng.choice(ALGOS)}"] if rng.random() < 0.6 else []
    line += [f"env={rng.choice(ENVS)}"] if rng.random() < 0.6 else []
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        key, kind = rng.choice(keys), rng.random()
        if kind < 0.25:
            line.append(f"{key}={rng.choice(VALUES)}")
        elif kind < 0.4:
            group = rng.choice(Catalog().groups)
            line.append(f"{group}={rng.choice(list(Catalog().options(group)))}")
        elif kind < 0.6:
            line.append(f"{key}={rng.choice(SYNTAX)}")
        elif kind < 0.7:
            sign = rng.choice(("+", "++", "~", "~~", "@", "/", "."))
            value = rng.choice(("", "=1", "=null", "={a: 1}", "=a,b", "@x=y", ".x=1"))
            line.append(f"{sign}{key}{value}")
        elif kind < 0.85:
            line.append(rng.choice(WHOLE))
        else:
            at = rng.randint(0, len(line))
            line[at:at] = rng.choice(FLAGS).split()
    return line


@contextlib.contextmanager
def built_only() -> Iterator[None]:
    """Let runs be built and not trained, sweeps and searches be composed and not begun."""
    from rltrain.mode.train import built

    def build(settings: object, run_dir: Path, **options: object) -> Result:
        built(settings, run_dir).close()
        return Result(run_dir)

    with (
        patch("rltrain.mode.train.run_training", build),
        patch("rltrain.mode.sweep.run.begin", lambda overrides, settings: 0),
        patch("rltrain.mode.tune.command.start", lambda *args: 0),
        patch("rltrain.mode.tune.command.write_results", lambda *args: 0),
        patch("rltrain.mode.watch.watch", lambda settings, source: None),
        patch.dict(os.environ, {"NO_COLOR": "1"}),
    ):
        yield


def answered(folder: Path, line: list[str]) -> str | None:
    """What is wrong with how a command line is answered, or None."""
    shown = io.StringIO()
    try:
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
            code = run(line)
        return None if code in (0, 2) else f"exit code {code}"
    except RltrainError as error:
        text, code = str(error), error.exit_code
    except SystemExit as error:
        return None if error.code in (0, 2, None) else f"exit code {error.code}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    absent = any(word.lstrip("+~").startswith(LOADING) for word in line)
    if code != UsageError.exit_code and not (code == 3 and absent):
        return f"exit code {code}: {text}"
    if len(text.splitlines()) > LONGEST_ANSWER:
        return f"{len(text.splitlines())} lines"
    left = [path.name for path in folder.iterdir()]
    return f"{left} was written" if left else None
