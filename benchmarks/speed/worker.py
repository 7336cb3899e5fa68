"""The process of one measured program: ``python worker.py module:function '{"key": 1}'``.

The function prepares the work with these arguments and returns a callable, which does a piece of it
and returns how much (updates, env steps). Each line of the input, ``seconds 1.5`` or ``work 1000``,
asks for one round, each line of the output answers with its work and times. Only the standard
library is imported here, so that nothing of rltrain reaches the programs of others.
"""

import importlib
import json
import multiprocessing
import os
import resource
import sys
import time


def cpu_seconds():
    """CPU time of all threads of this process and of its children that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def one_round(do, unit, amount):
    """Call ``do`` until so many seconds have passed or so much work is done."""
    work, cpu, wall = 0.0, cpu_seconds(), time.perf_counter()
    while (time.perf_counter() - wall if unit == "seconds" else work) < amount:
        work += do()
    return {
        "work": work,
        "cpu": cpu_seconds() - cpu,
        "wall": time.perf_counter() - wall,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main():
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what the program itself prints
    module, _, function = sys.argv[1].partition(":")
    do = getattr(importlib.import_module(module), function)(**json.loads(sys.argv[2]))
    do()  # compile, fill caches
    print(json.dumps({"ready": True}), file=answers)
    for line in sys.stdin:
        unit, amount = line.split()
        print(json.dumps(one_round(do, unit, float(amount))), file=answers)
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(0)  # threads of the program would be waited for


if __name__ == "__main__":
    main()
