"""Typed keys that nothing reads: every row of the table warns where its condition holds, of keys
that were typed.
"""

from dataclasses import replace

import pytest

import rltrain
from rltrain.api import settings_from
from rltrain.config.combinations import table
from rltrain.config.overrides import is_below
from rltrain.main import run
from rltrain.mode.find_opponents import with_opponents
from rltrain.mode.messages.warnings import warnings
from rltrain.mode.train import built

SIZES = "hardware.n_envs=2 test.n_envs=1 test.episodes=2 logger.console=false hardware.threads=1"
CART = f"algo=dqn env=cartpole tuned=none buffer.capacity=2000 {SIZES}"
BEST = f"{CART} buffer=prioritized"
MINATAR = f"algo=dqn env=minatar buffer.capacity=2000 {SIZES}"
SMAC = f"algo=iql env=smac buffer.capacity=32 {SIZES}"
STATE = SMAC.replace("algo=iql", "algo=qmix")
SMACV2 = SMAC.replace("env=smac", "env=smacv2")
STAGS = f"algo=vdn env=stag_hunt buffer.capacity=32 {SIZES}"
STEP = f"env=two_step buffer.capacity=64 {SIZES}"
SPARSE = f"{SMAC} env.reward_sparse=true"
PIXELS = "env=gymnasium env.id=pixels:Pixels algo/network=conv algo.network.filters=[[4,3,1]]"
GAME = {"backend": "sc2"}
CASES = [  # typed, where nothing reads it, and where something does
    ("dataset.shard_bytes=100 dataset.max_bytes=100", CART, f"{CART} dataset.write=d"),
    ("dataset.held_out=0.5", CART, f"{STEP} dataset.read=DATA"),
    ("algo.exploration.end=0.5", f"{STEP} dataset.read=DATA", STEP),
    ("env.time_limit=terminal", f"{STAGS} algo.batch_size=2 dataset.read=HUNT", STAGS),
    ("algo.learning_starts=10", f"{STEP} dataset.read=DATA", STEP),
    ("stop.mode=min", CART, f"{CART} stop.metric=test/return_mean stop.value=1"),
    ("self_play.pool_size=3 self_play.interval=9", SMAC, f"{SMAC} env.opponent=self"),
    ("env.opponent_epsilon=0.1", f"{SMAC} env.opponent=random", f"{SMAC} env.opponent=self"),
    ("test.interval=200", f"{CART} total_env_steps=100", f"{CART} total_env_steps=200"),
    ("save.interval=200", f"{CART} total_env_steps=100", f"{CART} total_env_steps=200"),
    ("log.interval=200", f"{CART} total_env_steps=100", f"{CART} total_env_steps=200"),
    ("test.video_interval=200", f"{CART} total_env_steps=100", f"{CART} total_env_steps=200"),
    ("test.n_envs=4", CART, f"{CART} test.episodes=4"),
    ("logger.wandb.project=x logger.wandb.tags=[x]", f"{CART} logger.wandb.mode=disabled", CART),
    ("algo.exploration.env_steps=9", f"{CART} algo.exploration.end=1", CART),
    ("algo.target_update.tau=0.5", f"algo=pqn env=cartpole {SIZES}", CART),
    ("algo.loss.temperature=0.1 algo.loss.floor=-2", CART, f"{CART} algo/loss=munchausen"),
    ("algo.network.agent_id=false", CART, STEP),
    ("algo.mixer.hypernet_dim=8", f"algo=qmix {STEP} algo.mixer.hypernet_layers=1", STEP),
    (
        "algo.mixer.kernel_dim=8",
        f"{STEP} algo=qplex",
        f"{STEP} algo=qplex algo.mixer.kernel_layers=2",
    ),
    ("buffer.agents=independent", CART, f"algo=iql {STEP} buffer=sequence buffer.capacity=640"),
    ("buffer.alpha=0.1 buffer.beta_end=0.5", CART, BEST),
    ("buffer.first_hidden=stored", CART, f"algo=drqn env=cartpole buffer.capacity=2000 {SIZES}"),
    ("buffer.beta_end=0.9", f"{BEST} buffer.alpha=0", BEST),
    ("buffer.beta_env_steps=9", f"{BEST} buffer.beta_end=0.4", BEST),
    ("buffer.eta=0.5", BEST, f"{BEST} buffer.sequence_length=4"),
    ("env.reward=mean", CART, f"algo=vdn env=mpe buffer.capacity=32 {SIZES}"),
    ("env.channels=last", CART, f"algo=dqn {PIXELS} buffer.capacity=2000 {SIZES}"),
    ("env.compiled=false", f"{CART} env.id=Taxi-v4", CART),
    ("env.difficulty_ramping=false", MINATAR, f"{MINATAR} env.game=asterix"),
    ("env.price_seed=3", f"algo=dqn env=trading env.prices=PRICES {SIZES}", f"env=trading {SIZES}"),
    ("env.reward_stag=3", f"{STAGS} env.n_stags=0 env.n_hares=1", STAGS),
    ("env.reward_hare=3", STAGS, f"{STAGS} env.n_hares=1"),
    ("env.map_name=8m", f"{SMAC} env.map_file=MAP", SMAC),
    ("env.start_jitter=0.5", SMAC, f"{SMAC} env.start=jittered"),
    ("env.max_restarts=3 env.debug=true env.replay_dir=x", SMAC, GAME),
    ("env.difficulty=3", SMAC, None),
    ("env.heuristic_rest=true", SMAC, f"{SMAC} env.heuristic_ai=true"),
    ("env.obs_own_health=false", SMAC, f"{SMAC} env.obs_all_health=false"),
    ("env.state_last_action=false", f"{STATE} env.obs_instead_of_state=true", STATE),
    ("env.state_last_action=false", SMAC, STATE),
    ("env.reward_defeat=-1 env.reward_only_positive=false", SPARSE, SMAC),
    ("env.reward_win=100", f"{SPARSE} env.reward_scale=false", SPARSE),
    ("env.reward_negative_scale=1", SMAC, f"{SMAC} env.reward_only_positive=false"),
    ("env.reward_scale_rate=10", f"{SMAC} env.reward_scale=false", SMAC),
    ("env.num_fov_actions=8", SMACV2, f"{SMACV2} env.conic_fov=true"),
    ("env.min_attack_range=3", f"{SMACV2} env.use_unit_ranges=false", SMACV2),
    ("env.prob_obs_enemy=0.5", f"{SMACV2} env.fully_observable=true", SMACV2),
]
FILES = {
    "close.csv": "close\n" + "\n".join(str(100 + day % 7) for day in range(3000)),
    "mine.yaml": """
name: duel
limit: 20
allies: [{unit: marine, count: 2, at: [10, 10]}]
enemies: [{unit: marine, count: 2, at: [20, 10]}]
""",
    "pixels.py": """
import gymnasium, numpy
class Pixels(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 255, (10, 10, 3), numpy.uint8)
    action_space = gymnasium.spaces.Discrete(2)
""",
}


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    """Some episodes of the two-step game and of stag hunt."""
    folder = tmp_path_factory.mktemp("datasets")
    for name, words in (("DATA", STEP), ("HUNT", STAGS)):
        words = f"{words} dataset.write={folder / name}".split()
        trainer = rltrain.make_trainer(words, run_dir=folder / f"of_{name}")
        trainer.run(1000 if name == "HUNT" else 200)
        trainer.close()
    return folder


