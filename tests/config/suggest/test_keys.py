"""What a wrong name or value is answered with: the override that was meant, ready to be typed."""

import random
import time
from pathlib import Path

import pytest

from rltrain import main as entry
from rltrain.api import settings_from
from rltrain.config.catalog import FREE_FORM, SHIPPED, split_options
from rltrain.config.command_line import shell_word
from rltrain.config.compose import compose_checked
from rltrain.config.suggest.aliases import choice_aliases, tables, value_aliases
from rltrain.config.suggest.choices import for_choice
from rltrain.config.suggest.keys import for_key
from rltrain.config.suggest.value_forms import for_value
from rltrain.errors import UsageError
from tests.marks import slow_except

ROOT = Path(__file__).parents[3]


def answer(typed):
    with pytest.raises(UsageError) as caught:
        settings_from(typed.split())
    return str(caught.value)


DQN = "algo=dqn env=cartpole tuned=none"
NAMES = {
    "algo=QMIX": "Type algo=qmix.",  # case
    "algo=IQL": "Type algo=iql.",  # case of three letters
    "algo=qmx": "Did you mean algo=qmix?",  # typo
    # typo in another library's name
    "rnn_hiden_dim=64 env=smac": "Did you mean algo.network.hidden_dim=64?",
    # two letters swapped in it
    "epsilon_anneal_tiem=500": "Did you mean algo.exploration.env_steps=500?",
    "bufer_size=100": "Did you mean buffer.capacity=100?",  # one too few in it
    "lr=0.001": "Type algo.optimizer.lr=0.001.",  # last part
    "algo.lr=0.001": "Type algo.optimizer.lr=0.001.",  # last part below its group
    "wandb.mode=online": "Type logger.wandb.mode=online.",  # last part and its parent
    # last part of several
    "interval=9": (
        "Did you mean test.interval=9, save.interval=9, self_play.interval=9 or log.interval=9?"
    ),
    "n_envs=4": "Type hardware.n_envs=4 ",  # not of tests
    "map_name=8m": "Type env.map_name=8m.",  # a map of smac
    "id=CartPole-v1": "env=gymnasium env.id=CartPole-v1?",  # id of another env
    f"{DQN} env.map_name=3m": "Type env=smac env.map_name=3m ",  # key of another choice
    "algo/loss/gamma=0.9": "Type algo.loss.gamma=0.9.",  # slash for dot
    "algo.network=mlp": "Type algo/network=mlp.",  # dot for slash
    "algo.mixer=sum": "Type algo/mixer=sum.",  # dot for slash, mixer
    "algo.optimizer=adam": "Type algo/optimizer=adam.",  # dot for slash, optimizer
    "algo.mixer=vdn": "Type algo/mixer=sum.",  # another library's mixer
    "logger.wandb=false": "Type logger.wandb.mode=disabled.",  # value for a node
    # missing +
    "env=gymnasium algo=dqn env.kwargs.gravity=5": (
        "Type +env.kwargs.gravity=5 (a new key below env.kwargs needs a +)."
    ),
    # capitals below env.kwargs
    "env=gymnasium algo=dqn env.kwargs.maxSteps=5": "Type +env.kwargs.maxSteps=5 (a new key",
    "env=mpe env.kwargs.N=5": "Type +env.kwargs.N=5 (",  # own option in capitals
    "env=gymnasium algo=dqn env.size=5": "Type +env.kwargs.size=5 (if the",  # own option
    "algo=qmix env=smac env.map=8m": "Type env.map_name=8m.",  # map
    # in a mode that its choices need
    "mode=evaluate algo=scripted env=smac map=8m": "Type env.map_name=8m.",
    # of two-sided environments
    "env=cartpole algo=dqn env.opponent=self": (
        "(if the environment takes it; env.opponent belongs to env=magent, env=mpe, env=pettingz"
    ),
    "env=gymnasium algo=dqn env.g=5": "Type +env.kwargs.g=5 (if the",  # like no other key
    "env=gymnasium algo=dqn env.max_step=5": "env.max_episode_steps=5?",  # like another key
    "algo.optimizer.epss=1": "Did you mean algo.optimizer.eps=1",  # typo below a free-form node
    f"{DQN} hidden_sizes=64": "Type 'algo.network.hidden_sizes=[64]'.",  # list
    "xyzzy=1": "Unknown key 'xyzzy'. rltrain --help lists the keys.",  # nothing near
}
TRANSLATED = {
    "t_max=2000000": "total_env_steps=2000000 (t_max in PyMARL)",
    "gamma=0.9": "algo.loss.gamma=0.9",
    "use_cuda=True": "hardware=cuda ",
    "use_cuda=False": "hardware=cpu ",
    "epsilon_finish=0.1": "algo.exploration.end=0.1 ",
    "epsilon_anneal_time=9": "algo.exploration.env_steps=9 ",
    "batch_size_run=8": "hardware.n_envs=8 ",
    "batch_size=64": "algo.batch_size=64",
    "buffer_size=9": "buffer.capacity=9 ",
    "evaluate=True": "mode=evaluate checkpoint=latest ",
    "env_args.map_name=3m": "env.map_name=3m",
    "target_update_interval=9": "algo.target_update.episodes=9 ",
    "weight_decay=1e-5": "+algo.optimizer.weight_decay=1e-5 ",
    "algo.optimizer.weight_decay=1e-5": "+algo.optimizer.weight_decay=1e-5 ",
    "mixer=vdn": "algo/mixer=sum",
    "device=cpu": "hardware.device=cpu",
    "device=gpu": "hardware.device=cuda",
    "learning_rate=1e-3": "algo.optimizer.lr=1e-3 ",
    "total_timesteps=9": "total_env_steps=9 ",
    "exploration_fraction=0.1": "algo.exploration.env_steps=50000 ",
    "train_freq=4": "algo.updates_per_env_step=0.25 ",
    "num_envs=4": "hardware.n_envs=4 ",
    "track=True": "logger.wandb.mode=online ",
    "capture_video=True": "test.video_interval=100_000 ",
    "train_batch_size=9": "algo.batch_size=9 ",
    "steps=1000": "total_env_steps=1000",
    "target_network_update_freq=500": (
        "algo.target_update.env_steps=500 algo.target_update.episodes=null "
    ),
    "num_gpus=0": "hardware.device=cpu ",
    "agent=rnn_ns": "'algo.network.groups=[[0],[1],[2]]' ",
    "action_selector=soft_policies": "algo/exploration=boltzmann ",
    "model=DQN": "algo=dqn",
    "memory=50000": "buffer.capacity=50000",
    "stop.reward=475": "stop.metric=train/return_mean stop.value=475",
    "epsilon_decay=0.995": "algo/exploration=exponential (half_life in env steps)",
    "epsilon_decay=20000": "algo.exploration.env_steps=20000",
    "list_envs=true": "mode=list",
    "buffer.size=1e5": "buffer.capacity=1e5",
    "test.every=1000": "test.interval=1000",
    "double_dqn=true": "algo.loss.double=true",
    "wandb.entity=me": "+logger.wandb.entity=me",
    "logger.tensorboard=true": "'logger=[tensorboard]'",
    "env.name=CartPole-v1": "env=cartpole",
    "env.num_envs=8": "hardware.n_envs=8 ",
    "stop.steps=10000": "total_env_steps=10000",
    "loss=mse": "algo.loss.huber=null",
    "per=true": "buffer=prioritized",
    "clip=10": "algo.max_grad_norm=10",
    "env=3m": "env=smac env.map_name=3m.",
    "env=MMM2": "env=smac env.map_name=MMM2.",
    "env=zerg_5_vs_5": "env=smacv2 env.map_name=zerg_5_vs_5.",
    "env=breakout": "env=minatar env.game=breakout or env=atari env.game=breakout.",
    "env=pong": "env=atari env.game=pong.",
    "env=ALE/Breakout-v5": "env=atari env.game=breakout.",
    "env=MinAtar/Breakout-v1": "env=minatar env.game=breakout.",
    "env=mario": "env=gymnasium env.id=my_package:MyEnv-v0 (",
    "env=atari/breakout": "env=atari env.game=breakout.",
    "env=10gen_terran": "env=smacv2 env.map_name=terran_5_vs_5.",
    "env=pistonball_v6": "env=pettingzoo env.id=pettingzoo.butterfly.pistonball_v6.",
    "env=pursuit": "env=pettingzoo env.id=pettingzoo.sisl.pursuit_v4.",
    "env=my_env.py:MyEnv": "env=gymnasium env.id=my_env:MyEnv.",
    "env=custom": "env=gymnasium env.id=my_module:MyEnv.",
    "env=PongNoFrameskip-v4": "env=atari env.game=pong.",
    "env=sc2": "env=smac.",
    "env=CartPole-v1": "env=cartpole.",
    "env=LunarLander-v2": "env=lunarlander.",
    "env=my_package:MyEnv-v0": "env=gymnasium env.id=my_package:MyEnv-v0.",
    "env=Some-v3": (
        "env=gymnasium env.id=my_package:Some-v3 (my_package being the one that registers it)."
    ),
    "env=dqn": "algo=dqn (dqn is a choice of algo).",
    "hardware=gpu": "hardware=cuda.",
    "buffer=per": "buffer=prioritized.",
    "algo/mixer=vdn": "algo/mixer=sum.",
    "experiment=zoo": (
        "experiment=zoo/acrobot, experiment=zoo/cartpole, experiment=zoo/lunarlander or "
        "experiment=zoo/mountaincar."
    ),
    "algo=ppo": (
        "algo=pqn (the nearest: ppo is an actor-critic method, and rltrain trains value-based "
        "methods only)."
    ),
    "env=Pendulum-v1": "env=cartpole (the nearest: Pendulum-v1 has continuous actions, ",
}


