"""DQN on CartPole-v1 side by side with Stable-Baselines3, where that is installed.

    python -m benchmarks.cartpole

CleanRL's settings for both: layers of 120 and 84 units, batches of 128, one gradient step every 10
env steps. One process and one thread each, in turns, the process's CPU time counted, so that what
else runs on the machine weighs little. Then rltrain with more threads than its batches can use.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from statistics import median

from rich.console import Console

WARM_UP, ENV_STEPS, ROUNDS = 2_000, 20_000, 3
THREADS = (1, 2, 16)
SETTINGS = """
algo=dqn env=cartpole tuned=none total_env_steps=1_000_000
test.interval=1_000_000 save.interval=1_000_000
hardware.n_envs=32 algo.batch_size=128 algo.updates_per_env_step=0.1 algo.learning_starts=1_000
algo.network.hidden_sizes=[120] algo.network.head_sizes=[84] algo.loss.double=false
algo.loss.huber=null algo.optimizer.lr=2.5e-4 algo.target_update.env_steps=500
algo.max_grad_norm=null buffer.capacity=10_000 logger.console=false logger.wandb.mode=disabled
"""


def ours(threads: int) -> None:
    """Print the env steps per CPU second of rltrain, and per second of the clock."""
    import tempfile
    import time

    import rltrain

    with tempfile.TemporaryDirectory() as folder:
        words = [*SETTINGS.split(), f"hardware.threads={threads}"]
        trainer = rltrain.make_trainer(words, run_dir=folder)
        trainer.start()
        trainer.run(WARM_UP)
        first, cpu, wall = trainer.clock.env_steps, time.process_time(), time.perf_counter()
        trainer.run(first + ENV_STEPS)
        played = trainer.clock.env_steps - first
        print(played / (time.process_time() - cpu), played / (time.perf_counter() - wall))
        trainer.close()


def theirs() -> None:
    """Print the env steps per CPU second of Stable-Baselines3, and per second of the clock."""
    import time

    import torch
    from stable_baselines3 import DQN

    torch.set_num_threads(1)
    model = DQN(
        "MlpPolicy",
        "CartPole-v1",
        batch_size=128,
        train_freq=10,
        gradient_steps=1,
        buffer_size=10_000,
        learning_rate=2.5e-4,
        learning_starts=1_000,
        target_update_interval=500,
        policy_kwargs={"net_arch": [120, 84]},
        device="cpu",
    )
    model.learn(WARM_UP)
    cpu, wall = time.process_time(), time.perf_counter()
    model.learn(ENV_STEPS, reset_num_timesteps=False)
    print(ENV_STEPS / (time.process_time() - cpu), ENV_STEPS / (time.perf_counter() - wall))


def measured(who: str, threads: int = 1) -> tuple[float, float]:
    """What a process of its own prints."""
    command = [sys.executable, "-m", "benchmarks.cartpole", who, str(threads)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    cpu, wall = done.stdout.split()[-2:]
    return float(cpu), float(wall)


def main() -> None:
    console = Console(highlight=False)
    there = importlib.util.find_spec("stable_baselines3") is not None
    rounds = [(measured("ours"), measured("theirs") if there else None) for _ in range(ROUNDS)]
    rltrain_speed = median(mine[0] for mine, _ in rounds)
    console.print(f"rltrain: {rltrain_speed:,.0f} env steps per CPU second, DQN on CartPole-v1")
    if there:
        speed = median(other[0] for _, other in rounds if other)
        ratio = median(mine[0] / other[0] for mine, other in rounds if other)
        console.print(f"Stable-Baselines3: {speed:,.0f}; rltrain is {ratio:.1f} times as fast")
    else:
        console.print("Stable-Baselines3 is not installed: pip install stable-baselines3")
    for threads in THREADS:
        console.print(f"hardware.threads={threads}: {measured('ours', threads)[1]:,.0f} steps/s")


if __name__ == "__main__":
    if sys.argv[1:2] == ["ours"]:
        ours(int(sys.argv[2]))
    elif sys.argv[1:2] == ["theirs"]:
        theirs()
    else:
        main()