@pytest.fixture
def warned(own_folder, datasets):
    """What is warned of before a run begins, and before one that types nothing."""
    for name, text in FILES.items():
        (own_folder / name).write_text(text)

    def warned(words, played=None):
        words = words.replace("DATA", f"{datasets / 'DATA'}").replace(
            "HUNT", f"{datasets / 'HUNT'}"
        )
        words = words.replace("PRICES", str(own_folder / "close.csv"))
        words = words.replace("MAP", str(own_folder / "mine.yaml")).split()
        settings = with_opponents(settings_from(words))
        trainer = built(settings, own_folder / "run")
        if played is not None:
            trainer.rollout.about = played
        said = [[*warnings(s, trainer)] for s in (settings, replace(settings, typed=frozenset()))]
        trainer.close()
        return said

    return warned


def test_every_row_of_the_table_has_a_case():
    assert len(CASES) == len(table()["unread"])


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    ("row", "typed", "unread", "read"),
    [(row, *case) for row, case in zip(table()["unread"], CASES, strict=False)],
    ids=[typed for typed, *_ in CASES],
)
def test_a_typed_key_that_nothing_reads_is_warned_of(row, typed, unread, read, warned):
    if "env=minatar" in unread:
        pytest.importorskip("minatar")
    keys = sorted(word.partition("=")[0] for word in typed.split())
    assert all(is_below(key, row["key"].split()) for key in keys)
    said, untyped = warned(f"{unread} {typed}")
    shown = [line.partition(" has no effect here: ") for line in said]
    assert [key for key, said, _ in shown if said and key in keys] == keys
    why = row["why"].partition("{")[0]
    assert all(text.startswith(why) for key, _, text in shown if key in keys)
    assert "has no effect" not in " ".join(untyped)
    if read is not None:
        words, played = (unread, read) if read is GAME else (read, None)
        said, _ = warned(f"{words} {typed}", played)
        assert not any(line.startswith(tuple(f"{key} has no" for key in keys)) for line in said)


@pytest.mark.parametrize(("total", "warns"), [(15, True), (16, False)])
def test_an_iteration_that_is_longer_than_the_run_is_warned_of(total, warns, warned):
    words = f"{STEP} algo.steps_per_collect=8 total_env_steps={total}"
    said = [line for line in warned(words)[0] if "one iteration makes 16 env steps" in line]
    assert len(said) == warns


SCRIPTED = "env=smac env.map_name=3m hardware.threads=1 env.start_jitter=0.5"
PLAYS = f"algo=scripted algo.policy=closest {SCRIPTED}"


@pytest.mark.parametrize(
    ("command", "key"),
    [
        ("mode=evaluate checkpoint=RUN test.episodes=2 test.n_envs=3", "test.n_envs"),
        ("mode=evaluate checkpoint=RUN load_step=all dataset.max_bytes=9", "dataset.max_bytes"),
        (f"mode=evaluate {PLAYS} test.episodes=1", "env.start_jitter"),
        (f"mode=watch {PLAYS} test.episodes=1", "env.start_jitter"),
        (
            f"mode=match checkpoints=[closest,builtin] match.battles=2 {SCRIPTED}",
            "env.start_jitter",
        ),
        ("resume=RUN total_env_steps=165 stop.mode=min", "stop.mode"),
    ],
)
def test_other_modes_say_once_which_keys_they_do_not_read(command, key, trained, capsys, caplog):
    assert run(command.replace("RUN", str(trained)).split()) == 0
    printed = "".join(capsys.readouterr())
    said = printed if key in printed else caplog.text
    assert said.count(" has no effect here") == said.count(f"{key} has no effect here: ") == 1