@pytest.mark.parametrize("typed", slow_except([*NAMES][::3], NAMES))
def test_wrong_name_is_answered_with_what_to_type(typed):
    assert NAMES[typed] in answer(typed)


@pytest.mark.parametrize("override", slow_except([*TRANSLATED][::3], TRANSLATED))
def test_name_of_another_library_is_translated(override):
    assert f" Type {TRANSLATED[override]}" in answer(override) + " "


def test_same_name_follows_the_algorithm():
    dqn = answer(f"{DQN} target_update_interval=9 hidden_size=64")
    assert "Type algo.target_update.env_steps=9 (" in dqn
    assert "Type 'algo.network.hidden_sizes=[64]'." in dqn
    assert "Type algo.network.hidden_dim=64." in answer("hidden_size=64")


def test_name_without_counterpart_says_so():
    assert answer("save_model=True") == (
        "Unknown key 'save_model'. There is nothing to set for it: checkpoints are saved without "
        "it, also at the end and on Ctrl-C."
    )


def test_few_choices_are_listed_and_many_are_not():
    assert answer("hardware=moon").endswith("Expected one of auto, cpu, cuda, ddp, process, ray.")
    assert "rltrain --help experiment lists all" in answer("experiment=nothing")
    assert "dqn, drqn, iql" in answer("algo=nothing")


