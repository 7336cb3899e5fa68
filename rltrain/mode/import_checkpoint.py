"""mode=import: a checkpoint of PyMARL, EPyMARL or PyMARL2 as a run that can be evaluated and
resumed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from rltrain.algo.learner import Learner
from rltrain.common.checkpoint.fit import size_words
from rltrain.common.files import expanded, whole_number
from rltrain.config.schema import Settings
from rltrain.errors import UsageError, storage_errors
from rltrain.logger.loggers import Loggers
from rltrain.logger.metric_files import JsonLines
from rltrain.logger.screen import Screen, shown
from rltrain.migrate import load_pymarl, named_parts, renamed
from rltrain.migrate.pymarl import advice
from rltrain.migrate.pymarl_files import AGENT, MIXER, OPTIMIZER, PymarlFiles, read_folder
from rltrain.mode.messages.closing import next_commands, to_trust
from rltrain.mode.run_folder import Record, leave, new_run, now, require_new
from rltrain.mode.train import built
from rltrain.types import Clock

CENTRAL = ("central_agent", "central_mixer")
ANOTHER = (
    "Choose the environment that it was trained in, such as env.map_name=NAME, with the options "
    "of env that change its observations."
)


def import_run(
    settings: Settings,
    path: str | Path,
    load_step: int | None,
    run_dir: Path,
    texts: Mapping[str, str],
) -> None:
    """Write a run folder whose checkpoint has the weights and the optimizer's moments of a folder
    of PyMARL; targets are copies of the networks, as PyMARL's ``load_models`` makes them.

    Args:
        texts: what to write into ``.hydra/``, by name.

    Raises:
        CheckpointError: the folder cannot be read, or has something other than tensors.
        StorageError: the run cannot be written; it can be imported again.
        UsageError: its networks are not those of this environment and algorithm.
    """
    require_new(run_dir)
    files = read_folder(Path(os.path.realpath(expanded(path))), load_step)
    record = Record(run_dir, settings)
    trainer = built(settings, run_dir, Loggers([JsonLines(run_dir / "metrics.jsonl")]), [record])
    try:
        learner = trainer.learner
        remarks = files.remarks + load_files(learner, files)
        updates = int(learner.state_dict()["optimizer"]["step"])
        trainer.clock = Clock(env_steps=files.env_steps, updates=updates)
        trainer.pretrained = True
        learner.target_update.due(trainer.clock)  # the targets are copies from now
        record.initialize(trainer.rollout.about)
        record.facts["imported"] = str(files.folder)
        with storage_errors(run_dir), new_run(run_dir, texts):
            try:
                record.begin(trainer)
                trainer.save(with_replay=False)
                record.write(trainer, status="interrupted", finished=now())
            except BaseException:  # nothing that could be resumed
                (run_dir / "config.json").unlink(missing_ok=True)
                shutil.rmtree(run_dir / "checkpoints", ignore_errors=True)
                leave(record.path, os.getpid())
                raise
    finally:
        trainer.close()
    optional = {MIXER: files.mixer, OPTIMIZER: updates}  # no updates: it starts from scratch
    parts = ", ".join([AGENT, *(name for name, part in optional.items() if part)])
    commands = next_commands(
        record.facts | {"status": "finished"}, trainer, to_trust(settings.plain)
    )
    Screen().lines(
        *remarks,
        f"Imported {parts} of {files.folder} (env step {files.env_steps:,}) as {shown(run_dir)}.",
        *(f"  {command}" for command in commands),
    )


def load_files(learner: Learner, files: PymarlFiles) -> tuple[str, ...]:
    """Load networks, targets and the optimizer's moments; returns what the user should know.
    UsageError, with what to type, if they do not fit.
    """
    parts = named_parts(learner.online)
    central = {part: parts[part].state_dict() for part in CENTRAL if part in parts}
    children = learner.online.named_children()
    (of_mixer,) = (name for name, part in children if part is parts["mixer"])
    agents, mixer = renamed(files.agent, parts["agent"]), renamed(files.mixer)
    given = {f"agents.{name}": tensor for name, tensor in agents.items()}  # in PyMARL's order
    given |= {f"{of_mixer}.{name}": tensor for name, tensor in mixer.items()}
    require_fit(learner, files, given)
    moments, remarks = optimizer_moments(learner, files, list(given))
    load_pymarl(learner, files.agent, files.mixer, **central)
    learner.load_state_dict({**learner.state_dict(), "optimizer": moments})
    if central:
        remarks += ("The folder has no central networks: they start from scratch.",)
    if whole_number(files.folder.name) is None:
        remarks += (f"{files.folder.name} is not an env step: the run is counted from 0.",)
    return remarks


def require_fit(learner: Learner, files: PymarlFiles, given: Mapping[str, Tensor]) -> None:
    """UsageError unless names and sizes are those of the learner's networks."""
    parts = named_parts(learner.online)
    central = [p.data_ptr() for part in CENTRAL if part in parts for p in parts[part].parameters()]
    own = {
        name: list(tensor.shape)
        for name, tensor in learner.online.state_dict().items()
        if tensor.data_ptr() not in central
    }
    theirs = {name: list(tensor.shape) for name, tensor in given.items()}
    has_mixer = (files.folder / MIXER).is_file()
    problems = (
        f"{AGENT if part == 'agents' else MIXER}: {rest} has {there}, expected {here}"
        if has_mixer or part == "agents"
        else f"there is no {MIXER}, and this algorithm has a mixer"
        for name in {**own, **theirs}
        for part, _, rest in [name.partition(".")]
        if (here := own.get(name, "none")) != (there := theirs.get(name, "no such tensor"))
    )
    wrong = list(dict.fromkeys(problems))
    if not wrong:
        return
    more = f" (and {len(wrong) - 3} more)" if len(wrong) > 3 else ""
    spec = learner.check.spec
    typed = list(dict.fromkeys(advice(files, own, spec)))
    raise UsageError(
        f"{files.folder} does not fit: {'; '.join(wrong[:3])}{more}. This environment has "
        f"{size_words(spec.record)}. {'Type ' + ' '.join(typed) + '.' if typed else ANOTHER}"
    )


