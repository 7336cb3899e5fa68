"""Jobs that need no training: a program in place of ``rltrain.mode.sweep.job``."""

import sys
from pathlib import Path

from rltrain.mode.sweep.plan import SweepJob
from rltrain.mode.sweep.processes import Processes

PROGRAM = Path(__file__).with_name("fake_job.py")


def jobs(folder, *behaviors):
    """Jobs that behave so, for example ``finish`` or ``exit 4``."""
    made = []
    for number, behavior in enumerate(behaviors):
        job = SweepJob(folder / f"{number}_{behavior.split()[0]}", (behavior,))
        job.folder.mkdir(parents=True)
        made.append(job)
    return made


class Printed(list):
    """A console that remembers what was printed."""

    def __init__(self):
        self.on_line = lambda text: None

    def print(self, text, *, soft_wrap):
        self.append(text)
        self.on_line(text)


class Watched(Processes):
    """Processes that remember which jobs have ended, and how many ran at once."""

    def run(self, jobs):
        super().run([(job,) for job in jobs])

    def start(self, batch, place):
        process = super().start(batch, place)
        self.most = max(getattr(self, "most", 0), len(self.running))
        return process

    def close(self, job, code, process):
        super().close(job, code, process)
        self.ended = [*getattr(self, "ended", []), job.name]


def processes(n_jobs, **settings):
    """Processes that run the program above."""
    program = (sys.executable, str(PROGRAM))
    settings = {"at_once": 2, "retries": 0, "fail_fast": False, "program": program, **settings}
    return Watched(
        n_jobs=n_jobs,
        screen=Printed(),
        errors=Printed(),
        command=lambda job: [str(job.folder), *job.overrides[0].split()],
        environment=lambda place: {"PLACE": str(place)},
        **settings,
    )
