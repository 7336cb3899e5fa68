"""The checkpoints that a run plays against: found, and copied into its folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from shlex import quote

from rltrain.callback.save import POOL
from rltrain.common.checkpoint import checked_manifest, copy_weights, list_steps, weights_digest
from rltrain.common.checkpoint.opponent_files import (
    BUILTIN,
    FOLDER,
    SELF,
    is_checkpoint,
    opponent_name,
    played_in_tests,
)
from rltrain.common.files import drop_temporary
from rltrain.config.schema import Settings
from rltrain.errors import CheckpointError, UsageError
from rltrain.mode.find_run import find_checkpoint


def with_opponents(
    settings: Settings, run_dir: Path | None = None, *, kept_in: Path | None = None
) -> Settings:
    """The settings with the opponent of tests, and the folders of those that are checkpoints.

    Args:
        run_dir: of the run that is evaluated.
        kept_in: the folder of the run that begins or goes on, which may have copies of them.

    Raises:
        CheckpointError: there is none, or it cannot be trusted.
        UsageError: one has no name, two of training and of tests have the same, or a copy has
            other weights.
    """
    run, training = settings.run, settings.opponent_weights(training=True)
    two_teams = bool(settings.plain["env"].get("team"))
    tested = played_in_tests(run.test.opponent, training, two_teams)
    if tested == SELF and run_dir is not None:  # the run is over
        tested = str(newest_snapshot(run_dir))
    named = {tested, *(training if run.mode == "train" else ())}
    if named == {BUILTIN}:
        return settings
    test = replace(run.test, opponent=tested)
    plain = {**settings.plain, "test": {**settings.plain["test"], "opponent": tested}}
    settings = replace(settings, run=replace(run, test=test), plain=plain)
    if not all(map(str.strip, named)):
        raise UsageError(
            "An opponent has no name: expected a policy such as closest, the path of a checkpoint, "
            "builtin or self. Type it in env.opponent and test.opponent, or leave them out."
        )
    found = {one: find_checkpoint(one) for one in sorted(named) if is_checkpoint(one)}
    folders = {one: each.folder for one, each in found.items()}
    by_name: dict[str, str] = {}
    for one in sorted(named):
        other = by_name.setdefault(opponent_name(one), one)
        if folders.get(one) != folders.get(other):
            raise UsageError(
                f"{other} and {one} have the same name in metrics and in the folder of the run, "
                f"{opponent_name(one)}. Give the folder of one of them another name, and type that."
            )
    remarks = settings.remarks + tuple(text for each in found.values() for text in each.remarks)
    if kept_in is not None:
        require_kept(folders, kept_in)
    return replace(settings, opponent_folders=folders, remarks=remarks)


def newest_snapshot(run_dir: Path) -> Path:
    """The newest snapshot of a run's agents.

    Raises:
        CheckpointError: it is damaged.
        UsageError: there is none.
    """
    snapshots = [run_dir / POOL / str(step) for step in list_steps(run_dir / POOL)]
    if not snapshots:
        raise UsageError(
            f"test.opponent=self: there is no snapshot of the agents in {run_dir / POOL}. Type "
            "test.opponent=builtin, a scripted policy or the path of a checkpoint."
        )
    try:
        checked_manifest(snapshots[0])
    except CheckpointError as error:
        other = quote(str(snapshots[1])) if snapshots[1:] else BUILTIN
        raise CheckpointError(
            f"test.opponent=self: {error} Type test.opponent={other} instead."
        ) from error
    return snapshots[0]


def require_kept(folders: Mapping[str, Path], run_dir: Path) -> None:
    """Refuse opponents of which a run's folder keeps other weights.

    Raises:
        CheckpointError: a copy that cannot be read.
        UsageError: what to type instead.
    """
    for opponent, folder in folders.items():
        copy = run_dir / FOLDER / opponent_name(opponent)
        if copy.exists() and weights_digest(copy) != weights_digest(folder):
            raise UsageError(
                f"{opponent} has different weights than {copy}, which the run was played against "
                f"under this name. Type {quote(str(copy))} to continue with those, or give the "
                "other folder another name, and type that."
            )


def keep_opponents(settings: Settings, run_dir: Path) -> None:
    """Copy the weights of opponents into the folder of a run, unless it has them."""
    drop_temporary(run_dir / FOLDER)
    for opponent, folder in settings.opponent_folders.items():
        copy = run_dir / FOLDER / opponent_name(opponent)
        if not copy.exists():
            copy_weights(folder, copy)
