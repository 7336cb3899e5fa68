"""Results of other libraries, in the formats that they write."""

import json
import pickle

import numpy as np
import pytest

from rltrain.common.files import JSON_BYTES
from rltrain.errors import UsageError
from rltrain.report.analysis import analyze
from rltrain.report.readers import find_runs
from tests.report.runs import settings, write_files, write_run


def only(place):
    (run,) = find_runs([place])
    return run, (run.library, run.algo, run.env, run.seed)


def write(path, content):
    write_files(path.parent, {path.name: content})


def sacred(folder, status="COMPLETED"):
    """PyMARL's run as Sacred keeps it."""
    env = {"env": "sc2", "env_args": {"map_name": "3m", "seed": 5, "difficulty": "7"}}
    write(folder / "config.json", {"name": "qmix", "seed": 5, "lr": 0.0005, **env})
    write(folder / "run.json", {"status": status, "start_time": "2024-05-01T10:00:00.000000"})
    number = {"dtype": "float64", "py/object": "numpy.float64", "value": 0.5}
    values = {"test_battle_won_mean": [0.0, number], "test_battle_won_mean_T": [100, 10_100]}
    values |= {"return_mean": [1.5], "return_mean_T": [100], "loss": [2.0], "loss_T": [10_100]}
    write(folder / "info.json", values)


def test_pymarl(tmp_path):
    sacred(tmp_path / "sacred/1")
    run, about = only(tmp_path)
    assert about == ("PyMARL", "qmix", "smac 3m", 5)
    assert run.series("test/win_rate")[0].tolist() == [100, 10_100]
    assert run.series("test/win_rate")[1].tolist() == [0, 0.5]
    assert run.series("train/return_mean")[1].tolist() == [1.5]
    assert run.settings == {"name": "qmix", "lr": 0.0005, "env": "sc2", "env_args.difficulty": "7"}


def test_epymarl_has_times(tmp_path):
    sacred(tmp_path / "1", status="RUNNING")
    times = ["2024-05-01T10:00:30.000000", "2024-05-01T10:01:00.000000"]
    values = {"steps": [0, 50], "timestamps": times, "values": [1.0, 2.0]}
    write(tmp_path / "1/metrics.json", {"test_return_mean": values})
    run, _ = only(tmp_path)
    x, y = run.series("test/return_mean", "minutes")
    assert (x.tolist(), y.tolist(), run.status) == ([0.5, 1], [1, 2], "running")


def test_stable_baselines3_with_its_logger(tmp_path):
    table = (
        "time/total_timesteps,rollout/ep_rew_mean,eval/mean_reward,train/n_updates\n"
        "100,20.5,,10\n200,,30.5,20\n300,40.5,,\n400,50.5,60.5,7"  # of 70
    )
    write(tmp_path / "dqn_CartPole-v1/seed_2/progress.csv", table)
    run, about = only(tmp_path)
    assert about == ("SB3", "dqn", "CartPole-v1", 2)
    assert [a.tolist() for a in run.series("train/return_mean")] == [[100, 300], [20.5, 40.5]]
    assert [a.tolist() for a in run.series("test/return_mean")] == [[200], [30.5]]
    assert run.series("test/return_mean", "updates")[0].tolist() == [20]


def rl_zoo(folder):
    """A run of rl-zoo3: monitors of two environments and tests."""
    for i in range(2):
        rows = "".join(f"{10 + j},5,{j + i / 2}\n" for j in range(20))
        header = '#{"t_start": 1700000000.0, "env_id": "CartPole-v1"}\nr,l,t\n'
        write(folder / f"{i}.monitor.csv", header + rows)
    results = np.array([[1.0, 3.0], [5.0, 7.0]])
    lengths = np.array([[4, 6], [8, 10]])
    np.savez(folder / "evaluations.npz", timesteps=[50, 100], results=results, ep_lengths=lengths)


def test_rl_zoo3(tmp_path):
    rl_zoo(tmp_path / "logs/qrdqn/CartPole-v1_3")
    run, about = only(tmp_path)
    assert about == ("SB3", "qrdqn", "CartPole-v1", 3)
    assert [a.tolist() for a in run.series("test/return_mean")] == [[50, 100], [2, 6]]
    assert [a.tolist() for a in run.series("train/return_mean")] == [[100, 200], [14.5, 24.5]]


