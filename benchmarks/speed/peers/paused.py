"""A program with a loop of its own, made to stop after every piece of its work."""

import threading


class Paused:
    """Runs ``program(pause)`` in a thread. ``pause(work)`` reports work and waits; each call of
    this object lets the program run to its next pause.
    """

    def __init__(self, program):
        self._go, self._reached = threading.Semaphore(0), threading.Semaphore(0)
        self._work, self._error = 0.0, None
        threading.Thread(target=self._run, args=(program,), daemon=True).start()

    def __call__(self):
        self._go.release()
        self._reached.acquire()
        if self._error is not None:
            raise self._error
        return self._work

    def pause(self, work):
        self._work = work
        self._reached.release()
        self._go.acquire()

    def _run(self, program):
        self._go.acquire()
        try:
            program(self.pause)
            self._error = RuntimeError("the program has ended")
        except BaseException as error:
            self._error = error
        self._reached.release()
