"""A plain QMIX learner, for comparison."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rltrain.types import Batch, EnvSpec


class PlainAgent(nn.Module):
    def __init__(self, n_inputs: int, n_actions: int, hidden_dim: int = 64) -> None:
        super().__init__()
        self.hidden_dim = hidden_dim
        self.fc1 = nn.Linear(n_inputs, hidden_dim)
        self.rnn = nn.GRUCell(hidden_dim, hidden_dim)
        self.fc2 = nn.Linear(hidden_dim, n_actions)

    def forward(self, inputs: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.rnn(F.relu(self.fc1(inputs)), hidden)
        return self.fc2(hidden), hidden


class PlainMixer(nn.Module):
    def __init__(self, n_agents: int, state_dim: int, embed_dim: int = 32, width: int = 64) -> None:
        super().__init__()
        self.n_agents, self.embed_dim = n_agents, embed_dim
        self.hyper_w_1 = nn.Sequential(
            nn.Linear(state_dim, width), nn.ReLU(), nn.Linear(width, n_agents * embed_dim)
        )
        self.hyper_w_final = nn.Sequential(
            nn.Linear(state_dim, width), nn.ReLU(), nn.Linear(width, embed_dim)
        )
        self.hyper_b_1 = nn.Linear(state_dim, embed_dim)
        self.V = nn.Sequential(nn.Linear(state_dim, embed_dim), nn.ReLU(), nn.Linear(embed_dim, 1))

    def forward(self, q: Tensor, state: Tensor) -> Tensor:
        shape = q.shape[:-1]
        state, q = state.flatten(0, -2), q.reshape(-1, 1, self.n_agents)
        w_1 = self.hyper_w_1(state).abs().view(-1, self.n_agents, self.embed_dim)
        b_1 = self.hyper_b_1(state).view(-1, 1, self.embed_dim)
        hidden = F.elu(torch.bmm(q, w_1) + b_1)
        w_final = self.hyper_w_final(state).abs().view(-1, self.embed_dim, 1)
        value = self.V(state).view(-1, 1, 1)
        return (torch.bmm(hidden, w_final) + value).view(*shape, 1)


class PlainLearner:
    """QMIX with double Q, RMSprop and a clipped gradient; the same numbers as ours."""

    def __init__(self, spec: EnvSpec) -> None:
        n_inputs = spec.obs_shape[0] + spec.n_actions + spec.n_agents
        self.spec = spec
        self.agent = PlainAgent(n_inputs, spec.n_actions)
        self.mixer = PlainMixer(spec.n_agents, spec.state_dim)
        self.target_agent = copy.deepcopy(self.agent)
        self.target_mixer = copy.deepcopy(self.mixer)
        self.parameters = [*self.agent.parameters(), *self.mixer.parameters()]
        self.optimizer = torch.optim.RMSprop(self.parameters, lr=5e-4, alpha=0.99, eps=1e-5)

    def update(self, batch: Batch) -> float:
        """One gradient step; the loss."""
        q = self._unroll(self.agent, batch)
        chosen = q[:-1].gather(-1, batch.action.unsqueeze(-1)).squeeze(-1)
        target_q = self._unroll(self.target_agent, batch)[1:]
        target_q[~batch.avail_actions[1:]] = -9999999
        masked = q.clone().detach()
        masked[~batch.avail_actions] = -9999999
        best = masked[1:].max(-1, keepdim=True)[1]
        next_q = target_q.gather(-1, best).squeeze(-1)

        total = self.mixer(chosen, batch.state[:-1])
        next_total = self.target_mixer(next_q, batch.state[1:])
        goes_on = 1 - batch.terminated.float().unsqueeze(-1)
        td_target = batch.reward + 0.99 * goes_on * next_total
        mask = batch.mask.float().unsqueeze(-1)
        td_error = (total - td_target.detach()) * mask
        loss = (td_error**2).sum() / mask.sum()

        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, 10)
        self.optimizer.step()
        return loss.item()

    def _unroll(self, agent: PlainAgent, batch: Batch) -> Tensor:
        n_steps, n_windows, n_agents = batch.last_action.shape
        hidden = torch.zeros(n_windows * n_agents, agent.hidden_dim)
        outputs = []
        for t in range(n_steps):
            q, hidden = agent(self._inputs(batch, t), hidden)
            outputs.append(q.view(n_windows, n_agents, -1))
        return torch.stack(outputs)

    def _inputs(self, batch: Batch, t: int) -> Tensor:
        n_windows, n_agents = batch.last_action.shape[1:]
        inputs = [batch.obs[t]]
        if t == 0:
            inputs.append(torch.zeros(n_windows, n_agents, self.spec.n_actions))
        else:
            inputs.append(F.one_hot(batch.action[t - 1], self.spec.n_actions).float())
        inputs.append(torch.eye(n_agents).unsqueeze(0).expand(n_windows, -1, -1))
        return torch.cat([x.reshape(n_windows * n_agents, -1) for x in inputs], dim=1)
