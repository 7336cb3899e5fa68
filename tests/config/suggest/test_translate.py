"""Commands that are typed in another way are answered with one that can be pasted."""

import shlex
from functools import partial

import pytest

from rltrain import main as entry
from rltrain.config.catalog import SHIPPED
from rltrain.config.compose import compose_checked, refusal
from rltrain.config.suggest.translate import TAKEN, command_problem, translated
from rltrain.config.validate.mode_keys import LOADED, require_read
from rltrain.errors import UsageError

COMMANDS = {
    "--config=qmix --env-config=sc2 with env_args.map_name=3m t_max=2000000": (
        "algo=qmix env=smac env.map_name=3m total_env_steps=2000000"
    ),
    "src/main.py --config=vdn_beta --env-config=sc2v2 with env_args.map_name=zerg_5_vs_5 lr=0.1": (
        "algo=vdn env=smacv2 env.map_name=zerg_5_vs_5 algo.optimizer.lr=0.1"
    ),
    "with env_args.map_name=3m": "env.map_name=3m",
    "--config=qmix with evaluate=True checkpoint_path=results/x save_replay=True": (
        "mode=evaluate checkpoint=results/x record=video"
    ),
    "--algo dqn --env CartPole-v1 -n 50000": "algo=dqn env=cartpole total_env_steps=50000",
    "--run DQN --env CartPole-v1": "algo=dqn env=cartpole",
    "--env-id CartPole-v1 --total-timesteps 50000 --exploration-fraction 0.2 --track": (
        "env=cartpole total_env_steps=50000 algo.exploration.env_steps=10000 "
        "logger.wandb.mode=online"
    ),
    "--algo=DQN": "algo=dqn",
    "--no-cuda algo=dqn": "algo=dqn hardware=cpu",
    "-m --algo=vdn,QMIX seed=1,2": "-m algo=vdn,qmix seed=1,2",
    "train algo=dqn": "algo=dqn",
    "train": "",
    "evaluate": "mode=evaluate checkpoint=latest",
    "evaluate outputs/x": "mode=evaluate checkpoint=outputs/x",
    "doctor": "mode=doctor",
    "help": "--help",
    "help algo": "--help algo",
    "help env": "--help env",
    "train dqn on cartpole for 100k steps": "algo=dqn env=cartpole total_env_steps=100k",
    "dqn cartpole 10000": "algo=dqn env=cartpole total_env_steps=10000",
    "evaluate demo/cartpole 100": "mode=evaluate checkpoint=demo/cartpole test.episodes=100",
    "tune dqn cartpole 50": "mode=tune algo=dqn env=cartpole tune.trials=50",
    "plot outputs": "mode=report runs=outputs",
    "compare outputs/a outputs/b": "mode=report 'runs=[outputs/a,outputs/b]'",
    "push latest me/model": "mode=push checkpoint=latest hub.repo=me/model",
    "export latest onnx": "mode=export checkpoint=latest",
    "init my_project": "mode=init init.folder=my_project",
    "--list-envs": "mode=list",
    "train env=smac env.maps=3m,8m": "env=smac 'env.maps=[3m,8m]'",
    "train logger=csv,wandb": "'logger=[csv,wandb]'",
    "--algo dqn -tb logs": "algo=dqn 'logger=[tensorboard]'",
    "record": "mode=evaluate checkpoint=latest record=video",
    "dqn cartpole lr 0.001 seed 3": "algo=dqn env=cartpole algo.optimizer.lr=0.001 seed=3",
    "--run DQN --env CartPole-v1 --num-workers 2 --num-gpus 0": (
        "algo=dqn env=cartpole hardware.n_workers=2 hardware.device=cpu hardware=process"
    ),
    "list": "mode=list",
    "--list": "mode=list",
    "tune algo=dqn env=cartpole": "mode=tune algo=dqn env=cartpole",
    "report runs=outputs": "mode=report runs=outputs",
    "algo dqn": "algo=dqn",
    "resume": "resume=latest",
    "resume outputs/x": "resume=outputs/x",
    "dqn cartpole": "algo=dqn env=cartpole",
    "--algo rainbow --v-min -10 --stop-reward -110": (
        "algo=rainbow algo.distribution.v_min=-10 stop.metric=train/return_mean stop.value=-110"
    ),
    "qmix 3m": "algo=qmix env=smac env.map_name=3m",
    "algo = dqn env= cartpole": "algo=dqn env=cartpole",
    "--dry-run algo=dqn": "algo=dqn --cfg=job",
    "--train env=cartpole": "env=cartpole",
    "--play": "mode=evaluate checkpoint=latest",
    "watch demo": "mode=watch checkpoint=demo/2s3z",
    "continue": "resume=latest",
    "--algo dqn --seed 1,2": "-m algo=dqn seed=1,2",
    "--config=vdn with runner=parallel batch_size_run=4": "algo=vdn hardware.n_envs=4",
    "--config=vdn with batch_size_run=4 runner=parallel": "algo=vdn hardware.n_envs=4",
    "--env-config=mpe with scenario=simple_tag": "env=mpe env.game=tag",
    "algo qmix vdn env smac seed 3": "-m algo=qmix,vdn env=smac seed=3",
    "algo/mixer sum hardware.n_envs 4": "algo/mixer=sum hardware.n_envs=4",
    "mode eval": "mode=evaluate checkpoint=latest",
    "dqn cartpole --seed 1 2 3": "-m algo=dqn env=cartpole seed=1,2,3",
    "-m algo=dqn, c51 env=cartpole": "-m algo=dqn,c51 env=cartpole",
    "dqn cartpole use_wandb": "algo=dqn env=cartpole logger.wandb.mode=online",
    "dqn cartpole --layers 64 32": "algo=dqn env=cartpole 'algo.network.hidden_sizes=[64,32]'",
    "--algo r2d2 --use-lstm": "algo=r2d2 algo/network=lstm",
}


