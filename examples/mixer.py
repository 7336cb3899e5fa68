"""A custom mixer between VDN and QMIX, on the two-step game: python examples/mixer.py

The two-step game (Rashid et al., 2018, section 5) pays 7 for a safe branch and 8 for coordination.
A sum of the agents' values with state-dependent weights cannot represent the second branch; QMIX
can.
"""

from __future__ import annotations

from torch import Tensor, nn

import rltrain
from rltrain.interfaces import Mixer
from rltrain.types import EnvSpec


class WeightedSum(Mixer):
    """Q_tot = Σ_i |w_i(s)| Q_i + b(s)."""

    n_streams, uses_greedy = 1, False

    def __init__(self, *, spec: EnvSpec) -> None:
        super().__init__()
        self.weight = nn.Linear(spec.state_dim, spec.n_agents)
        self.bias = nn.Linear(spec.state_dim, 1)

    def forward(self, q: Tensor, greedy_q: Tensor, action: Tensor, state: Tensor) -> Tensor:
        """q [T, B, N] and state [T, B, S] to [T, B, 1]."""
        mixed: Tensor = (self.weight(state).abs() * q).sum(-1, keepdim=True) + self.bias(state)
        return mixed


def main(total_env_steps: int = 4_000) -> dict[str, float]:
    """Return each mixer's return in the last test: 7, 7 and 8."""
    mixers = {
        "vdn": ["algo=vdn"],
        "weighted": ["algo=vdn", f"algo.mixer._target_={__name__}.WeightedSum"],
        "qmix": ["algo=qmix"],
    }
    common = [
        "env=two_step",
        f"total_env_steps={total_env_steps}",
        f"test.interval={total_env_steps // 2}",
        "algo/exploration=epsilon_greedy",
        "algo.exploration.end=1.0",  # all joint actions with equal probability
        "algo.optimizer.lr=2e-3",
        "algo.target_update.episodes=50",
    ]
    returns = {
        name: rltrain.train([*overrides, *common]).metrics["test/return_mean"]
        for name, overrides in mixers.items()
    }
    print(returns)
    return returns


if __name__ == "__main__":
    main()
