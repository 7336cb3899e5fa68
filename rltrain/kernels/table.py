"""The table of compiled counterparts: which methods of which classes have one, and what makes it.

Modules of plain and of compiled code are imported where a run needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import is_dataclass
from operator import attrgetter, methodcaller
from typing import Any, NamedTuple


class Counterpart(NamedTuple):
    """The compiled counterpart of a method of an object, or of a loss.

    Args:
        make: module:function below rltrain.kernels, from the object, and of a loss its model and
            the options of ``compile_loss``, to the counterpart; None where there is none.
        twins: whose plain code it computes: files that ``# twin: kernels/…`` names.
        others: from what ``make`` gets to the other objects whose methods it computes.
        always: ``make`` names the counterpart itself.
        only: an attribute of the object, and the class that it must have; elsewhere there is no
            counterpart, and nothing is imported.
    """

    method: str
    make: str
    twins: tuple[str, ...]
    others: Callable[..., Iterable[object]] = lambda *given: ()
    always: bool = False
    only: tuple[str, str] | None = None


def read_by(loss: object, model: Any, *options: object) -> list[object]:
    """The parts of a model, and the settings of a loss."""
    return [*model.modules(), *filter(is_dataclass, getattr(loss, "__dict__", {}).values())]


LEARNING = attrgetter(
    *("learner", "learner.gradient_step", "learner.gradient_step.flat", "learner.loss"),
    *("buffer", "metrics"),
)
"""The objects of a trainer whose methods are not called, or once for several steps."""
COLLECTING = attrgetter("env", "policy", "policy.exploration")
"""Those of a rollout."""
PARTS = methodcaller("modules")
PLAIN_LOSS = "layers/td_step.py", "layers/stack.py"
TD_STEP = "layers.td_step:compiled_loss"
CHOOSE = Counterpart("choose", "acting:choose", ("acting_kernel.py",), always=True)
DISTRIBUTIONAL = Counterpart(
    "__call__", TD_STEP, (*PLAIN_LOSS, "layers/distribution_kernel.py"), read_by
)
OVER_UNITS = Counterpart(
    "forward", "recurrent.unit_attention:compiled_forward", ("recurrent/unit_attention.py",), PARTS
)
COUNTERPARTS = {
    "algo.network.packing:PackedGRU": [
        Counterpart(
            "unroll", "recurrent.packed_gru:gru", ("recurrent/packed_gru.py",), PARTS, always=True
        )
    ],
    "algo.network.unit_agents:UnitAttention": [OVER_UNITS],
    "algo.network.unit_agents:AttackValues": [OVER_UNITS],
    "algo.network.feed_forward:FeedForward": [
        Counterpart("step", "acting:compiled_step", ("layers/stack.py",), PARTS)
    ],
    "algo.network.gru:GRUAgents": [
        Counterpart("step", "acting:compiled_step", ("acting.py",), PARTS)
    ],
    "algo.loss.td:TDLoss": [
        Counterpart("__call__", TD_STEP, (*PLAIN_LOSS, "layers/td_error_kernel.py"), read_by),
        Counterpart(
            "__call__", "recurrent.team_step:compiled_loss", ("recurrent/team_step.py",), read_by
        ),
    ],
    "algo.loss.distributional:CategoricalLoss": [DISTRIBUTIONAL],
    "algo.loss.distributional:QuantileLoss": [DISTRIBUTIONAL],
    "algo.policy:Policy": [
        Counterpart(
            "values",
            "acting:values_of_layers",
            ("acting.py", "layers/stack.py"),
            lambda policy: PARTS(policy.agents),
        ),
        Counterpart(
            "values", "acting:values_of_cells", ("acting.py",), lambda policy: PARTS(policy.agents)
        ),
    ],
    "algo.exploration.epsilon:EpsilonGreedy": [CHOOSE],
    "algo.exploration.epsilon:ExponentialEpsilon": [CHOOSE],
    "algo.exploration.epsilon:FixedEpsilon": [CHOOSE],
    "algo.exploration.epsilon:PiecewiseEpsilon": [CHOOSE],
    "algo.optimizer:GradientStep": [
        Counterpart("take", "gradient_step:compiled_take", ("gradient_step.py",))
    ],
    "trainer:Trainer": [
        Counterpart(
            "learn",
            "learning:compiled_learn",
            ("learning.py",),
            LEARNING,
            only=("learner.loss", "CompiledTDLoss"),
        )
    ],
    "hardware.rollout:Rollout": [
        Counterpart(
            "advance",
            "collecting:compiled_advance",
            ("collecting.py",),
            COLLECTING,
            only=("env", "ClassicControl"),
        )
    ],
}
"""By class, package.module:name below rltrain; subclasses may compute something else."""