OURS = [
    *("logger=[]", "logger=[csv,tensorboard]", "env.opponents={builtin:0.5}", "seed=3"),
    *("+algo.optimizer.weight_decay=0.1", "algo.loss.double=false", "stop.hours=null"),
    "algo/network=gru",
]


@pytest.mark.parametrize("override", OURS)
@pytest.mark.parametrize("wrong", ["qmix", "--algo qmix", "algo==qmix"])
def test_what_is_right_beside_a_mistake_is_kept(override, wrong):
    """Defect: empty lists and mappings were left out."""
    said = command_problem([*wrong.split(), override], SHIPPED)
    assert override in shlex.split(said.splitlines()[1])
    assert "Left out" not in said


@pytest.mark.parametrize("typed", COMMANDS)
def test_command_is_translated_whole(typed):
    said = command_problem(typed.split(), SHIPPED)
    assert said.splitlines()[1] == f"  rltrain {COMMANDS[typed]}".rstrip()
    overrides = [
        word for word in shlex.split(COMMANDS[typed]) if not word.startswith(("-", "mode=evaluate"))
    ]
    if "-m" not in COMMANDS[typed] and "--help" not in COMMANDS[typed]:
        compose_checked(overrides)


def test_what_has_no_counterpart_is_named():
    said = command_problem(["--algo=ppo", "--use-tensorboard", "--record-video", "--x=1"], SHIPPED)
    assert "rltrain algo=pqn 'logger=[tensorboard]'" in said
    assert "ppo (the nearest: ppo is an actor-critic method" in said
    assert "record_video (type rltrain mode=evaluate checkpoint=latest record=video after" in said
    assert said.endswith("x=1.")


def test_what_was_used_is_not_left_out():
    said = command_problem(["dqn", "cartpole", "10000"], SHIPPED)
    assert said.endswith("Type\n  rltrain algo=dqn env=cartpole total_env_steps=10000")


def test_values_with_blanks_stay_pasteable():
    done = translated(["--checkpoint", "a b", "--net-arch", "64"], SHIPPED)
    assert str(done) == "rltrain 'checkpoint=a b' 'algo.network.hidden_sizes=[64]' algo/network=mlp"


@pytest.mark.parametrize("value", ["it's", 'a"b', "a b", "$x", "(", "\\", ""])
@pytest.mark.parametrize("name", ["--stop-reward", "--checkpoint", "--exp-name", "--wandb-entity"])
def test_no_value_breaks_the_quotes_of_a_command(own_folder, name, value):
    """Defect: a quote in a value ended in a traceback."""
    (own_folder / f"{value or 'x'}.yaml").write_text("seed: 1")
    for typed in ([name, value], ["--algo", "dqn", name, value], [f"experiment={value}", name]):
        for line in str(translated(typed, SHIPPED)).splitlines():
            assert shlex.split(line)


@pytest.mark.parametrize("typed", [["doctor"], ["--algo", "dqn"], ["algo=dqn", "seed"], ["-x"]])
def test_command_line_refuses_them_with_it(typed):
    with pytest.raises(UsageError) as caught:
        entry.run(typed)
    assert str(caught.value) == command_problem(typed, SHIPPED, partial(refusal, SHIPPED, []))


@pytest.mark.parametrize("mode", sorted(TAKEN.keys() & LOADED))
@pytest.mark.parametrize(
    "word",
    [
        *("record=video", "seed=1", "test.episodes=3", "test.n_envs=2", "test.n_workers=2"),
        *("hub.repo=me/model", "hardware.device=cpu", "trust=[mine]", "load_step=best"),
    ],
)
def test_a_mode_that_loads_a_run_is_given_only_keys_that_it_reads(mode, word):
    """Defect: mode=push with seed= was suggested, and refused."""
    done = translated([f"mode={mode}", "checkpoint=latest", word], SHIPPED)
    overrides = [o for each in done.overrides.values() for o in shlex.split(each)]
    require_read(overrides, mode)
    assert word in overrides or word.partition("=")[0] in "".join(done.left_out)
