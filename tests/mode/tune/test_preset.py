import pytest

from rltrain.common.json_text import flat
from rltrain.config.compose import compose_checked
from rltrain.config.overrides import is_below
from rltrain.mode.tune.space import OF_ALL_TRIALS
from rltrain.mode.tune.study_results import preset_text


def settings(overrides):
    values = flat(compose_checked(overrides).plain)
    return {k: v for k, v in values.items() if not is_below(k, OF_ALL_TRIALS)}


@pytest.mark.parametrize(
    "overrides",
    [
        ["algo=dqn", "env=cartpole", "algo.optimizer.lr=1e-05", "algo.loss.huber=null"],
        [
            *("algo=qmix", "env=smac", "env.map_name=8m", "algo/optimizer=adam"),
            "buffer=prioritized_episode",
        ],
        pytest.param(
            ["experiment=minatar/dqn", "algo.network.hidden_sizes=[64, 64]", "seed=3"],
            marks=pytest.mark.slow,
        ),
        ["algo=dqn", "env=gymnasium", "env.id=CartPole-v1", "+env.kwargs.render_mode=rgb_array"],
    ],
    ids=["tuned", "parts", "experiment", "added"],
)
def test_preset_composes_to_the_same_configuration(overrides, tmp_path):
    (tmp_path / "best.yaml").write_text(preset_text(overrides, ["about"]), encoding="utf-8")
    assert settings([f"experiment={tmp_path / 'best.yaml'}"]) == settings(overrides)
