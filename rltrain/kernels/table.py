"""The table of compiled counterparts: which methods of which classes have one, and what makes it.

Modules of plain and of compiled code are imported where a run needs them.
"""

from __future__ import annotations

from typing import NamedTuple


class Counterpart(NamedTuple):
    """The compiled counterpart of a method of an object, or of a loss."""

    method: str
    make: str  # module:function below rltrain.kernels, from the object, and of a loss its model and
    # the options of ``compile_loss``, to the counterpart; None where there is none
    twins: tuple[str, ...]  # whose plain code it computes: files that ``# twin: kernels/…`` names
    always: bool = False  # ``make`` names the counterpart itself


PLAIN_LOSS = "layers/td_step.py", "layers/stack.py"
CHOOSE = Counterpart("choose", "acting:choose", ("acting_kernel.py",), always=True)
DISTRIBUTIONAL = Counterpart(
    "__call__", "layers.td_step:compiled_loss", (*PLAIN_LOSS, "layers/distribution_kernel.py")
)
OVER_UNITS = Counterpart(
    "forward", "recurrent.unit_attention:compiled_forward", ("recurrent/unit_attention.py",)
)
COUNTERPARTS = {
    "algo.network.packing:PackedGRU": [
        Counterpart("unroll", "recurrent.packed_gru:gru", ("recurrent/packed_gru.py",), always=True)
    ],
    "algo.network.units.attention:UnitAttention": [OVER_UNITS],
    "algo.network.units.entities:AttackValues": [OVER_UNITS],
    "algo.network.feed_forward:FeedForward": [
        Counterpart("step", "acting:compiled_step", ("layers/stack.py",))
    ],
    "algo.network.gru:GRUAgents": [Counterpart("step", "acting:compiled_step", ("acting.py",))],
    "algo.loss.td:TDLoss": [
        Counterpart(
            "__call__", "layers.td_step:compiled_loss", (*PLAIN_LOSS, "layers/td_error_kernel.py")
        ),
        Counterpart("__call__", "recurrent.team_step:compiled_loss", ("recurrent/team_step.py",)),
    ],
    "algo.loss.distributional:CategoricalLoss": [DISTRIBUTIONAL],
    "algo.loss.distributional:QuantileLoss": [DISTRIBUTIONAL],
    "algo.policy:Policy": [
        Counterpart("values", "acting:values_of_layers", ("acting.py", "layers/stack.py")),
        Counterpart("values", "acting:values_of_cells", ("acting.py",)),
    ],
    "algo.exploration.epsilon:EpsilonGreedy": [CHOOSE],
    "algo.exploration.epsilon:ExponentialEpsilon": [CHOOSE],
    "algo.exploration.epsilon:FixedEpsilon": [CHOOSE],
    "algo.exploration.epsilon:PiecewiseEpsilon": [CHOOSE],
    "algo.optimizer:GradientStep": [
        Counterpart("take", "gradient_step:compiled_take", ("gradient_step.py",))
    ],
    "trainer:Trainer": [Counterpart("learn", "learning:compiled_learn", ("learning.py",))],
    "hardware.rollout:Rollout": [
        Counterpart("advance", "collecting:compiled_advance", ("collecting.py",))
    ],
}
"""By class, package.module:name below rltrain; subclasses may compute something else."""
