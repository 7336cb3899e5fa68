"""Writes and closings that fail do not stop a run, and are reported once."""

import rltrain
from rltrain.common.failures import Disk, close_all
from tests.helpers import full


def test_a_file_that_cannot_be_written_is_warned_of_once_until_it_can(caplog):
    disk = Disk()
    assert not disk.degraded
    for works in (False, False, True, True, False):
        with disk.attempt("run.json"):
            if not works:
                full()
    assert disk.degraded
    said = "run.json could not be written ([Errno 28] No space left on device); the run continues"
    warnings = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert warnings == [said, "run.json could be written again", said]


class Door:
    """Counts how often it was closed."""

    def __init__(self, error=None):
        self.error, self.closed = error, 0

    def close(self):
        self.closed += 1
        if self.error:
            raise self.error


def test_what_some_raise_is_a_warning_and_the_others_are_closed(caplog):
    doors = [Door(OSError("gone")), Door(), Door(OSError("gone")), Door(ValueError("stuck"))]
    close_all("a door", doors)
    assert [door.closed for door in doors] == [1, 1, 1, 1]
    assert [record.getMessage() for record in caplog.records] == [
        "a door could not be closed (OSError: gone)",
        "a door could not be closed (ValueError: stuck)",
    ]


def test_environments_of_tests_are_closed_whatever_those_of_training_raise(small, tmp_path, caplog):
    trainer = rltrain.make_trainer(small, run_dir=tmp_path)
    trainer.rollout.env, trainer.test_rollout.env = Door(OSError("the game is gone")), Door()
    trainer.close()
    assert trainer.test_rollout.env.closed == 1
    assert "a part could not be closed (OSError: the game is gone)" in caplog.text
