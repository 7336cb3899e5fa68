"""CleanRL's scripts, run from its source folder and paused after env steps."""

import os
import runpy
import sys
import tempfile

from peers.paused import Paused

CHUNK = 500


def train(folder, script, arguments, warm_up):
    """Env steps of a script after ``warm_up`` of them."""
    sys.path.insert(0, folder)
    os.chdir(tempfile.mkdtemp())  # it writes its logs where it is
    from gymnasium.vector import SyncVectorEnv

    original = SyncVectorEnv.step

    def body(pause):
        steps = {"done": 0}

        def paused_step(self, actions):
            steps["done"] += 1
            if steps["done"] % CHUNK == 0:
                pause(float(CHUNK))
            return original(self, actions)

        SyncVectorEnv.step = paused_step
        sys.argv[:] = [script, *arguments]
        runpy.run_path(f"{folder}/cleanrl/{script}", run_name="__main__")

    do, work = Paused(body), 0.0
    while work < warm_up:
        work += do()
    return do