@pytest.mark.parametrize(
    ("path", "about"),
    [
        ("dqn_big_1", ("dqn", "dqn_big", 1)),
        ("dqn_small_2", ("dqn", "dqn_small", 2)),
        ("DQN_1", ("dqn", None, 1)),
        ("big_dqn_CartPole-v1_seed3", ("dqn", "big_dqn", 3)),
        ("dqn_lr0.01_s4", ("dqn", "dqn_lr0.01", 4)),
        ("dqn_64_1", ("dqn", "dqn_64", 1)),
        ("dqn-big/seed_2", ("dqn", "dqn-big", 2)),
        ("dqn_CartPole-v1/seed_2", ("dqn", None, 2)),
        ("dqn/CartPole-v1_1", ("dqn", None, 1)),
        ("logs/ppo_lstm/CartPole-v1_3", ("ppo_lstm", None, 3)),
        ("ppo-lstm_big_3", ("ppo_lstm", "ppo-lstm_big", 3)),
        ("ppo_lstmx_3", ("ppo", "ppo_lstmx", 3)),
        ("mine_1", ("mine", None, 1)),
    ],
)
def test_stable_baselines3_in_folders_of_several_names(tmp_path, path, about):
    """Defect: dqn_big_1 and dqn_small_1 were two runs of one configuration."""
    rl_zoo(tmp_path / "a/b/c" / path)
    run, _ = only(tmp_path)
    assert (run.algo, run.settings.get("name"), run.seed) == about


def test_arrays_with_pickled_objects_are_not_unpickled(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("unpickled",))

    folder = tmp_path / "dqn/CartPole-v1_1"
    folder.mkdir(parents=True)
    objects = np.array([Bomb()], object)
    np.savez(folder / "evaluations.npz", timesteps=objects, results=objects, ep_lengths=objects)
    run, _ = only(tmp_path)
    assert run.metric("return_mean") is None
    (folder / "evaluations.npz").write_bytes(pickle.dumps(Bomb()))
    run, _ = only(tmp_path)
    assert run.metric("return_mean") is None
    (problem,) = run.problems
    assert problem.startswith("evaluations.npz cannot be read (")


def test_rllib_with_new_names(tmp_path):
    rows = [
        {
            "training_iteration": i,
            "time_total_s": 10.0 * i,
            "num_env_steps_sampled_lifetime": 100 * i,
            "env_runners": {"episode_return_mean": 1.0 * i, "episode_len_mean": 3.0},
            "evaluation": {"env_runners": {"episode_return_mean": 2.0 * i}},
            "config": {"env": "CartPole-v1", "seed": 4, "lr": 0.001, "log_level": "WARN"},
        }
        for i in (1, 2)
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows) + '{"training_it'
    write(tmp_path / "DQN_CartPole-v1_0a1b2_00000/result.json", text)
    run, about = only(tmp_path)
    assert about == ("RLlib", "dqn", "CartPole-v1", 4)
    assert [a.tolist() for a in run.series("test/return_mean")] == [[100, 200], [2, 4]]
    assert run.series("train/return_mean")[1].tolist() == [1, 2]
    assert run.settings == {"lr": "0.001"}


def test_rllib_with_old_names_and_a_table(tmp_path):
    table = (
        "episode_reward_mean,timesteps_total,time_total_s,training_iteration\n"
        "15.5,1000,4.5,1\n,2000,9.0,2\n"
    )
    folder = tmp_path / "QMIX_3m_seed=7"
    write(folder / "progress.csv", table)
    write(folder / "params.json", {"env": "3m"})
    run, about = only(tmp_path)
    assert about == ("RLlib", "qmix", "3m", 7)
    assert [a.tolist() for a in run.series("train/return_mean")] == [[1000], [15.5]]


