"""Parts of methods for teams can be exchanged."""

import pytest

import rltrain
from rltrain.errors import UsageError
from tests.integration.test_choices import three_iterations

TINY = ["algo.batch_size=2", "algo.steps_per_collect=20", "buffer.capacity=50"]
TINY += ["hardware.n_envs=2", "test.n_envs=2", "hardware.threads=1", "logger.console=false"]
TINY += ["logger.wandb.mode=disabled", "total_env_steps=100000"]


@pytest.mark.slow
def test_agents_for_units_train_with_a_critic(tmp_path):
    overrides = ["algo=ow_qmix", "algo/network=hpn", "env=smac", "env.map_name=3m", *TINY]
    three_iterations(overrides, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "overrides",
    [
        pytest.param(
            ["algo=qmix", "algo/network=lstm", "algo.network.layer_norm=true"],
            marks=pytest.mark.slow,
        ),
        ["algo=ow_qmix", "algo.network.groups=[[0],[1]]", "algo.network.orthogonal=0.01"],
        pytest.param(
            ["algo=qtran", "algo/network=mlp", "algo.network.groups=[[1],[0]]"],
            marks=pytest.mark.slow,
        ),
    ],
    ids=" ".join,
)
def test_networks_can_be_exchanged(tmp_path, overrides):
    three_iterations([*overrides, "env=two_step", *TINY], tmp_path)


def test_lambda_returns_of_single_transitions_are_refused(tmp_path):
    """They would be one-step targets, whatever lambda is."""
    with pytest.raises(UsageError, match="Type buffer=sequence or buffer=episode"):
        rltrain.make_trainer(
            ["algo=dqn", "env=cartpole", "algo.loss.trace=0.5", "algo.loss.n_step=1"],
            run_dir=tmp_path,
        )
