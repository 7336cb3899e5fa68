"""``fake_job.py N FOLDER BEHAVIOR …``: what a job does to its folder and its sweep, without one."""

import json
import os
import select
import signal
import sys
import time
from pathlib import Path

folder, behavior, *about = Path(sys.argv[2]), *sys.argv[3:]


def record(status, code, **facts):
    path = folder / "run.json"
    before = json.loads(path.read_text()) if path.exists() else {"tries": 0}
    facts = {**before, "status": status, "exit_code": code, "tries": before["tries"] + 1, **facts}
    path.write_text(json.dumps(facts))


print("place", os.environ["PLACE"], flush=True)
if behavior == "finish":
    record("finished", 0)
elif behavior == "say":  # a long line, and one that looks like markup
    print(f"[{folder.name}] test {'x' * 50}")
    print(f"[{folder.name}] warning: [y]", file=sys.stderr)
    record("finished", 0)
elif behavior == "exit":  # at once, or when there is a file of that name in its folder
    while about[1:] and not (folder / about[1]).exists():
        time.sleep(0.01)
    record("failed", int(about[0]), error="on purpose")
    sys.exit(int(about[0]))
elif behavior == "refuse":  # to continue a run that has finished
    sys.exit(3)
elif behavior == "once":  # fails the first time only
    first = not (folder / "run.json").exists()
    record("failed" if first else "finished", 4 if first else 0)
    sys.exit(4 if first else 0)
elif behavior == "die":
    record("running", 0)
    os.kill(os.getpid(), signal.SIGKILL)
elif behavior == "quit":  # ends as if it had finished
    record("running", 0)
elif behavior == "leave":  # ends without a word in its record
    sys.exit(1)
elif behavior == "wait":  # for a signal
    read, write = os.pipe()  # an Event could be waited for while its handler sets it: a deadlock
    codes = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGUSR1: 85}
    received = []

    def handle(number, frame):
        received.append(number)
        os.write(write, b".")

    for number in codes:
        signal.signal(number, handle)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, codes)
    print("waiting", flush=True)
    select.select([read], [], [], 30)
    record("interrupted", codes[received[0]], signals=len(received))
    sys.exit(codes[received[0]])
