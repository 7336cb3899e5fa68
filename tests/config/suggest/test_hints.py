"""What a message says to type is accepted when it is typed, and is what was meant."""

import random
import re
import shlex
from itertools import combinations

import pytest

from rltrain import main as entry
from rltrain.config.catalog import SHIPPED
from rltrain.config.command_line import read
from rltrain.config.compose import compose_checked
from rltrain.config.overrides import flat_keys, jobs, parse
from rltrain.config.suggest.aliases import tables
from rltrain.errors import NamesError, RltrainError, UsageError, one_edit
from tests.config.suggest.test_keys import typos
from tests.marks import slow_except

DQN, QMIX = ("algo=dqn", "env=cartpole"), ("algo=qmix", "env=smac")
OTHERS = ("true", "0.01", "200")
"""Values that are typed for each name of another library, beside those it has."""
SUGGESTION = re.compile(
    r"(?:Type|Did you mean) (.+?)(?: \([^()]*\))?(?:[.?]$|; |\. (?=[A-Z]))", re.M
)
GIVEN_TOO = {
    "load_step": "checkpoint=outputs/dqn-cartpole/run",
    "stop.value": "stop.metric=test/return_mean",
    "stop.metric": "stop.value=1",
    "env.map_weights": "env.maps=[3m]",
}
"""What a user of a key gives too, and has not given yet."""
NAMES = {
    "stop.metric": "[test/return_mean,train/return_mean]",
    "tune.metric": "[test/return_mean,test/win_rate]",
    "env.id": "[CartPole-v1,Acrobot-v1]",
    "env.map_name": "[3m,8m]",
}
"""Lists for keys whose values are names that have to be known, in place of ``TEXTS``."""
TEXTS = ("[a b,c]", "[a,b]")


def refusal(words):
    try:
        for job in jobs(parse([word for word in words if word != "-m"])):
            compose_checked(job).settings()
    except RltrainError as error:
        return str(error)
    return None


def suggested(text):
    """Every alternative that a message says to type, as overrides."""
    for typed in SUGGESTION.findall(text):
        for each in re.split(r", (?=\S+=)| or (?=\S+=)", typed):
            words = shlex.split(each)
            if words and all("=" in word for word in words if word != "-m"):
                yield words


def refused(base, word):
    """The suggestions for a wrong override that are refused in their turn."""
    text = refusal([*base, word]) or ""
    for words in suggested(text):
        again = when_typed(base, words)
        if again is not None:
            yield word, words, again


def when_typed(base, words):
    """Why suggested overrides are refused in their turn, with what their user gives too."""
    words = [word for word in words if word != "--cfg=job"]  # an option, not an override
    typed = {word.partition("=")[0]: word.partition("=")[2] for word in words}
    kept = (w for w in base if w.partition("=")[0] not in typed)
    given = (GIVEN_TOO[k] for k, v in typed.items() if k in GIVEN_TOO and v != "null")
    return refusal([*kept, *given, *words]) if {*typed} != {"config"} else None  # no file is there


def foreign():
    """Names of other libraries with values."""
    for sections in tables().values():
        for section, rows in sections.items():
            for row in rows if section != "Metrics" else ():
                for name in row.theirs.split():
                    yield from (f"{name}={value}" for value in (*row.values, *OTHERS))


VALUES = (
    *("5", "1.5", "-1", "true", "null", "abc", "''", "[1]", "[1,2]", "[]", "{a: 1}", "'a b'"),
    *("[null]", "[null,1]", "[a b,c]", "1e30", "inf", "1:3", "1-99999", "0-2", "7..9"),
    *("1k", "0.5M", "50%", "1/2", "1/0", "1 000", "10**3"),
    *("none", "yes", "off", "2h", "30min", "1e19", "'5'", "'true'", "'null'", "[a,b]", "[true]"),
)


def wrong_values(base):
    """Every key with values that few of them have."""
    keys = [k for k, v in flat_keys(compose_checked(base).tree).items() if not isinstance(v, dict)]
    others = ("resume", "config", "mode", "checkpoint", "record", "test.function")
    return [
        f"{key}={NAMES.get(key, value) if value in TEXTS else value}"
        for key in keys
        if key not in others
        for value in VALUES
    ]


