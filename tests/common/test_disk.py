"""A write that fails does not stop a run, and is warned of once."""

from rltrain.common.disk import Disk


def test_a_file_that_cannot_be_written_is_warned_of_once_until_it_can(caplog):
    disk, outcomes = Disk(), [False, False, True, True, False]

    def write(works):
        if not works:
            raise OSError(28, "No space left on device")

    assert not disk.degraded
    assert [disk.attempt("run.json", lambda w=w: write(w)) for w in outcomes] == outcomes
    assert disk.degraded
    problem = "run.json could not be written ([Errno 28] No space left on device); the run goes on"
    warnings = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert warnings == [problem, "run.json could be written again", problem]
