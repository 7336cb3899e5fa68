import pytest

from rltrain import main as entry
from rltrain.config.command_line import read
from rltrain.config.compose import compose_checked
from rltrain.config.overrides import is_below, leaves
from rltrain.mode.tune.space import OF_ALL_TRIALS
from rltrain.mode.tune.study_results import preset_text


def settings(overrides):
    values = leaves(compose_checked(overrides).plain)
    return {names: v for names, v in values if not is_below(".".join(names), OF_ALL_TRIALS)}


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
        [
            *("algo=vdn", "env=smac", "env.opponents={builtin: 1, ./old.v1: 2}", "hardware=ray"),
            "test.function={_target_: tests.integration.promises.envs.share}",
            *("+test.env.map_name=8m", "hardware.worker_resources={custom.x: 1}"),
            "+algo.optimizer.weight_decay=0.1",
        ],
        ["algo=dqn", "env=cartpole", "algo.optimizer={_target_: torch.optim.SGD, lr: 0.1}"],
    ],
    ids=["tuned", "parts", "experiment", "added", "mappings", "own"],
)
def test_preset_composes_to_the_same_configuration(overrides, tmp_path):
    (tmp_path / "best.yaml").write_text(preset_text(overrides, ["about"]), encoding="utf-8")
    assert settings([f"experiment={tmp_path / 'best.yaml'}"]) == settings(overrides)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["sea,r=ch", "a b", "it's", "plain"])
def test_a_preset_is_found_in_a_folder_of_any_name(tmp_path, name):
    """Defect: the command that a search prints was refused."""
    folder = tmp_path / name
    folder.mkdir()
    (folder / "best.yaml").write_text(preset_text(["algo=dqn", "env=cartpole"], ["about"]))
    word = f"experiment={folder / 'best.yaml'}"
    for line in ([word], ["-m", word, "seed=range(3,5)"]):
        for job in entry.list_jobs(read(line)).values():
            assert compose_checked(job).settings().choices["env"] == "cartpole"
