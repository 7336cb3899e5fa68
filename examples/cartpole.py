"""Train DQN on CartPole, evaluate it, and act with the policy: python examples/cartpole.py"""

from __future__ import annotations

import gymnasium
import numpy as np

import rltrain


def main(total_env_steps: int = 50_000) -> float:
    """Return the mean return of 20 episodes run with the loaded policy."""
    result = rltrain.train({"env": "cartpole", "total_env_steps": total_env_steps, "seed": 1})
    evaluation = rltrain.evaluate(result.run_dir, episodes=100)
    print("100 greedy episodes:", evaluation.metrics["test/return_mean"])

    policy = rltrain.load_policy(result.run_dir)
    env = gymnasium.make("CartPole-v1")
    returns = []
    for episode in range(20):
        obs, _ = env.reset(seed=episode)
        policy.reset()
        total, over = 0.0, False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(policy.act(obs))
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    print("20 episodes played by hand:", np.mean(returns))
    return float(np.mean(returns))


if __name__ == "__main__":
    main()
