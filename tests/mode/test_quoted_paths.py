"""Commands in messages are typed as they stand, whatever the folders are named."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from rltrain.common import checkpoint
from rltrain.config.compose import compose_single
from rltrain.errors import CheckpointError, RltrainError
from rltrain.main import run
from rltrain.mode.sweep.plan import SweepJob, SweepPlan, plan_for
from rltrain.mode.sweep.summary import summarize

NAME = "it's a b"
KEYS = r"'?(?:resume|checkpoint|config)="
NEW = ("env=two_step", "hardware.threads=1", "logger.console=false")


def refused(*words):
    """The message of a refusal."""
    with pytest.raises(RltrainError) as error:
        run(words)
    return str(error.value)


def of_a_run(run_dir):
    """Refusals about a run and its checkpoints."""
    yield refused(*NEW, f"hydra.run.dir={run_dir}")
    newest, earlier, *_ = checkpoint.list_steps(run_dir / "checkpoints")
    yield refused(f"resume={run_dir / 'checkpoints' / str(earlier)}")
    yield refused(*NEW, "--resume", str(run_dir))
    yield refused("env=two_step", str(run_dir))
    weights = run_dir.parent / "only weights"
    copy = weights / "checkpoints" / str(newest)
    checkpoint.copy_weights(run_dir / "checkpoints" / str(newest), copy)
    yield refused(f"resume={copy}")
    with pytest.raises(CheckpointError) as error:
        checkpoint.find(weights, full=True)
    yield str(error.value)


def of_others(folder):
    """Refusals about folders of PyMARL, and of an example of the package."""
    for name in ("one", "two"):
        (folder / "models" / name / "100").mkdir(parents=True)
        (folder / "models" / name / "100" / "agent.th").touch()
    yield refused("mode=evaluate", f"checkpoint={folder / 'models' / 'one'}")
    yield refused("mode=import", f"checkpoint={folder / 'models'}", "algo=qmix", "env=smac")
    yield refused("resume=demo/3m")


def of_a_sweep(folder, capsys, caplog):
    """What is said about a sweep."""
    plan = SweepPlan(folder / "sweep", ("env.kwargs={a: 1}",), "other", 2, "now")
    plan = plan.with_jobs([SweepJob(plan.folder / f"{i}_seed-{i}", ()) for i in range(2)])
    plan.write()
    yield refused("-m", *NEW, "seed=1,2", f"hydra.sweep.dir={plan.folder}")
    summarize(plan)
    yield capsys.readouterr().out
    settings = compose_single(NEW)[1]
    outputs = Path.cwd() / "outputs" / "multirun" / "other sweep"
    SweepPlan(outputs, plan.overrides, "other", 2, "now", plan.jobs).write()
    plan_for(plan.overrides, [settings], None)
    yield caplog.text
    SweepPlan(plan.folder, plan.overrides, "other", 2, "now").write()
    yield refused(f"resume={plan.folder}")


def commands(text):
    """The words of a message that suggest an override with a path, up to the next word that is not
    a part of it, as a shell splits them.
    """
    text = text.replace("\n", " ")
    for found in re.finditer(KEYS, text):
        rest = text[found.start() :]
        lexer = shlex.shlex(rest, posix=True, punctuation_chars=False)
        lexer.whitespace_split, lexer.commenters = True, ""
        try:
            yield next(lexer).rstrip(".,:;)")
        except ValueError as error:
            raise AssertionError(f"{error}: {rest}") from error


def test_paths_with_blanks_and_quotes_can_be_typed_as_shown(trained, own_folder, capsys, caplog):
    folder = own_folder / NAME
    folder.mkdir()
    run_dir = shutil.move(trained, folder / "a run")
    messages = [*of_a_run(run_dir), *of_others(folder), *of_a_sweep(folder, capsys, caplog)]
    paths = 0
    for message in messages:
        said = [word for word in commands(message) if "FOLDER" not in word and "latest" not in word]
        assert said or "rltrain -m" in message, message
        for word in said:
            path = Path(word.partition("=")[2])
            typed = word.partition("=")[2].startswith("demo/")
            assert typed or path.exists(), (word, message)
            paths += " " in str(path)
    assert paths >= 9
    words = shlex.split(messages[-1].partition("rltrain ")[2].rstrip("."))
    assert words == ["-m", "env.kwargs={a: 1}", f"hydra.sweep.dir={folder}/sweep"]
