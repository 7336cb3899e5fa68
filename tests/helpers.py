"""What several tests use: a short training, its weights, a callback to name in a configuration."""

from __future__ import annotations

import os
import signal

import torch

import rltrain
from rltrain.callback import Callback


class Failing(Callback):
    """Raises in the first iteration."""

    def on_iteration(self, trainer, value=None):
        raise ZeroDivisionError("on purpose")


class Terminated(Callback):
    """What a machine does that wants its cores back, once the run has made 100 env steps."""

    def on_iteration(self, trainer, value=None):
        if trainer.clock.env_steps >= 100:
            os.kill(os.getpid(), signal.SIGTERM)


def trained(words, folder, until=300):
    """A trainer after so many env steps."""
    trainer = rltrain.make_trainer(words, run_dir=folder)
    trainer.start()
    trainer.run(until)
    return trainer


def weights(trainer):
    """All of the online network, flat."""
    return torch.cat([p.detach().flatten() for p in trainer.learner.online.parameters()])
