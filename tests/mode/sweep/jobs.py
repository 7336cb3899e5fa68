"""Jobs that need no training: a program in the place of ``rltrain.mode.sweep.job``."""

from __future__ import annotations

import sys
from pathlib import Path

from rltrain.mode.sweep.plan import Job
from rltrain.mode.sweep.processes import Processes

PROGRAM = Path(__file__).with_name("fake_job.py")


def jobs(folder, *behaviors):
    """Jobs that behave so, for example ``finish`` or ``exit 4``."""
    made = []
    for number, behavior in enumerate(behaviors):
        job = Job(folder / f"{number}_{behavior.split()[0]}", (behavior,))
        job.folder.mkdir(parents=True)
        made.append(job)
    return made


class Seen:
    """A display that remembers."""

    def __init__(self):
        self.begun, self.ended, self.lines, self.notes, self.most = [], [], [], [], 0
        self.on_line = lambda text: None

    def begin(self, job):
        self.begun.append(job.name)
        self.most = max(self.most, len(self.begun) - len(self.ended) - self.retried)

    @property
    def retried(self):
        return sum("tried again" in note for note in self.notes)

    def end(self, job):
        self.ended.append(job.name)

    def line(self, job, text, stream):
        self.lines.append(text)
        self.on_line(text)

    def note(self, text):
        self.notes.append(text)

    def refresh(self):
        pass


def processes(display, n_jobs, **settings):
    """Processes that run the program above."""
    settings = {"at_once": 2, "retries": 0, "fail_fast": False, **settings}
    return Processes(
        n_jobs=n_jobs,
        display=display,
        command=lambda job: [str(job.folder), *job.overrides[0].split()],
        environment=lambda place: {"PLACE": str(place)},
        program=(sys.executable, str(PROGRAM)),
        **settings,
    )
