"""Loggers: the console and ``metrics.jsonl``, and those that ``logger=[…]`` chooses.

To add one: a class in a file here, its name below, and a YAML file in ``conf/logger/``. Names are
imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rltrain.common.imports import import_name

if TYPE_CHECKING:
    from rltrain.logger.csv_file import CsvFile as CsvFile
    from rltrain.logger.loggers import Logger as Logger
    from rltrain.logger.tensorboard import TensorBoard as TensorBoard
    from rltrain.logger.trackio import Trackio as Trackio
    from rltrain.logger.wandb import Wandb as Wandb

_EXPORTS = {
    "CsvFile": "csv_file",
    "Logger": "loggers",
    "TensorBoard": "tensorboard",
    "Trackio": "trackio",
    "Wandb": "wandb",
}
__all__ = list(_EXPORTS)


def __getattr__(name: str) -> Any:
    return import_name(__name__, _EXPORTS, name)