FEW = {
    "~logger.wandb": "logger=[]",
    "~algo.max_grad_norm": "algo.max_grad_norm=null",
    "target_update_interval_or_tau=0.01": "algo.target_update.tau=0.01",
    "target_update_interval_or_tau=200": "algo.target_update.updates=200",
    "target_update_interval=1000": "algo.target_update.env_steps=1000",
    "exploration_config.type=EpsilonGreedy": "algo/exploration=epsilon_greedy",
    "learning_rate=1e-3": "algo.optimizer.lr=1e-3",
    "target_network_frequency=500": "algo.target_update.env_steps=500",
    "hidden_layers=[64,64]": "algo.network.hidden_sizes=[64,64]",
    "hidden=128": "algo.network.hidden_sizes=[128]",
    "target_reward=475": "stop.value=475",
    "epsilon=0.1": "algo.exploration.end=0.1",
    "workers=4": "hardware.n_workers=4",
    "batch=64": "algo.batch_size=64",
    "eps=0.1": "algo.exploration.end=0.1",
    "test_every=1000": "test.interval=1000",
    "optim=adamw": "+algo.optimizer.decoupled_weight_decay=true",
    "num_steps=1000": "total_env_steps=1000",
    "episodes=100": "test.episodes=100",
    "output=out": "dataset.write=out",
    "output_folder=out": "hydra.run.dir=out",
    "time_limit=1h": "stop.hours=1",
    "time_limit=200": "env.max_episode_steps=200",
    "walltime=1:30:00": "stop.hours=1.5",
    "max_seconds=900": "stop.hours=0.25",
    "stop.minutes=30": "stop.hours=0.5",
    "wandb=off": "logger.wandb.mode=disabled",
    "use_cuda=0": "hardware=cpu",
    "gpu=0": "hardware=cuda",
    "buffer_warmup=1000": "algo.learning_starts=1000",
    "vec_env=subproc": "hardware=process",
    "tensorboard_log=./tb": "logger=[tensorboard]",
    "env_runners.num_env_runners=2": "hardware.n_workers=2",
    "replay_buffer_config.type=PrioritizedEpisodeReplayBuffer": "buffer=prioritized",
    "use_lstm=True": "algo/network=lstm",
    "replay_buffer_class=PrioritizedReplayBuffer": "buffer=prioritized",
}


@pytest.mark.parametrize("word", slow_except([*FEW][::3], FEW))
def test_a_suggestion_is_accepted(word):
    found = list(suggested(refusal([*DQN, word])))
    assert any(FEW[word] in words for words in found)
    assert not list(refused(DQN, word))


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("mode=optimize", "Type mode=tune."),
        ("mode=plots", "Type mode=report."),
        ("env=myenv.MyEnv", "Type env=gymnasium env.id=myenv:MyEnv."),
        ("env=envs/mine.py", "env=gymnasium env.id=envs.mine:ClassName."),
        ("experiment=exp", "Type experiment=./exp.yaml."),
        ("env=MyEnv", "env=gymnasium env.id=my_module:MyEnv."),
        ("env=seals/CartPole-v0", "Type env=gymnasium env.id=my_package:seals/CartPole-v0"),
        ("env=MiniGrid-Empty-5x5-v0", "Type env=gymnasium env.id=minigrid:MiniGrid-Empty-5x5-v0."),
        ("config=qmix", "The algorithm is algo=qmix."),
        ("seed=[1,2,3]", "Type -m seed=1,2,3."),
        ("algo=qmix_large", "Did you mean algo=qmix?"),
        ("algo=auto", "algo=auto: unknown algo 'auto'. Expected one of"),
        ("dry_run=true", "Type --cfg=job."),
        ("mode=demo", "Type mode=watch."),
        ("time=3600", "The limit is stop.hours, in hours."),
        ("anneal_lr=True", "'anneal_lr'. Instead: algo.lr_factors=[[0,1],[100000,0]]."),
        ("name=qmix_env=8", "needs both kinds of quotes: \"key='a b'\"."),
    ],
)
def test_files_classes_and_words_of_other_tools_are_answered(word, hint, own_folder):
    (own_folder / "exp.yaml").write_text("# @package _global_\nseed: 3\n")
    assert hint in refusal([word])


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("~algo.loss.gamma", "keys cannot be removed. Leave it out."),
        ("learning_rate=abc", "Here it is algo.optimizer.lr. algo.optimizer.lr=abc: expected"),
        ("early_stopping=true", "stop.metric and stop.value end a run"),
        ("epochs=10", "total_env_steps is the length of a run"),
        ("replay_buffer_class=HerReplayBuffer", "no hindsight replay"),
        ("callback=EvalCallback", "tests and checkpoints are built in"),
        ("normalize=True", "algo.network.normalize_obs=true"),
        ("frame_skip=4", "env.frame_skip is a key of env=atari."),
        ("pretrained=true", "checkpoint=PATH starts from trained weights"),
    ],
)
def test_what_would_be_refused_is_not_suggested(word, text):
    answer = refusal([*DQN, word])
    assert text in answer
    assert not list(suggested(answer))


