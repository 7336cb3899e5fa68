"""QMIX, and helpers of all mixers: per-agent values to value streams.

To add a mixer: a ``Mixer`` with ``n_streams`` and the four arguments of ``forward``; set
``uses_greedy = False`` if it does not read the values of the greedy actions.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn
from torch.nn import functional as F

from rltrain.algo.mixer.sum import need_team_reward
from rltrain.common.number_types import Count
from rltrain.interfaces import Mixer
from rltrain.types import EnvSpec


# twin: kernels/recurrent/team_step.py
class QMix(Mixer):
    """Monotonic mixing network conditioned on the state (Rashid et al. 2018, § 4): M = 1.

    Q_tot = elu(q |W_1(s)| + b_1(s)) · |w_final(s)| + V(s). ``hypernet_layers`` is the depth of the
    hypernetworks for W_1 and w_final, ``hypernet_dim`` their width if they have two layers.

    Raises:
        ValueError: more than one reward stream, or no global state.
    """

    n_streams, uses_greedy = 1, False

    def __init__(
        self,
        *,
        spec: EnvSpec,
        embed_dim: Count,
        hypernet_layers: Literal[1, 2],
        hypernet_dim: Count,
    ) -> None:
        super().__init__()
        need_team_state("QMix", spec)
        self.n_agents, self.embed_dim = spec.n_agents, embed_dim

        def hypernet(n_out: int) -> nn.Module:
            if hypernet_layers == 1:
                return nn.Linear(spec.state_dim, n_out)
            return two_layers(spec.state_dim, hypernet_dim, n_out)

        self.hyper_w_1 = hypernet(spec.n_agents * embed_dim)
        self.hyper_w_final = hypernet(embed_dim)
        self.hyper_b_1 = nn.Linear(spec.state_dim, embed_dim)
        self.V = two_layers(spec.state_dim, embed_dim, 1)

    def forward(self, q: Tensor, greedy_q: Tensor, action: Tensor, state: Tensor) -> Tensor:
        """q [T, B, N], state [T, B, S] to [T, B, 1]."""
        w_1 = self.hyper_w_1(state).abs().unflatten(-1, (self.n_agents, self.embed_dim))
        mixed = (q.unsqueeze(-1) * w_1).sum(-2)  # [T, B, embed]; bmm is 3 times slower backward
        hidden = F.elu(mixed + self.hyper_b_1(state))
        w_final = self.hyper_w_final(state).abs()  # [T, B, embed]
        return (hidden * w_final).sum(-1, keepdim=True) + self.V(state)


def two_layers(n_in: int, n_hidden: int, n_out: int, *, bias: bool = True) -> nn.Sequential:
    """Linear, ReLU, Linear; ``bias`` is that of the last layer."""
    return nn.Sequential(nn.Linear(n_in, n_hidden), nn.ReLU(), nn.Linear(n_hidden, n_out, bias))


def need_team_state(name: str, spec: EnvSpec, instead: str | None = None) -> None:
    """ValueError unless the environment returns one team reward and has a global state; without
    one, ``instead`` says what to type.
    """
    need_team_reward(name, spec)
    if spec.state_dim == 0:
        one = "algo=dqn for one agent, without algo/mixer."
        usual = one if spec.n_agents == 1 else "algo=vdn or algo=iql."
        raise ValueError(
            f"{name} needs a global state, but the environment provides none (state_dim=0). "
            + (instead or f"Type {usual}")
        )
