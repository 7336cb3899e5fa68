"""Env steps per second of the default command, acting, learning, tests and saving included.

python -m benchmarks.end_to_end
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console

ENV_STEPS = 60_000


def main(env_steps: int = ENV_STEPS) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder) / "run"
        command = [sys.executable, "-m", "rltrain.main", "algo=qmix", "env=smac"]
        command += [f"total_env_steps={env_steps}", f"hydra.run.dir={run_dir}"]
        subprocess.run(command, check=True, capture_output=True)
        record = json.loads((run_dir / "run.json").read_text(encoding="utf-8"))
    Console(highlight=False).print(
        f"rltrain algo=qmix env=smac (3m): {record['env_steps'] / record['seconds']:,.0f} env "
        f"steps/s over {record['env_steps']:,} env steps and {record['updates']:,} updates"
    )


if __name__ == "__main__":
    main()
