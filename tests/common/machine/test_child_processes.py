"""Child processes are ended by name."""

import subprocess

from rltrain.common.machine.child_processes import kill_children


def test_only_children_of_that_name_are_ended():
    sleeping = subprocess.Popen(["sleep", "100"])
    reading = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    try:
        kill_children("sleep")
        assert sleeping.wait(10) == -9
        assert reading.poll() is None
    finally:
        sleeping.kill()
        reading.communicate()