def optimizer_moments(
    learner: Learner, files: PymarlFiles, names: Sequence[str]
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """The optimizer's state with the moments of ``opt.th``, and what is not taken over.

    Args:
        names: of the parameters, in the order of PyMARL's optimizer: agents, then mixer.

    Raises:
        UsageError: ``opt.th`` belongs to another optimizer.
    """
    own: dict[str, Tensor] = learner.state_dict()["optimizer"]
    if files.optimizer is None:
        return own, (f"There is no {OPTIMIZER}: the optimizer starts from scratch.",)
    state, groups = files.optimizer["state"], files.optimizer["param_groups"]
    numbers = [number for group in groups for number in group["params"]]
    shapes = {name: p.shape for name, p in learner.online.named_parameters()}
    known = len(numbers) == len(names) and set(names) == set(shapes)
    if not known or not all(number in state for number in numbers):
        return own, (
            f"{OPTIMIZER} has the moments of {len(state)} tensors, the networks have "
            f"{len(shapes)}: the optimizer starts from scratch.",
        )
    of_name = dict(zip(names, (state[number] for number in numbers), strict=True))
    theirs = {key for moments in of_name.values() for key in moments}
    if theirs != set(own):
        kind = "adam" if "exp_avg" in theirs else "rmsprop"
        raise UsageError(
            f"{files.folder / OPTIMIZER} has {', '.join(sorted(theirs))}, but the optimizer of "
            f"this run keeps {', '.join(sorted(own))}. Type algo/optimizer={kind} "
            f"algo.optimizer.lr={groups[0]['lr']:g}, or remove {OPTIMIZER} to start the optimizer "
            "from scratch."
        )
    moments = {"step": torch.full_like(own["step"], float(next(iter(of_name.values()))["step"]))}
    for key in theirs - {"step"}:
        parts = [of_name[name][key] for name in shapes]
        if any(part.shape != shape for part, shape in zip(parts, shapes.values(), strict=True)):
            raise UsageError(
                f"{files.folder / OPTIMIZER}: {key} has different sizes than the networks in "
                f"{AGENT} and {MIXER}. Expected the files of one checkpoint; remove {OPTIMIZER} to "
                "start the optimizer from scratch."
            )
        moments[key] = torch.cat([part.flatten() for part in parts])
    return moments, tuple(other_options(learner.optimizer.param_groups[0], groups[0]))


def other_options(ours: Mapping[str, object], theirs: Mapping[str, object]) -> Iterator[str]:
    """Settings of the optimizer that are not those it was trained with."""
    for name in ("lr", "alpha", "betas", "eps"):
        if name in ours and name in theirs and ours[name] != theirs[name]:
            value = f"{theirs[name]!s:.80}".replace("(", "[").replace(")", "]").replace(" ", "")
            yield (
                f"It was trained with {name}={value}, this run continues with {ours[name]}: type "
                f"algo.optimizer.{name}={value} to keep it."
            )