def test_every_environment_that_has_the_key_itself_is_named():
    reward = refusal(["algo=qmix", "env=two_step", "common_reward=False"])
    assert "env.reward is a key of env=gymnasium, env=lbf, env=magent, env=mpe, env=p" in reward
    last_action = refusal(["algo=qmix", "env=two_step", "env.obs_last_action=true"])
    assert "is a key of env=smac, env=smacv2." in last_action


def test_a_folder_is_suggested():
    assert "Type hydra.run.dir=/tmp/r (" in refusal([*DQN, "local_results_path=/tmp/r"])


@pytest.mark.parametrize("base", [DQN, QMIX], ids=["dqn", "qmix"])
def test_a_suggested_form_of_a_value_is_accepted(base):
    words = wrong_values(base)[::97]
    assert not [each for word in words for each in refused(base, word)]


PER_EPISODE = ["algo.updates_per_episode=1", "algo.updates_per_env_step=null"]
FORMS = {
    "trust='5'": ["trust=['5']"],
    "report.ignore='true'": ["report.ignore=['true']"],
    "logger.wandb.tags='null'": ["logger.wandb.tags=null"],
    "report.rename='null'": ["report.rename=['null']"],
    "name=['5']": ["name='5'"],
    "name=['5',a]": ["-m", "name='5',a"],
    "env.frame_stack=[4,4]": ["env.frame_stack=4"],
    "load_step=''": ["load_step=null"],
    "algo.max_grad_norm=inf": ["algo.max_grad_norm=null"],
    "stop.hours=1:30:00": ["stop.hours=1.5"],
    "algo.updates_per_episode=[1]": PER_EPISODE,
    "algo.updates_per_episode='1'": PER_EPISODE,
}


@pytest.mark.parametrize("word", FORMS)
def test_a_value_is_suggested_as_it_has_to_be_written(word):
    assert [*suggested(refusal([*DQN, word]))] == [FORMS[word]]
    assert not list(refused(DQN, word))


OF_OTHERS = """
--lr 1e-3
--config my.yaml env=cartpole
--config=qmix --env-config=sc2 with env_args.map_name=2s3z t_max=100000
--env-id CartPole-v1 --total-timesteps 10000 --track
--algo dqn --env CartPole-v1 -n 5e4 --seed 3
algo=QMIX env=3m lr=1e-3
algo=DQN-v3 env=ALE/Breakout-v5
algo=mappo env=smac
algo=null env=cartpole
env=null
algo=[qmix] env=smac
algo.name=qmix env=smac
env.type=smac
seed=one
seed=
seed='"3"'
seed=[1,2,3]
seed=(1,2)
algo=dqn env=cartpole device=cuda:1
algo=dqn env=cartpole gamma=95% tau=0.005
algo=dqn env=cartpole total_env_steps=1,000,000
algo=dqn env=cartpole total_env_steps=1M,2M
algo=dqn env=cartpole algo.optimizer.lr=null
algo=dqn env=cartpole algo.network.hidden_sizes=128,128
algo=dqn env=cartpole policy_kwargs=dict(net_arch=[64,64])
algo=dqn env=cartpole n_envs=8 vec_env_cls=SubprocVecEnv
algo=dqn env=cartpole load_checkpoint=1000
algo=dqn env=cartpole exploration_fraction=0.1
algo=dqn env=cartpole target_update_interval=200 tau=0.005
algo=dqn env=cartpole logger=null
algo=dqn env=cartpole logger=[wandb,mlflow]
algo=dqn env=cartpole logger.wandb.tags=a,b
algo=dqn env=cartpole stop.hours=1:30
algo=dqn env=cartpole accumulated_episodes=50%
algo=qmix env=smac reward_scalarisation=sum
algo=qmix env=smac noisy=true
algo=qmix env=smac env.max_steps=100
algo=qmix env=smac model.fcnet_hiddens=[64,64]
algo=qmix env=smac algo.network.activation=tanh
algo=qmix env=smac hardware=subproc num_gpus_per_learner=1
--cfg=yaml
""".strip().splitlines()
"""Wrong commands of users of PyMARL, EPyMARL, Stable-Baselines3, CleanRL and RLlib."""


