"""Jobs that need no training: a program in the place of ``rltrain.mode.sweep.job``."""

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


class Seen:
    """A display that remembers."""

    def __init__(self):
        self.ended, self.lines, self.notes, self.most = [], [], [], 0
        self.on_line = lambda text: None

    def line(self, text, stream):
        self.lines.append(text)
        self.on_line(text)

    def note(self, text):
        self.notes.append(text)


class Watched(Processes):
    """Processes whose display remembers which jobs have ended, and how many ran at once."""

    def start(self, job):
        super().start(job)
        self.display.most = max(self.display.most, len(self.running))

    def close(self, job, code):
        super().close(job, code)
        self.display.ended.append(job.name)


def processes(display, n_jobs, **settings):
    """Processes that run the program above."""
    settings = {"at_once": 2, "retries": 0, "fail_fast": False, **settings}
    return Watched(
        n_jobs=n_jobs,
        display=display,
        command=lambda job: [str(job.folder), *job.overrides[0].split()],
        environment=lambda place: {"PLACE": str(place)},
        program=(sys.executable, str(PROGRAM)),
        **settings,
    )
