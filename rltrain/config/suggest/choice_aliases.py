"""Names of other libraries for algorithms, environments and parts, and what to choose here.

A row is looked up only for a name that is no choice of its group, so rows of what is added later
do no harm.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Choice(NamedTuple):
    """Names that are no choice here, what to type instead, and why if it is not the same."""

    names: str  # separated by blanks, without case, blanks, hyphens and underscores
    ours: str
    why: str = ""


POLICY = "is an actor-critic method, and rltrain trains value-based methods only"
CONTINUOUS = "is for continuous actions, and rltrain trains value-based methods with discrete ones"
ABSENT = "is not part of this version"
ATARI_GAMES = """
alien amidar assault asterix asteroids atlantis bank_heist battle_zone beam_rider berzerk bowling
boxing breakout centipede chopper_command crazy_climber defender demon_attack double_dunk enduro
fishing_derby freeway frostbite gopher gravitar hero ice_hockey jamesbond kangaroo krull
kung_fu_master montezuma_revenge ms_pacman name_this_game phoenix pitfall pong private_eye qbert
riverraid road_runner robotank seaquest skiing solaris space_invaders star_gunner surround tennis
time_pilot tutankham up_n_down venture video_pinball wizard_of_wor yars_revenge zaxxon
"""
MINATAR_GAMES = ("breakout", "asterix", "freeway", "seaquest", "space_invaders")
CHOICES: Mapping[str, tuple[Choice, ...]] = {
    "algo": (
        Choice("ppo appo ppg trpo a2c a3c acer impala vpg reinforce pg", "algo=pqn", POLICY),
        Choice("ippo iac ia2c", "algo=iql", POLICY),
        Choice(
            "mappo maa2c mapg happo hatrpo coma maddpg facmac lica dop pac", "algo=qmix", POLICY
        ),
        Choice("sac td3 ddpg d4pg naf tqc crossq redq ars", "algo=dqn", CONTINUOUS),
        Choice(
            "muzero dreamer dreamerv3 efficientzero agent57 ngu bbf rlpd", "algo=rainbow", ABSENT
        ),
        Choice("cql bcq bc iqlearn decisiontransformer", "algo=dqn dataset.read=FOLDER", ABSENT),
        Choice("ddqn doubledqn doubleq q qlearning deepq deepqlearning dql nqn", "algo=dqn"),
        Choice("duelingdqn dueling d3qn duelingddqn", "algo=dqn algo.network.dueling=true"),
        Choice("per perdqn prioritizeddqn prioritiseddqn", "algo=dqn buffer=prioritized"),
        Choice("nstepdqn multistepdqn", "algo=dqn algo.loss.n_step=3"),
        Choice("noisynet noisydqn", "algo=noisy"),
        Choice("apex apexdqn", "algo=rainbow", ABSENT),
        Choice("recurrentdqn dqnlstm", "algo=drqn", ABSENT),
        Choice("mdqn munchausen", "algo=munchausen_dqn"),
        Choice("qr", "algo=qrdqn"),
        Choice("categorical categoricaldqn distributional", "algo=c51"),
        Choice("implicitquantile", "algo=iqn"),
        Choice("qlambda", "algo=pqn"),
        Choice("qmixbeta qmixsmac qmixparallel", "algo=qmix"),
        Choice("vdnbeta", "algo=vdn"),
        Choice("iqlbeta independent independentqlearning", "algo=iql"),
        Choice("qmixns vdnns iqlns", "algo=iql", "has a network per agent, which " + ABSENT[3:]),
        Choice("dmaq", "algo=qplex"),
        Choice("dmaqqatten", "algo=qplex_attention"),
        Choice("qtranbase", "algo=qtran"),
        Choice("wqmix weightedqmix", "algo=ow_qmix"),
        Choice("qtranalt", "algo=qtran", ABSENT),
        Choice("maven roma rode cds", "algo=qmix", ABSENT),
        Choice("random", "mode=evaluate algo=scripted algo.policy=random"),
        Choice("heuristic", "mode=evaluate algo=scripted algo.policy=heuristic"),
    ),
    "env": (
        Choice("sc2 starcraft starcraft2 starcraftii sc2beta smacv1 smacbeta", "env=smac"),
        Choice("sc2v2 smac2 sc2genprotoss sc2genterran sc2genzerg", "env=smacv2"),
        Choice("gym gymma", "env=gymnasium env.id=CartPole-v1"),
        Choice("onestepmatrixgame matrixgame matrixgames nstepmatrix", "env=matrix"),
        Choice("twostepgame twostep", "env=two_step"),
        Choice("lander lunar", "env=lunarlander"),
        Choice("pole cart", "env=cartpole"),
        Choice("car", "env=mountaincar"),
        Choice("ale", "env=atari"),
        Choice("stocks stock finance", "env=trading"),
        Choice("lbforaging foraging", "env=lbf"),
        Choice("warehouse", "env=rware"),
        Choice("mpe2 simplespread spread", "env=mpe"),
        Choice("simpletag tag predator", "env=mpe env.game=tag"),
        Choice("simpleadversary", "env=mpe env.game=adversary"),
        Choice("simplereference", "env=mpe env.game=reference"),
        Choice("simplespeakerlistener", "env=mpe env.game=speaker_listener"),
        Choice("magent2", "env=magent"),
        Choice("parallel aec pz", "env=pettingzoo"),
        Choice(
            "overcooked hanabi football gfootball googlefootball vmas melee jaxmarl smax",
            "env=pettingzoo env.id=my_module:MyParallelEnv",
            ABSENT,
        ),
        Choice(
            "mujoco mamujoco halfcheetah hopper walker2d ant humanoid pendulum reacher swimmer "
            "pusher carracing bipedalwalker mountaincarcontinuous lunarlandercontinuous",
            "env=cartpole",
            "has continuous actions, and rltrain learns discrete ones",
        ),
        Choice("taxi", "env=gymnasium env.id=Taxi-v4"),
        Choice("frozenlake", "env=gymnasium env.id=FrozenLake-v1"),
        Choice("cliffwalking", "env=gymnasium env.id=CliffWalking-v1"),
        Choice("blackjack", "env=gymnasium env.id=Blackjack-v1"),
        Choice(
            "procgen minigrid crafter nethack", "env=gymnasium env.id=my_package:MyEnv-v0", ABSENT
        ),
    ),
    "buffer": (
        Choice("per prioritizedreplay proportional prioritizedreplaybuffer", "buffer=prioritized"),
        Choice("uniform replaybuffer", "buffer=replay"),
        Choice("episodes replayepisode episodereplay", "buffer=episode"),
        Choice("prioritizedepisode perepisode", "buffer=episode", ABSENT),
        Choice("rollout rolloutbuffer none", "buffer=on_policy"),
        Choice("recurrent sequences", "buffer=sequence"),
        Choice("r2d2 recurrentper persequence prioritisedsequence", "buffer=prioritized_sequence"),
    ),
    "hardware": (
        Choice("gpu nvidia cuda0", "hardware=cuda"),
        Choice("mps metal tpu xpu rocm", "hardware=auto", ABSENT),
        Choice("process processes ray ddp", "hardware=auto", ABSENT),
        Choice("default", "hardware=auto"),
    ),
    "logger": (
        Choice("wandb", "logger.wandb.mode=online"),
        Choice("none off false disabled null", "logger.wandb.mode=disabled"),
        Choice("tensorboard csv trackio mlflow", "logger=default", ABSENT),
        Choice("console stdout", "logger.console=true"),
    ),
    "algo/network": (
        Choice("rnn lstm recurrent", "algo/network=gru"),
        Choice("cnn convolutional nature impala", "algo/network=conv"),
        Choice("ff fc dense feedforward linear", "algo/network=mlp"),
    ),
    "algo/mixer": (
        Choice("vdn additive", "algo/mixer=sum"),
        Choice("none null iql false", "algo/mixer=independent"),
        Choice("monotonic", "algo/mixer=qmix"),
        Choice("dmaq", "algo/mixer=qplex"),
        Choice("dmaqqatten", "algo/mixer=qplex_attention"),
    ),
    "algo/optimizer": (
        Choice("adamw", "algo/optimizer=adam +algo.optimizer.weight_decay=0.01"),
        Choice("rms", "algo/optimizer=rmsprop"),
        Choice("sgd momentum", "algo/optimizer=rmsprop", ABSENT),
    ),
    "algo/exploration": (
        Choice("egreedy epsgreedy epsilon linear", "algo/exploration=epsilon_greedy"),
        Choice("softmax softq", "algo/exploration=boltzmann"),
        Choice("noisy none null false", "algo/exploration=greedy"),
    ),
    "algo/loss": (
        Choice("mse l2 dqn doubleq", "algo/loss=td"),
        Choice("huber smoothl1", "algo.loss.huber=1.0"),
        Choice("lambda qlambda tdlambda", "algo/loss=q_lambda"),
        Choice("c51 distributional", "algo/loss=categorical"),
        Choice("qr quantileregression qrdqn iqn", "algo/loss=quantile"),
    ),
    "algo/distribution": (
        Choice("c51", "algo/distribution=categorical"),
        Choice("qr qrdqn", "algo/distribution=quantile"),
        Choice("iqn", "algo/distribution=implicit_quantile"),
        Choice("none null mean", "algo/distribution=scalar"),
    ),
    "experiment": (),
}
"""What to choose for a name that a group does not have."""
VALUES: Mapping[str, Mapping[str, str]] = {
    "mode": {
        "eval": "evaluate", "test": "evaluate", "evaluation": "evaluate", "testing": "evaluate",
        "play": "evaluate", "enjoy": "evaluate", "record": "evaluate", "render": "evaluate",
        "training": "train", "learn": "train", "fit": "train", "run": "train",
        "check": "doctor", "diagnose": "doctor", "onnx": "export", "save": "export",
        "pymarl": "import", "convert": "import",
    },
    "hardware.device": {"gpu": "cuda", "cuda:0": "cuda", "nvidia": "cuda", "default": "auto"},
    "logger.wandb.mode": {
        "on": "online", "true": "online", "off": "disabled", "none": "disabled",
        "null": "disabled", "false": "disabled", "local": "offline", "dryrun": "offline",
    },
    "env.backend": {"starcraft2": "sc2", "game": "sc2", "builtin": "native", "own": "native"},
    "env.rules": {"starcraft2": "sc2", "smac": "sc2", "lite": "smaclite"},
    "env.time_limit": {"truncate": "bootstrap", "terminate": "terminal", "end": "terminal"},
    "buffer.storage": {"half": "float16", "fp16": "float16", "fp32": "float32"},
    "buffer.sampler": {"prioritized": "proportional", "random": "uniform", "per": "proportional"},
    "buffer.agents": {"false": "lockstep", "together": "lockstep", "separate": "independent"},
}  # fmt: skip
"""What is meant by a value that an enumeration does not have."""
