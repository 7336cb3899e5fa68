"""Recurrent agents with an LSTM cell."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rltrain.algo.network.gru import GRUAgents


class PackedLSTM(nn.LSTMCell):
    """An LSTM cell over packed sequences (Hochreiter & Schmidhuber 1997); its recurrent state is
    [output ; cell state].
    """

    n_states = 2

    def forward(self, x: Tensor, state: Tensor) -> Tensor:  # type: ignore[override]
        """x [R, I] and state [R, 2H] to the next state [R, 2H]."""
        hidden, cell = state.chunk(2, -1)
        return torch.cat(super().forward(x, (hidden, cell)), -1)

    def unroll(self, x: Tensor, first: Tensor, n_rows: list[int]) -> Tensor:
        """States [P, 2H] of packed sequences; arguments as in ``PackedGRU.unroll``."""
        state, states = first, []
        for rows in x.split(n_rows):
            state = self(rows, state[: len(rows)])
            states.append(state)
        return torch.cat(states)

    def unroll_padded(self, x: Tensor, first: Tensor) -> Tensor:
        """x [T+1, R, I] and first [R, 2H] to states [T+1, R, 2H]."""
        return self.unroll(x.flatten(0, 1), first, [x.shape[1]] * len(x)).view(*x.shape[:2], -1)


class LSTMAgents(GRUAgents):
    """``GRUAgents`` with an LSTM cell; the recurrent state is [output ; cell state]."""

    cell = PackedLSTM