VALUE = {
    "mode=eval": "Type mode=evaluate.",
    "mode=test": "Type mode=evaluate.",
    "mode=evalute": "Did you mean mode=evaluate?",
    "hardware.device=gpu": "Type hardware.device=cuda.",
    "total_env_steps=1M": "Type total_env_steps=1e6.",
    "total_env_steps=2.5m": "Type total_env_steps=2.5e6.",
    "total_env_steps=1.000.000": "Type total_env_steps=1_000_000.",
    "test.epsilon=5%": "Type test.epsilon=0.05.",
    "seed=1:3": "Type -m seed=1,2,3 or -m 'seed=range(1,4)'.",
    "seed=abc": "The default is 0.",
    "save.replay_buffer=yes": "Type save.replay_buffer=true.",
    "stop.hours=never": "Type stop.hours=null.",
    "algo.batch_size=[64]": "Type algo.batch_size=64.",
    "logger.wandb.mode=off": "Type logger.wandb.mode=disabled.",
    "stop.metric=win_rate": "Did you mean stop.metric=test/win_rate?",
    "stop.metric=test_battle_won_mean": "Type stop.metric=test/win_rate.",
}


@pytest.mark.parametrize("override", VALUE)
def test_wrong_value_is_answered_with_what_was_meant(override):
    (line,) = [line for line in answer(f"{override} stop.value=1").splitlines() if override in line]
    assert line.endswith(VALUE[override])


COMMANDS = {
    "-m seed=1:3": "Type -m seed=1,2,3 or -m 'seed=range(1,4)'.",
    "-m algo=dqn": "Type for example seed=1,2,3, or leave out -m",
    "total_env_steps=1,000,000": "For one number type total_env_steps=1_000_000.",
    "seed=1,2": "or quote the value if the comma belongs to it.",
    "algo.optimizer.lr=0,001": "For one number type algo.optimizer.lr=0.001.",
    "algo.loss.gamma=0,9": "For one number type algo.loss.gamma=0.9.",
    "total_env_steps=1,5e6": "For one number type total_env_steps=1.5e6.",
    "total_env_steps=10^6": "Type total_env_steps=1e6.",
    "algo.optimizer.lr=5*10^-4": "Type algo.optimizer.lr=5e-4.",
    "algo.optimizer.lr=5*10**-4": "Type algo.optimizer.lr=5e-4.",
    "buffer.capacity=2^17": "Type buffer.capacity=131072.",
    "total_env_steps=1e6.": "Type total_env_steps=1e6.",
    "--env.id CartPole-v1": "env.id=CartPole-v1",
    "logger=csv,wandb": "Type 'logger=[csv,wandb]' for one list.",
    "env.maps=3m,8m": "Type 'env.maps=[3m,8m]' for one list.",
    "mode=help": "Type --help.",
    "load_step=last": "Type load_step=null.",
    "mode=evaluate record=gif": "Type record=video.",
    "env.map_name=3M": "unknown SMAC map '3M': did you mean 3m?",
    "env.map_name=8n": "unknown units in the map '8n': 8n.",
    "env.map_name=8_m": "unknown SMAC map '8_m': did you mean 8m",
    "env=smacv2 env.map_name=teran_5_vs_5": "Did you mean terran_5_vs_5?",
    "+test.env.map_name=8n": "test.env.map_name=8n: unknown units in the map '8n'",
    "env=smaclite env.rules=sc2": "env.rules=sc2 are others. Type env=smac.",
}


