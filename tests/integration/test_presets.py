"""Every preset composes with values that its parts accept, and says where it comes from."""

import re

import pytest
import yaml

import rltrain
from rltrain.api import settings_from
from rltrain.config.catalog import CONF, SHIPPED
from rltrain.config.overrides import pick
from tests.helpers import weights
from tests.marks import slow_except

FOLDER = CONF / "experiment"
PRESETS = sorted(p.relative_to(FOLDER).with_suffix("").as_posix() for p in FOLDER.rglob("*.yaml"))
PUBLISHED = {
    "zoo": r"published mean return -?\d",
    "cleanrl": r"published training return -?\d",
    "atari": r"ublished .*\d{4}",
}
"""What the head of a preset says, by folder."""


def head(preset):
    lines = (FOLDER / f"{preset}.yaml").read_text(encoding="utf-8").partition("defaults:")[0]
    return " ".join(lines.splitlines()[1:])


@pytest.mark.parametrize(
    "preset", slow_except(("cleanrl/c51_acrobot", "pymarl2/qmix", "minatar/dqn"), PRESETS)
)
def test_every_preset_composes(preset):
    settings = settings_from([f"experiment={preset}"])
    assert (settings.choices["experiment"], settings.choices["tuned"]) == (preset, "none")
    assert settings.run.total_env_steps >= settings.run.test.interval
    assert repeated(preset, settings) == [], "presets hold deviations only"


def repeated(preset, settings):
    """The keys that a preset sets to the values that its choices have by themselves."""
    chosen = {
        g: o
        for g, o in settings.choices.items()
        if g in SHIPPED.groups and o not in ("default", None)
    }
    own = settings_from([f"{g}={o}" for g, o in chosen.items() if g != "experiment"]).plain
    keys = SHIPPED.file("experiment", preset).keys
    return [k for k in keys if pick(settings.plain, k) == pick(own, k)]


def test_every_preset_says_what_it_is_and_what_was_published():
    for preset in PRESETS:
        assert len(head(preset)) > 40, preset
        assert re.search(PUBLISHED.get(preset.partition("/")[0], ""), head(preset)), preset


def test_one_file_serves_every_game():
    settings = settings_from(["experiment=minatar/dqn", "env.game=freeway"])
    assert settings.nodes["env"].kwargs["game"] == "freeway"
    assert settings.nodes["algo.network"].kwargs["filters"] == [[16, 3, 1]]


def test_a_preset_may_stand_on_another():
    settings = settings_from(["experiment=cleanrl/c51_acrobot"])
    assert (settings.choices["algo"], settings.choices["env"]) == ("c51", "acrobot")
    assert settings.nodes["algo.distribution"].kwargs == {"atoms": 101, "v_min": -100, "v_max": 100}


def test_what_is_typed_wins_over_a_preset():
    settings = settings_from(["experiment=rllib/dqn", "env=acrobot", "algo.batch_size=7"])
    assert settings.nodes["env"].kwargs["id"] == "Acrobot-v1"
    assert (settings.algo.batch_size, settings.nodes["buffer"].kwargs["beta_end"]) == (7, 0.4)


SMACV2 = {  # every line of env_args of SMACv2's sc2_gen_*.yaml that is a key of env=smacv2
    "conic_fov": False, "num_fov_actions": 12, "obs_own_pos": True, "use_unit_ranges": True,
    "min_attack_range": 2, "prob_obs_enemy": 1.0, "action_mask": True, "step_mul": 8,
    "move_amount": 2, "obs_all_health": True, "obs_own_health": True, "obs_last_action": False,
    "obs_pathing_grid": False, "obs_terrain_height": False, "obs_instead_of_state": False,
    "obs_timestep_number": False, "state_last_action": True, "state_timestep_number": False,
    "reward_sparse": False, "reward_only_positive": True, "reward_death_value": 10,
    "reward_win": 200, "reward_defeat": 0, "reward_negative_scale": 0.5, "reward_scale": True,
    "reward_scale_rate": 20,
}  # fmt: skip


def test_smacv2s_preset_plays_the_battles_of_its_authors_curves():
    """Defect: it had the conic field of view of an earlier program; QMIX won 1 to 6%, not 40 to
    60%."""
    env = settings_from(["experiment=pymarl2/smacv2"]).nodes["env"].kwargs
    assert {key: env[key] for key in SMACV2} == SMACV2
    assert (env["fixed_max_reward"], env["zero_enemy_block"]) == (True, False)


