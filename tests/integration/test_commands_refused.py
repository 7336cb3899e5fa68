"""Commands of parts that do not belong together, and those that would come to nothing, are refused
with what to type, before anything is written.
"""

import shlex

import pytest

import rltrain
from rltrain.errors import RltrainError
from tests.conftest import CARTPOLE
from tests.helpers import over, without

SAME = r"Two jobs of this sweep are the same"
OF_TESTS = r"metric of tests"
WHICH = r"win_rate/\w+: no map of env\.maps and no opponent of test is named \w+"
LAUNCHED = r"sweep\.jobs=2 and {} do not go together"
REFUSED = {
    "algo=c51 env=two_step algo/mixer=sum": "Type algo/mixer=independent",
    "algo=dqn env=two_step algo/mixer=sum buffer.agents=independent": "algo/mixer=independent",
    "algo=dqn buffer.capacity=64 algo.learning_starts=65": r"learning_starts=65 .*"
    r"buffer\.capacity=64",
    "algo=dqn hardware.n_envs=3 buffer.capacity=6": r"buffer\.capacity=6 .* set "
    r"buffer\.capacity=\d+ or more",
    "algo=dqn buffer.capacity=1e12": r"needs .* TB .* set buffer\.capacity=\d+ or less",
    "algo=dqn buffer.max_bytes=1e15 buffer.capacity=1e12": r"memory are free here",
    "buffer=on_policy algo/loss=td": r"Type algo/loss=td buffer=replay",
    "algo=dqn buffer=on_policy": r"Type algo\.learning_starts=0",
    "buffer=replay algo/loss=q_lambda": r"or algo/loss=td buffer=replay",
    "algo/loss=quantile algo/distribution=categorical": "Type algo/loss=quantile "
    "algo/distribution=quantile",
    "algo=c51 algo.distribution.v_min=5 algo.distribution.v_max=5": r"v_min < v_max .* set "
    r"algo\.distribution\.v_min",
    "algo=qmix": r"QMix needs a global state",
    "algo=pqn algo.learning_starts=500": "learning_starts=500.*Type algo.learning_starts=0",
    "algo=pqn hardware.n_envs=2 algo.steps_per_collect=8 algo.batch_size=17": "batch_size=17: .* "
    "most 16.*Type algo.batch_size=16",
    "algo=dqn algo.loss.trace=0.5 algo.loss.n_step=1": "Type buffer=sequence or buffer=episode",
    "algo=dqn test.opponent=closest": "needs an environment with two sides, and env=cartpole",
    "-m": r"no key has several.*seed=1,2,3",
    "-m algo.loss.gamma=0.9,2": r"algo\.loss\.gamma=2",
    "-m seed=1,2,1": rf"{SAME}, .*seed=1: .*Leave one out",
    "-m seed=1,2 seed=3": SAME,
    "-m seed=1,1.0": SAME,
    "-m env=cartpole,\\'cartpole\\'": SAME,
    "-m seed=1,2 hydra.run.dir=x": r"Type hydra\.sweep\.dir=FOLDER",
    "-m seed=1,2 sweep.jobs=0": r"sweep\.jobs=0",
    "sweep.jobs=2": r"sweep\.jobs=2: only for sweeps",
    **{
        f"-m seed=1,2 sweep.jobs=2 {other}": LAUNCHED.format(other)
        for other in ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2")
    },
    "mode=tune tune.metric=test/foo": r"tune\.metric=test/foo: expected a metric",
    "mode=tune tune.metric=return_mean": r"Type tune\.metric=test/return_mean",
    "mode=tune tune.metric=train/return_mean": r"of tests.*tune\.metric=test/return_mean",
    "mode=tune tune.metric=learn/loss": r"metric of tests, such as test/return_mean",
    "mode=tune tune.metric=offline/is_return": OF_TESTS,
    "mode=tune tune.metric=time/env_share": OF_TESTS,
    "mode=tune tune.metric=episode_reward_mean": r"Type tune\.metric=test/return_mean",
    "stop.metric=auto stop.value=1": r"stop\.metric=auto: expected a metric",
    "stop.metric=test/win_rate/3m stop.value=1": WHICH,
    "stop.metric=train/retrun_mean stop.value=1": r"mean stop\.metric=train/return_mean",
    "dataset.write=file/data": r"cannot be written.*dataset\.write=FOLDER",
    "dataset.write=/proc/data": r"cannot be written.*dataset\.write=FOLDER",
}
"""What is typed for CartPole, and what is said of it."""


@pytest.mark.parametrize("line", REFUSED)
def test_a_command_that_cannot_work_is_refused(own_folder, command, line):
    (own_folder / "file").touch()
    on_policy = "algo=pqn" in line or "buffer=on_policy" in line
    base = without(CARTPOLE, "algo.learning_starts") if on_policy else CARTPOLE
    with pytest.raises(RltrainError, match=REFUSED[line]):
        command(*over(base, *shlex.split(line)))
    assert [path.name for path in own_folder.iterdir()] == ["file"]


def test_a_batch_of_all_that_is_collected_is_accepted(tmp_path):
    """Defect of the larger one: it held some of the same steps several times."""
    words = ["algo=pqn", "env=cartpole", "hardware.n_envs=2", "algo.steps_per_collect=8"]
    rltrain.make_trainer([*words, "algo.batch_size=16"], tmp_path).close()