def test_cleanrl(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    folder = tmp_path / "CartPole-v1__dqn__1__1700000000"
    writer = EventFileWriter(str(folder))
    for step, value in ((10, 20.0), (30, 10.0), (30, 70.0)):  # two episodes ended at once
        event = Event(wall_time=1000.0 + step, step=step)
        event.summary.value.add(tag="charts/episodic_return", simple_value=value)
        writer.add_event(event)
    event = Event(wall_time=1000.0)
    table = "|param|value|\n|-|-|\n|env_id|CartPole-v1|\n|learning_rate|0.001|\n|seed|1|"
    text = event.summary.value.add(tag="hyperparameters/text_summary")
    text.metadata.plugin_data.plugin_name = "text"
    text.tensor.dtype = 7
    text.tensor.string_val.append(table.encode())
    writer.add_event(event)
    writer.close()
    run, about = only(tmp_path)
    assert about == ("CleanRL", "dqn", "CartPole-v1", 1)
    assert [a.tolist() for a in run.series("train/return_mean")] == [[10, 30], [20, 40]]
    assert run.settings == {"learning_rate": "0.001"}


def test_a_peer_stands_beside_our_runs(tmp_path):
    rl_zoo(tmp_path / "sb3/dqn/CartPole-v1_1")
    write_run(tmp_path / "outputs/r1", values=[0, 9])
    found = analyze(find_runs([tmp_path / "sb3", tmp_path / "outputs"]), settings())
    labels = ("dqn", "dqn (SB3)")
    assert [(s.label, s.env) for s in found.series] == [(x, "CartPole-v1") for x in labels]


def test_folders_without_results_are_answered_with_what_is_expected(tmp_path):
    write(tmp_path / "config.json", {"some": "thing"})
    write(tmp_path / "progress.csv", "a,b\n1,2\n")
    with pytest.raises(UsageError, match=r"holds no runs\. Expected run folders of rltrain, or of"):
        find_runs([tmp_path])


def test_damaged_files_do_not_end_a_report(tmp_path):
    rl_zoo(tmp_path / "zoo")
    for path in (tmp_path / "zoo").rglob("evaluations.npz"):
        path.write_bytes(b"")
    assert find_runs([tmp_path / "zoo"])
    sacred(tmp_path / "sacred")
    config = {"name": "qmix", "env": "sc2", "seed": 5, "env_args": None}
    write(tmp_path / "sacred/config.json", config)
    assert only(tmp_path / "sacred")[1][:2] == ("PyMARL", "qmix")


@pytest.mark.parametrize("name", ["info.json", "metrics.json"])
@pytest.mark.parametrize("damage", ["large", '{"return_mean', "[" * 100_000])
def test_a_damaged_file_of_pymarl_is_named(tmp_path, monkeypatch, name, damage):
    """Defect: a large or damaged file was a run without metrics."""
    sacred(tmp_path / "1")
    if damage == "large":
        monkeypatch.setattr("rltrain.report.readers.sacred.MOST_BYTES", 1)
    write(tmp_path / "1" / name, "{}" if damage == "large" else damage)
    run, _ = only(tmp_path)
    assert f"{name} " in " ".join(run.problems)
    assert "cannot be read" in run.problems[0]
    assert (run.metric("win_rate") is None) == (name == "info.json" or damage == "large")


def test_a_damaged_configuration_of_pymarl_is_named(tmp_path):
    sacred(tmp_path / "1")
    sacred(tmp_path / "2")
    write(tmp_path / "1/config.json", '{"name": "qm')
    problems = []
    assert [run.folder.name for run in find_runs([tmp_path], problems)] == ["2"]
    assert "1 is left out, since it cannot be read" in problems[0]


@pytest.mark.slow
def test_a_long_run_of_pymarl_is_read(tmp_path):
    sacred(tmp_path / "1")
    number = {"dtype": "float64", "py/object": "numpy.float64", "value": 0.5}
    n = 300_000
    curve = {"test_battle_won_mean": [number] * n, "test_battle_won_mean_T": list(range(n))}
    write(tmp_path / "1/info.json", curve)
    assert (tmp_path / "1/info.json").stat().st_size > JSON_BYTES
    assert len(only(tmp_path)[0].series("test/win_rate")[0]) == n


def test_returns_of_epymarl_without_a_common_reward_are_means_over_agents(tmp_path):
    config = {"name": "iql", "env": "gymma", "env_args": {"key": "lbf"}, "seed": 1}
    write(tmp_path / "1/config.json", config)
    names = ("agent_0_return_mean", "agent_1_return_mean", "total_return_mean")
    info = {}
    for group, values in (("", (1.0, 3.0, 4.0)), ("test_", (2.0, 6.0, 8.0))):
        for name, value in zip(names, values, strict=True):
            info |= {f"{group}{name}": [value], f"{group}{name}_T": [100]}
    write(tmp_path / "1/info.json", info)
    run, _ = only(tmp_path / "1")
    assert run.columns["train/return_mean"].tolist() == [2.0]
    assert run.columns["test/return_mean"].tolist() == [4.0]