@pytest.mark.slow
def test_pymarls_presets_play_an_episode_with_the_parameters_of_its_beginning(tmp_path):
    """Defect: up to seven steps of an episode were played before the update that PyMARL makes
    between two episodes."""
    overrides = ["experiment=pymarl/vdn", "env=two_step", "algo.batch_size=2", "test.episodes=1"]
    overrides += ["hardware.threads=1", "logger.wandb.mode=disabled", "buffer.capacity=64"]
    trainer = rltrain.make_trainer(overrides, run_dir=tmp_path)
    policy, played = trainer.rollout.policy, [set()]
    act = policy.act

    def recording(obs, avail_actions, last, clock):
        if last[0]:
            played.append(set())
        else:
            played[-1].add(weights(trainer).sum().item())
        return act(obs, avail_actions, last, clock)

    policy.act = recording
    trainer.run(20)
    assert len(set().union(*played)) > 5  # it learns meanwhile
    assert all(len(different) <= 1 for different in played)


EPYMARL = {  # hidden units, learning rate, network, test epsilon, epsilon's env steps, targets
    "matrix/iql": (128, 3e-4, "mlp", 0, 50_000, 200),
    "matrix/vdn": (64, 1e-4, "mlp", 0, 200_000, 0.01),
    "matrix/qmix": (64, 3e-4, "mlp", 0, 200_000, 0.01),
    "mpe/iql": (128, 5e-4, "mlp", 0, 200_000, 0.01),
    "mpe/vdn": (128, 5e-4, "mlp", 0, 50_000, 200),
    "mpe/qmix": (64, 5e-4, "gru", 0, 200_000, 0.01),
    "smac/iql": (128, 5e-4, "gru", 0.05, 50_000, 200),
    "smac/vdn": (128, 5e-4, "gru", 0, 50_000, 200),
    "smac/qmix": (128, 5e-4, "gru", 0.05, 50_000, 200),
    "lbf/iql": (128, 3e-4, "gru", 0.05, 200_000, 200),
    "lbf/vdn": (128, 3e-4, "gru", 0, 200_000, 0.01),
    "lbf/qmix": (64, 3e-4, "gru", 0.05, 200_000, 0.01),
    "rware/iql": (64, 5e-4, "mlp", 0.05, 50_000, 0.01),
    "rware/vdn": (64, 5e-4, "mlp", 0.05, 50_000, 0.01),
    "rware/qmix": (64, 5e-4, "mlp", 0.05, 50_000, 0.01),
}
"""The published settings (Papoudakis et al. 2021, appendix): 200 is a copy after so many updates,
0.01 the coefficient of soft updates; rewards are standardized everywhere."""


@pytest.mark.parametrize("name", EPYMARL)
def test_presets_of_epymarl_have_its_published_settings(name):
    preset = yaml.safe_load((FOLDER / f"epymarl/{name}.yaml").read_text("utf-8"))
    chosen = {group: choice for each in preset["defaults"] for group, choice in each.items()}
    algo, network = preset["algo"], chosen.get("override /algo/network", "gru")
    units = algo["network"]
    (hidden,) = set(units["hidden_sizes"] if network == "mlp" else [units.get("hidden_dim", 64)])
    target = algo["target_update"]
    assert (
        hidden,
        float(algo.get("optimizer", {}).get("lr", 5e-4)),
        network,
        preset["test"].get("epsilon", 0),
        algo.get("exploration", {}).get("env_steps", 50_000),
        target.get("tau", target["updates"]),
    ) == EPYMARL[name]
    assert chosen["override /algo/optimizer"] == "adam"
    assert chosen["override /algo"] == name.partition("/")[2]
    assert (algo["reward_norm"], preset["hardware"]["n_envs"]) == ("standardize", 1)
    steps = 4_050_000 if name.startswith(("smac", "rware")) else 2_050_000
    tests = (preset["test"]["interval"], preset["test"]["episodes"])
    assert (preset["total_env_steps"], *tests) == (steps, 50_000, 100)


@pytest.mark.parametrize("algo", ["qmix", "vdn"])
def test_presets_of_pymarl2_have_its_published_settings(algo):
    preset = yaml.safe_load((FOLDER / f"pymarl2/{algo}.yaml").read_text("utf-8"))
    found = preset["algo"]
    assert (found["batch_size"], found["updates_per_episode"]) == (128, 1 / 8)
    assert (found["loss"]["trace"], float(found["optimizer"]["lr"])) == (0.6, 1e-3)
    assert (found["exploration"]["env_steps"], preset["total_env_steps"]) == (100_000, 10_050_000)
    assert {"override /algo": algo} in preset["defaults"]
    assert {"override /algo/optimizer": "adam"} in preset["defaults"]