@pytest.mark.parametrize("typed", COMMANDS)
def test_wrong_command_is_refused_with_what_to_type(typed):
    with pytest.raises(UsageError) as caught:
        entry.run(typed.split())
    assert COMMANDS[typed] in str(caught.value)


def test_default_is_never_the_meaning_of_a_wrong_name():
    assert "train." not in answer("mode=play_it").partition("got")[2]
    assert str(for_value("mode", "xyzzy", ["train", "evaluate"], lambda _: False)) == ""


def typos(key, rng):
    """One edit of each kind, anywhere in a key."""
    i, c = rng.randrange(len(key)), rng.choice("abcdefghijklmnopqrstuvwxyz_.")
    yield key[:i] + key[i + 1 :]
    yield key[:i] + c + key[i:]
    yield key[:i] + c + key[i + 1 :]
    yield key[:i] + key[i : i + 2][::-1] + key[i + 2 :]


def test_one_edit_typos_of_every_key_find_it():
    """At least 95 of 100, and fast enough for a message."""
    rng, found, tried = random.Random(0), 0, 0
    SHIPPED.homes  # noqa: B018  read once, as in a command
    begin = time.process_time()
    for typed in ({}, {"algo": "dqn", "env": "cartpole"}, {"algo": "drqn", "env": "trading"}):
        known = {key: at.value for key, at in SHIPPED.keys(typed).items()}
        for key in known:
            for typo in typos(key, rng):
                if typo not in known:
                    typed_instead = for_key(typo, "1", known, SHIPPED).typed[:1]
                    found += [shell_word(f"{key}=1")] == [
                        t.replace("[1]", "1") for t in typed_instead
                    ]
                    tried += 1
    assert tried > 900
    assert found / tried >= 0.95
    assert (time.process_time() - begin) / tried < 0.02


def test_one_edit_typos_of_choices_find_them():
    rng, found, tried = random.Random(0), 0, 0
    for group in SHIPPED.groups:
        for option in SHIPPED.options(group):
            for typo in typos(option, rng):
                if typo not in SHIPPED.options(group) and len(option) > 3:
                    found += f"{group}={option}" in for_choice(group, typo, SHIPPED).typed
                    tried += 1
    assert found / tried >= 0.95


def overrides_of_the_tables():
    for sections in tables().values():
        for section, rows in sections.items():
            for row in rows if section != "Metrics" else ():
                keys = [key for word in row.ours.split() for key in word.split("|")]
                yield from (f"{key}=VALUE" for key in keys)
                yield from (word for words in row.values.values() for word in words.split())
    for rows in choice_aliases().values():
        yield from (word for row in rows for word in row.ours.split())
    for key, values in value_aliases().items():
        yield from (f"{key}={value}" for value in values.values())


def exists(override):
    name, _, value = override.partition("=")
    key = name.lstrip("+")
    if name in SHIPPED.groups:
        return set(split_options(value)) <= {*SHIPPED.options(name), "VALUE"}
    if name == "--cfg":
        return value == "job"
    if name.startswith("+"):
        return any(f"{key}.".startswith(f"{node}.") for node in FREE_FORM)
    nodes = ("hydra.", "algo.network._target_", *SHIPPED.root.keys)
    return key in SHIPPED.homes or key.startswith(nodes)


def test_everything_that_is_suggested_exists():
    suggested = set(overrides_of_the_tables())
    assert len(suggested) > 200
    assert [override for override in suggested if not exists(override)] == []


def test_names_of_a_row_have_a_target_each():
    for sections in tables().values():
        for rows in sections.values():
            for row in rows:
                assert len(row.ours.split()) in (0, 1, len(row.theirs.split())), row


def test_suggested_keys_are_accepted():
    compose_checked(
        ["algo.optimizer.lr=0.1", "+algo.optimizer.weight_decay=1e-5", "algo/mixer=sum"]
    )


def test_a_correct_command_reads_no_names_of_other_libraries():
    tables.cache_clear()
    compose_checked(["algo=dqn", "env=cartpole", "algo.optimizer.lr=0.1"])
    assert tables.cache_info().currsize == 0
