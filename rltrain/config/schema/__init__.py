"""The typed form of a configuration: settings of the run and of the groups, and what a ``_target_``
node builds.
"""

from rltrain.config.schema.groups import (
    AlgoSettings,
    ClusterSettings,
    HardwareSettings,
    LoggerSettings,
    RankSettings,
    SupervisionSettings,
    WorkerSettings,
)
from rltrain.config.schema.node import FACTS, Node, facts_of
from rltrain.config.schema.run import (
    DatasetSettings,
    HubSettings,
    LogSettings,
    ReportSettings,
    RunSettings,
    SaveSettings,
    StopSettings,
    SweepSettings,
    TestSettings,
    TuneSettings,
)
from rltrain.config.schema.settings import OF_COMMANDS, Settings

__all__ = [
    "FACTS",
    "OF_COMMANDS",
    "AlgoSettings",
    "ClusterSettings",
    "DatasetSettings",
    "HardwareSettings",
    "HubSettings",
    "LogSettings",
    "LoggerSettings",
    "Node",
    "RankSettings",
    "ReportSettings",
    "RunSettings",
    "SaveSettings",
    "Settings",
    "StopSettings",
    "SupervisionSettings",
    "SweepSettings",
    "TestSettings",
    "TuneSettings",
    "WorkerSettings",
    "facts_of",
]
