"""One job of a sweep in a process of its own: ``python -m rltrain.mode.sweep.job N KEY=VALUE …``.

It is the single run ``rltrain KEY=VALUE …`` as one of N, whose lines begin with its name. When
standard input is closed, because the sweep's own process has ended, it stops as on SIGTERM.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Run the job; returns its exit code. Imports take seconds, during which Ctrl-C may come."""
    threading.Thread(target=stop_with_the_sweep, name="sweep", daemon=True).start()
    try:
        return train(int(arguments[0]), arguments[1:])
    except KeyboardInterrupt:
        return 130


def train(n_jobs: int, overrides: Sequence[str]) -> int:
    """Begin the run or, with ``resume=``, go on with it; returns its exit code."""
    from rltrain.config.overrides import original_cwd, typed_value
    from rltrain.errors import RltrainError, exit_code_of
    from rltrain.mode.dispatch import one_job
    from rltrain.mode.messages.banner import Job
    from rltrain.mode.run_folder import record_failure
    from rltrain.mode.train import resume, run_training

    resumed = typed_value(overrides, "resume")
    run_dir = original_cwd(str(resumed or typed_value(overrides, "hydra.run.dir")))
    job = Job(run_dir.name, n_jobs)
    try:
        if resumed is not None:
            others = [word for word in overrides if not word.startswith("resume=")]
            return resume(run_dir, others, job=job).exit_code
        composed, settings = one_job(overrides)
        return run_training(settings, run_dir, files=composed.files(run_dir), job=job).exit_code
    except Exception as error:
        record_failure(run_dir, f"{type(error).__name__}: {error}", exit_code_of(error))
        print(f"rltrain: {run_dir.name}: {error}", file=sys.stderr)
        if not isinstance(error, RltrainError):
            raise
        return error.exit_code


def stop_with_the_sweep() -> None:
    """Wait until standard input is closed, then stop the run."""
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
