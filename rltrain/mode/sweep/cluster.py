"""The jobs of a sweep on the nodes of a Ray cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rltrain.build.env import n_threads
from rltrain.common.install import install_extra, is_installed
from rltrain.config.schema import Settings, SweepSettings
from rltrain.errors import UsageError
from rltrain.mode.sweep.plan import FILE, Job
from rltrain.mode.sweep.shares import Shares

if TYPE_CHECKING:
    from rltrain.hardware.ray.programs import RemoteProgram

PROGRAM = ("-m", "rltrain.mode.sweep.job")


class Cluster:
    """The nodes of a cluster, on which a job takes as many CPUs as it has threads, and a GPU where
    there is one for it.

    Args:
        sweep: with an ``address``.
        settings: of every job.

    Raises:
        UsageError: no cluster, or no Ray.
    """

    def __init__(self, sweep: SweepSettings, settings: Sequence[Settings]) -> None:
        assert sweep.address is not None
        if not is_installed("ray"):
            raise UsageError(
                f"sweep.address={sweep.address} needs ray, which is not installed: "
                f"{install_extra('ray')}"
            )
        from rltrain.hardware.ray.programs import cluster_sizes

        cpus, gpus = cluster_sizes(sweep.address)
        self.gpus = gpus if any(each.hardware.device != "cpu" for each in settings) else 0
        threads = max(n_threads(each) for each in settings)
        fit = self.gpus or max(1, cpus // threads)
        at_once = min(len(settings), fit if sweep.jobs == "auto" else sweep.jobs)
        self.shares = Shares(at_once, (), threads)

    def start(self, job: Job, settings: Settings, arguments: Sequence[str]) -> RemoteProgram:
        """Start a job as soon as a node has room for it.

        Args:
            arguments: of ``rltrain.mode.sweep.job``.
        """
        from rltrain.hardware.ray.programs import RemoteProgram

        on_gpu = self.gpus > 0 and settings.hardware.device != "cpu"
        return RemoteProgram(
            [*PROGRAM, *arguments],
            folder=str(job.folder.parent),
            needed=str(job.folder.parent / FILE),
            cpus=n_threads(settings),
            gpus=float(on_gpu),
        )


def cluster_of(sweep: SweepSettings, settings: Sequence[Settings]) -> Cluster | None:
    """The cluster of ``sweep.address``; None = this machine.

    Args:
        settings: of every job.
    """
    return None if sweep.address is None or not settings else Cluster(sweep, settings)
