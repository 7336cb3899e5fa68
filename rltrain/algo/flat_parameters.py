"""Parameters and gradients of a model as flat tensors; buffers paired with the target's."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class FlatParameters:
    """The parameters of a model as views into ``values``, their gradients into ``values.grad``.

    Clipping is one norm, an optimizer step one operation, a target update one copy.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.values = nn.Parameter(flatten(model))
        self.values.grad = torch.zeros_like(self.values.data)
        parameters = list(model.parameters())
        pieces = self.values.grad.split([parameter.numel() for parameter in parameters])
        for parameter, piece in zip(parameters, pieces, strict=True):
            parameter.grad = piece.view_as(parameter)
        modules = list(model.modules())
        self._own = [
            (m._parameters, [p.data_ptr() for p in m.parameters(recurse=False)])
            for m in modules
            if m._parameters
        ]
        self._children = [(m._modules, list(m._modules.values())) for m in modules if m._modules]

    @property
    def gradient(self) -> Tensor:
        """The flat gradient."""
        assert self.values.grad is not None
        return self.values.grad

    def require_attached(self) -> None:
        """Check that no parameter of the model was replaced: new ones would not be trained.

        Raises:
            ValueError: names the replaced parameters.
        """
        for parameters, addresses in self._own:
            if [p.data_ptr() for p in parameters.values() if p is not None] != addresses:
                self._refuse()
        for modules, children in self._children:
            if list(modules.values()) != children:
                self._refuse()

    def _refuse(self) -> None:
        flat = self.values.data
        start, end = flat.data_ptr(), flat.data_ptr() + flat.numel() * flat.element_size()
        parameters = self.model.named_parameters()
        new = [name for name, p in parameters if not start <= p.data_ptr() < end]
        raise ValueError(
            f"The learner cannot train {', '.join(new) or 'its network'}: parameters or modules of "
            "learner.online were replaced after the learner was built. Keep them, and change their "
            "values: learner.online.load_state_dict(…), or p.copy_(…) under torch.no_grad()."
        )


def flatten(model: nn.Module) -> Tensor:
    """Move a model's weights into one flat tensor; its parameters become views.

    Raises:
        ValueError: they have different dtypes, or one that cannot be trained.
    """
    parameters = list(model.parameters())
    names = {str(p.dtype).removeprefix("torch."): name for name, p in model.named_parameters()}
    if len(names) > 1 or not names.keys() <= {"float32", "float64"}:
        found = ", ".join(f"{name} is {dtype}" for dtype, name in names.items())
        raise ValueError(
            f"Parameters of the networks: expected all float32, or all float64, but {found}. "
            "Convert modules with .float(), and register what is not trained as a buffer."
        )
    flat = torch.cat([parameter.detach().flatten() for parameter in parameters])
    nn.utils.vector_to_parameters(flat, parameters)
    return flat


class Buffers:
    """A model's buffers in its ``state_dict``, such as batch-norm statistics, paired with those of
    its target; buffers shared by both are left out.
    """

    def __init__(self, online: nn.Module, target: nn.Module) -> None:
        saved = online.state_dict().keys()
        self._pairs: list[tuple[dict[str, Any], dict[str, Any], str]] = []  # looked up every time
        for (path, ours), theirs in zip(online.named_modules(), target.modules(), strict=True):
            for name, buffer in ours._buffers.items():
                shared = buffer is theirs._buffers[name]
                if f"{path}.{name}".removeprefix(".") in saved and not shared:
                    self._pairs.append((ours._buffers, theirs._buffers, name))

    def to_target(self) -> None:
        """Copy the values into the target."""
        for ours, theirs, name in self._pairs:
            theirs[name].copy_(ours[name])

    def copies(self) -> list[Tensor]:
        """The current values."""
        return [ours[name].clone() for ours, _, name in self._pairs]

    def restore(self, copies: list[Tensor], where: Tensor) -> None:
        """Restore the values of ``copies`` where a 0-d flag is set."""
        for (ours, _, name), before in zip(self._pairs, copies, strict=True):
            torch.where(where, before, ours[name], out=ours[name])
