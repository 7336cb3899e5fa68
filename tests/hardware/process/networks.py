"""Networks of one's own whose ``state_dict`` or ``load_state_dict`` does more than copy values."""

import torch
from torch import nn
from torch.nn.utils import parametrizations, spectral_norm

from rltrain.algo.network.feed_forward import mlp_agents


class Derived(nn.Module):
    """A layer that multiplies with something derived from a weight when it is loaded."""

    def __init__(self, n=4):
        super().__init__()
        self.register_buffer("counted", torch.zeros(n))
        self.register_buffer("factor", torch.ones(n), persistent=False)

    def derive(self):
        self.factor = 1 + self.counted

    def learn(self):
        """Change what is saved, as training does, and what is derived from it."""
        with torch.no_grad():
            for tensor in (*self.parameters(), self.counted):
                tensor += torch.arange(tensor.numel()).view(tensor.shape)
        self.derive()

    def forward(self, x):
        return x * self.factor


class PostHook(Derived):
    def __init__(self):
        super().__init__()
        self.register_load_state_dict_post_hook(lambda module, keys: module.derive())


class PreHook(Derived):
    """Keeps the very tensor that is loaded."""

    def __init__(self):
        super().__init__()
        self.register_load_state_dict_pre_hook(self.keep)

    @staticmethod
    def keep(module, state, prefix, *rest):
        module.loaded = state[prefix + "counted"]
        module.factor = 1 + module.loaded


class LoadsItself(Derived):
    def _load_from_state_dict(self, state, prefix, *rest):
        super()._load_from_state_dict(state, prefix, *rest)
        self.derive()


class LoadsWhole(Derived):
    def load_state_dict(self, state, *rest, **more):
        found = super().load_state_dict(state, *rest, **more)
        self.derive()
        return found


class Replaced(Derived):
    """A method of this one object is another."""

    def __init__(self):
        super().__init__()
        self._load_from_state_dict = self.load

    def load(self, state, prefix, *rest):
        Derived._load_from_state_dict(self, state, prefix, *rest)
        self.derive()


class Renames(Derived):
    """Another name in files than in the module, where it is the logarithm."""

    def __init__(self):
        super().__init__()
        self.register_state_dict_post_hook(self.rename)
        self.register_load_state_dict_pre_hook(self.name_back)

    @staticmethod
    def rename(module, state, prefix, meta):
        state[prefix + "log"] = torch.log1p(state.pop(prefix + "counted"))

    @staticmethod
    def name_back(module, state, prefix, *rest):
        state[prefix + "counted"] = torch.expm1(state.pop(prefix + "log"))
        module.factor = 1 + state[prefix + "counted"]


class Extra(Derived):
    def get_extra_state(self):
        return 1 + self.counted

    def set_extra_state(self, state):
        self.factor = state.clone()


class Transposed(Derived):
    """A weight that is not contiguous, and one without elements."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 3).t())
        self.nothing = nn.Parameter(torch.zeros(0, 3))

    def forward(self, x):
        return x @ self.weight.t()


def parametrized():
    """A layer whose weight is computed from two others."""
    return parametrizations.weight_norm(nn.Linear(4, 4))


def spectral():
    """A layer with hooks for loading."""
    return spectral_norm(nn.Linear(4, 4))


def shared():
    """Two layers with one weight, and the buffers of a batch normalization."""
    layers = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4))
    layers[2].weight = layers[0].weight
    return layers


KINDS = [PostHook, PreHook, LoadsItself, LoadsWhole, Replaced, Renames, Extra, Transposed]
KINDS += [parametrized, spectral, shared]


class Statistics(nn.Module):
    """Counts its calls while it learns; what it adds is derived from the number when loaded."""

    def __init__(self):
        super().__init__()
        self.register_buffer("n_calls", torch.zeros(()))
        self.register_buffer("added", torch.zeros(()), persistent=False)
        self.register_load_state_dict_post_hook(lambda module, keys: module.derive())

    def derive(self):
        self.added.copy_(torch.sin(self.n_calls))

    def forward(self, x):
        if torch.is_grad_enabled():
            self.n_calls += 1
            self.derive()
        return x + self.added


def hooked(*, spec, distribution, hidden_sizes=(16,)):
    """A small network with a hook for loading."""
    options = {"head_sizes": [], "dueling": False, "noisy_sigma": None, "layer_norm": False}
    options |= {"hidden_sizes": list(hidden_sizes), "last_action": False, "agent_id": False}
    agents = mlp_agents(spec=spec, distribution=distribution, **options)
    agents.torso.append(Statistics())
    return agents
