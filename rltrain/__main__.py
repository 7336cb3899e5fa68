"""``python -m rltrain`` is the command ``rltrain``."""

import os
import signal
import sys


def command() -> None:
    """Console entry: Ctrl-C ends the command quietly, also while it is imported."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    from rltrain.main import main

    try:
        signal.signal(signal.SIGINT, before)
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    finally:  # the exit code is known: a later Ctrl-C would change it while the interpreter ends
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        exec("")  # forgets an interrupt inside another exec, for which Python would exit with -2


if __name__ == "__main__":
    command()
