"""The checkpoints that a run plays against: found, and copied into its folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rltrain.assemble.build_opponents import used_folders
from rltrain.common.checkpoint import copy_weights
from rltrain.common.opponent_files import FOLDER, is_checkpoint
from rltrain.config.schema import Settings
from rltrain.mode.find_run import find_checkpoint


def with_opponents(settings: Settings) -> Settings:
    """The settings with the folders of opponents that are checkpoints.

    Raises:
        CheckpointError: there is none, or it cannot be trusted.
    """
    named = {**settings.opponent_weights(training=False)}
    if settings.run.mode == "train":
        named |= settings.opponent_weights(training=True)
    folders = {one: find_checkpoint(one).folder for one in named if is_checkpoint(one)}
    return replace(settings, opponent_folders=folders)


def keep_opponents(settings: Settings, run_dir: Path) -> None:
    """Copy the weights of opponents into the folder of a run, unless it has them."""
    for name, folder in used_folders(settings).items():
        copy = run_dir / FOLDER / name
        if not copy.exists():
            copy_weights(folder, copy)
