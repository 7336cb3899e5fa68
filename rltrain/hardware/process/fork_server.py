"""Imported by the fork server of the workers, and only there: it ends with the run, even while it
or a worker is stopped. Otherwise it would wait for its workers, which end when it does.
"""

from rltrain.common.machine.child_processes import kill_with_parent, leave_signals

kill_with_parent()
leave_signals()