@pytest.mark.parametrize("line", slow_except(OF_OTHERS[::4], OF_OTHERS))
def test_a_wrong_command_is_answered_clearly_and_with_what_is_accepted(line, own_folder):
    words = shlex.split(line)
    with pytest.raises(UsageError) as caught:
        entry.run(words)
    text = str(caught.value) + entry.in_one(caught.value, words)
    assert not re.search(r"\bNone\b|\?\.|\.\.|got \.|there is no such key", text)
    base = [w for w in words if w in ("algo=dqn", "env=cartpole", "algo=qmix", "env=smac")]
    assert not [each for each in suggested(text) if when_typed(base, each)]
    for command in re.findall("^  rltrain(.*)$", text, re.M):
        read_line = read(shlex.split(command))
        for job in entry.list_jobs(read_line).values():
            compose_checked(job).settings()
        assert {*base} <= {*read_line.overrides}


TYPED = (
    *("env=cartpole", "lr=0.1", "algo.loss.gamma=0,9", "algo.loss.gamma=0.9,1", "seed=1,2"),
    *("algo=dqn.yaml", "algo:dqn", "algo=conf/algo/qmix.yaml", "map_name=3m", "mode=tune"),
    *("mode=match", "batch=64,128", "trials=5", "-m", "env=cartpole,acrobot", "time=2h"),
)
"""Words of wrong commands."""


@pytest.mark.parametrize(
    "words", slow_except([*combinations(TYPED, 3)][::31], combinations(TYPED, 3)), ids=" ".join
)
def test_one_command_is_accepted_and_leaves_nothing_out(words, own_folder):
    one = entry.in_one(NamesError("several"), words).partition("In one command:\n  rltrain")[2]
    line = read(shlex.split(one))
    for job in entry.list_jobs(line).values() if one else ():
        compose_checked(job).settings()
    assert not ("multirun" in line.switches and re.search("mode=", one))
    typed = {re.split("[=:]", word)[0] for word in words}
    typed &= {"algo", "env", "seed", "algo.loss.gamma"}
    assert not one or typed <= {word.partition("=")[0] for word in line.overrides}


@pytest.mark.slow
@pytest.mark.parametrize("base", [DQN, QMIX], ids=["dqn", "qmix"])
def test_every_suggestion_is_accepted(base):
    deletions = (f"~{key}" for key in flat_keys(compose_checked(base).tree))
    words = dict.fromkeys([*foreign(), *deletions, *wrong_values(base)])
    wrong = [each for word in words for each in refused(base, word)]
    assert len(words) > 1000
    assert not wrong


def mistyped():
    """Every key with an edit of each kind, with its own value or another."""
    others = ("1", "-1", "x", "0.5", "true", "null", "[1,2]", "{a: 1}", "")
    rng = random.Random(0)
    for base in (DQN, QMIX):
        known = flat_keys(compose_checked(base).plain)
        names = {*known, *(group.replace("/", ".") for group in SHIPPED.groups)}
        for key, value in known.items():
            own = [] if value is None or isinstance(value, dict) else [str(value)]
            for typo in (typo for typo in typos(key, rng) if typo not in names):
                near = [name for name in names if one_edit(typo, name)]
                if near == [key] and "" not in typo.split("."):
                    yield base, key, f"{typo}={rng.choice([*own, *others])}"


@pytest.mark.parametrize("every", [40, pytest.param(1, marks=pytest.mark.slow)])
def test_a_key_with_one_letter_wrong_is_answered_with_the_right_one(every):
    tried, wrong = [*mistyped()][::every], []
    for base, key, word in tried:
        named = {key, key.replace(".", "/")}
        if not any(name in refusal([*base, word]) for name in named) or [*refused(base, word)]:
            wrong.append(word)
    assert len(tried) > 1400 / every
    assert not wrong
