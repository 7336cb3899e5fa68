"""Networks and optimizers of one's own, in whose place compiled code could compute others."""

from typing import Any

import torch
from torch import nn

from rltrain.algo.network.agent_input import AgentInput
from rltrain.algo.network.feed_forward import mlp_agents
from rltrain.algo.network.head import Head
from rltrain.types import EnvSpec
from tests.algo.batches import PLAIN
from tests.kernels.run_edits import DQN, LAYERS

HERE = "tests.kernels.own_networks"


def factory(change: Any) -> Any:
    """A network's factory, whose result is changed."""

    def make(*, spec: EnvSpec, distribution: Any) -> Any:
        own = {**PLAIN, "distribution": distribution, "dueling": True, "hidden_sizes": [8, 8]}
        agents = mlp_agents(spec=spec, **own, head_sizes=[], last_action=False, agent_id=False)
        change(agents)
        return agents

    return make


def tie(agents):
    agents.torso = nn.Sequential(*agents.torso, nn.Linear(8, 8), nn.ReLU())
    agents.torso[4].weight = agents.torso[2].weight


def use_twice(agents):
    agents.torso = nn.Sequential(*agents.torso, agents.torso[2], nn.ReLU())


def reorder(agents):
    torso = agents.torso
    del agents.torso
    agents.torso = torso


def add_layer(agents):
    agents.extra = nn.Linear(3, 3)


def without_bias(agents):
    agents.torso[0] = nn.Linear(4, 8, bias=False)


def normalize_weights(agents):
    nn.utils.spectral_norm(agents.torso[0])


def swap_parameters(agents):
    weight = agents.torso[0]._parameters.pop("weight")
    agents.torso[0].register_parameter("weight", weight)


class OwnInput(AgentInput):
    def forward(self, obs, last_action, agent):
        return 3 * super().forward(obs, last_action, agent)


class OwnHead(Head):
    def _streams(self, x):
        return -super()._streams(x)


def own_input(agents):
    agents.input.__class__ = OwnInput


def own_head(agents):
    agents.head.__class__ = OwnHead


class OtherAdam(torch.optim.Adam):
    def step(self, closure=None):
        super().step()
        self.param_groups[0]["params"][0].data.mul_(0.99)


tied, twice, reordered, extended, unbiased, spectral, swapped = map(
    factory, (tie, use_twice, reorder, add_layer, without_bias, normalize_weights, swap_parameters)
)
with_own_input, with_own_head = map(factory, (own_input, own_head))
NAMES = (
    *("tied", "twice", "reordered", "extended", "unbiased", "spectral", "swapped"),
    *("with_own_input", "with_own_head"),
)
BUILT = {name: ("algo=dqn", *LAYERS, f"algo.network._target_={HERE}.{name}") for name in NAMES}
BUILT["subclass of Adam"] = (*DQN, f"algo.optimizer._target_={HERE}.OtherAdam")
