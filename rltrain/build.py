"""The only place where configuration becomes objects, and objects meet."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import nn

import rltrain
from rltrain.algo import kernels
from rltrain.algo.actor import Actor
from rltrain.algo.exploration import Exploration, FixedEpsilon
from rltrain.algo.learner import Learner
from rltrain.algo.network.distribution import Distribution
from rltrain.algo.policy import Policy
from rltrain.callback import (
    Callback,
    Callbacks,
    DrawCurve,
    Health,
    Log,
    ObsStatistics,
    Save,
    Stop,
    Test,
)
from rltrain.common import checkpoint
from rltrain.common.conformance import conform
from rltrain.common.seeding import (
    ACTOR_STREAM,
    BUFFER_STREAM,
    ENV_STREAM,
    NETWORK_STREAM,
    NOISE_STREAM,
    POLICY_STREAM,
    TEST_POLICY_STREAM,
    generator,
    seed_key,
)
from rltrain.config.schema import Settings, locate
from rltrain.hardware.device import (
    default_threads,
    resolve_device,
    seed_networks,
    set_threads,
)
from rltrain.hardware.rollout import EpisodeSeeder, Rollout, TestSeeds
from rltrain.interfaces import (
    Agents,
    Buffer,
    Loss,
    Mixer,
    Optimizer,
    TargetUpdates,
    VectorEnv,
)
from rltrain.logger.loggers import Loggers
from rltrain.offline.recorder import Player, RecordedEnv, Recording
from rltrain.offline.writer import Writer
from rltrain.trainer import (
    CONFIG,
    MODEL,
    SPEC,
    TestFunction,
    Trainer,
    check_fits,
)
from rltrain.types import EnvSpec, Model


def prepare_machine(settings: Settings) -> torch.device:
    """Device and threads of this process, as ``hardware`` says.

    Raises:
        ValueError: ``hardware=cuda`` without a GPU.
    """
    device = resolve_device(settings.hardware.device)
    set_threads(n_threads(settings))
    return device


def announce_compilation() -> None:
    """Say from now on when something is compiled."""
    from rltrain.common import compilation  # imports numba, which not every use of us needs

    compilation.announce_compilation()


def n_threads(settings: Settings) -> int:
    """Torch threads: as set, or by the kind of network."""
    network = settings.nodes.get("algo.network")
    recurrent = network is not None and "hidden_dim" in network.kwargs
    return settings.hardware.threads or default_threads(recurrent)


def build_env(
    settings: Settings, n_envs: int, *, training: bool, scripted: bool = False
) -> VectorEnv:
    """Environment copies in lock-step, for learning, for tests, or for a player that is a script of
    theirs.
    """
    announce_compilation()
    node = settings.nodes["env" if training else "test.env"]
    env = node.build(
        n_envs=n_envs,
        n_threads=n_threads(settings),
        training=training,
        scripted=scripted,
        record=settings.run.record,
    )
    if hasattr(env, "action_space") and not hasattr(env, "n_envs"):
        raise ValueError(
            f"{type(env).__name__} (env) is a single environment: expected {n_envs} in lock-step. "
            "Type env=gymnasium env.id=module:Id for one that Gymnasium has registered, or "
            "hand its class to rltrain.make_trainer(…, env=…)."
        )
    return cast(VectorEnv, conform(env, VectorEnv, "env"))


def need_same_sizes(spec: EnvSpec, test_spec: EnvSpec) -> None:
    """ValueError unless the environments of tests look like those of training."""
    for name, ours in spec_record(spec).items():
        theirs = spec_record(test_spec)[name]
        if name not in ("max_steps", "layout", "reports_win") and ours != theirs:
            raise ValueError(
                f"test.env makes environments that do not fit the network: {name} is {theirs} in "
                f"tests, {ours} in training. Leave out the options that change it."
            )


def build_test_function(settings: Settings) -> TestFunction | None:
    """What ``test.function`` names: a function, with keywords of its own, or an object."""
    node = settings.nodes.get("test.function")
    if node is None:
        return None
    call: Any = locate(node.target)
    found = call(**node.kwargs) if inspect.isclass(call) else partial(call, **node.kwargs)
    if not callable(found):
        raise ValueError(
            f"test.function={node.target} cannot be called: expected a function of (trainer, "
            "episodes), or a class whose objects are called so."
        )
    return cast(TestFunction, found)


def build_agents(settings: Settings, spec: EnvSpec) -> nn.Module:
    """The network that acts.

    Raises:
        ValueError: it lacks what agents must have, or cannot say what the distribution asks for.
    """
    node = settings.nodes["algo.network"]
    distribution = build_distribution(settings)
    agents = conform(
        module(node.build(spec=spec, distribution=distribution), "algo.network"),
        Agents,
        "algo.network",
    )
    if not is_scalar(distribution) and not node.asks_for("distribution"):
        raise ValueError(
            f"{type(agents).__name__} (algo.network) says expected returns only: its constructor "
            f"asks for no distribution, but algo.distribution is {type(distribution).__name__}. "
            "Type algo/distribution=scalar algo/loss=td."
        )
    if kernels.chosen(settings.hardware.kernels) == "compiled":
        announce_compilation()
        kernels.compile_agents(agents)
    return cast(nn.Module, agents)


def build_distribution(settings: Settings) -> Any:
    """What the network says about an action's return."""
    return conform(settings.nodes["algo.distribution"].build(), Distribution, "algo.distribution")


def is_scalar(distribution: Distribution) -> bool:
    """Whether a distribution is the expected return alone."""
    return distribution.n_outputs == 1 and not distribution.implicit


def module(part: Any, name: str) -> nn.Module:
    """A part that has parameters of its own.

    Raises:
        ValueError: it is no ``torch.nn.Module``.
    """
    if not isinstance(part, nn.Module):
        raise ValueError(f"{type(part).__name__} ({name}): expected a torch.nn.Module.")
    return part


def build_model(settings: Settings, spec: EnvSpec, device: torch.device) -> Model:
    """Agents and mixer with their own seeded initialization, on their device.

    Raises:
        ValueError: there is nothing to learn in them.
    """
    with seed_networks(seed_key(settings.run.seed, NETWORK_STREAM)):
        agents = build_agents(settings, spec)
        mixer = module(settings.nodes["algo.mixer"].build(spec=spec), "algo.mixer")
    model = Model(agents, conform(mixer, Mixer, "algo.mixer"))
    if not any(True for _ in model.parameters()):
        raise ValueError(
            f"{type(agents).__name__} (algo.network) and {type(mixer).__name__} (algo.mixer) have "
            "no parameters, so nothing can be learned."
        )
    return model.to(device)


def build_loss(settings: Settings, spec: EnvSpec, model: Model) -> Loss:
    """The loss, for these agents and this mixer.

    Raises:
        ValueError: it lacks what a loss must have, or does not fit the mixer or the distribution.
    """
    node, distribution = settings.nodes["algo.loss"], build_distribution(settings)
    loss: Loss = conform(node.build(spec=spec, distribution=distribution), Loss, "algo.loss")
    name = type(loss).__name__
    if not is_scalar(distribution) and not node.asks_for("distribution"):
        raise ValueError(
            f"{name} (algo.loss) learns expected returns only: its constructor asks for no "
            f"distribution, but algo.distribution is {type(distribution).__name__}, of which only "
            "the mean would be learned. Type algo/distribution=scalar."
        )
    if loss.per_agent:
        to_keep = "algo/loss=td algo/distribution=scalar"
        need_independent(f"{name} (algo.loss) learns", model, spec, to_keep)
    if kernels.chosen(settings.hardware.kernels) == "compiled":
        return kernels.compile_loss(loss, model)
    return loss


def build_learner(settings: Settings, spec: EnvSpec, device: torch.device) -> Learner:
    """Model, loss, optimizer and target update, joined."""
    nodes, algo = settings.nodes, settings.algo
    assert algo is not None, "check() refuses to train what does not learn"
    model = build_model(settings, spec, device)

    def optimizer(params: list[nn.Parameter]) -> torch.optim.Optimizer:
        built = nodes["algo.optimizer"].build(params=params)
        return cast(torch.optim.Optimizer, conform(built, Optimizer, "algo.optimizer"))

    return Learner(
        spec=spec,
        model=model,
        loss=build_loss(settings, spec, model),
        optimizer=optimizer,
        max_grad_norm=algo.max_grad_norm,
        lr_schedule=algo.lr_schedule,
        target_update=conform(
            nodes["algo.target_update"].build(), TargetUpdates, "algo.target_update"
        ),
    )


def need_independent(part: str, model: Model, spec: EnvSpec, to_keep: str) -> None:
    """ValueError unless every agent has a value stream of its own; ``to_keep`` are the overrides
    with which the mixer can stay.
    """
    if model.mixer.n_streams != spec.n_agents:
        raise ValueError(
            f"{part} every agent's values by themselves, but the mixer "
            f"{type(model.mixer).__name__} joins them. Type algo/mixer=independent, or to keep the "
            f"mixer {to_keep}."
        )


def build_buffer(
    settings: Settings, spec: EnvSpec, learner: Learner, device: torch.device
) -> Buffer:
    """The replay that this loss and these agents need.

    Raises:
        ValueError: it could never be sampled, or does not fit in memory.
    """
    loss: Loss = learner.loss
    targets = loss.targets
    buffer = settings.nodes["buffer"].build(
        spec=spec,
        n_envs=settings.hardware.n_envs,
        device=device,
        rng=generator(settings.run.seed, BUFFER_STREAM),
        n_step=loss.n_step,
        hidden_dim=learner.online.agents.hidden_dim,
        total_env_steps=settings.run.total_env_steps,
        targets=partial(targets, learner.online) if targets is not None else None,
    )
    buffer = cast(Buffer, conform(buffer, Buffer, "buffer"))
    if targets is not None and buffer.targets is None:
        raise ValueError(
            f"{type(loss).__name__} computes targets for whole collects, which "
            f"buffer={settings.choices['buffer']} does not keep. Type buffer=on_policy."
        )
    if buffer.per_agent:
        to_keep = "buffer.agents=lockstep"
        need_independent("buffer.agents=independent samples", learner.online, spec, to_keep)
    algo, capacity = settings.algo, buffer.plan().steps
    assert algo is not None
    buffer.check(algo.batch_size)
    if targets is not None and algo.learning_starts > 0:
        raise ValueError(
            f"algo.learning_starts={algo.learning_starts}: buffer=on_policy learns from every "
            "collect as it is made, and keeps none. Type algo.learning_starts=0."
        )
    if capacity is not None and algo.learning_starts > capacity:
        raise ValueError(
            f"algo.learning_starts={algo.learning_starts} stored steps can never be "
            f"reached: buffer.capacity={capacity}. Type algo.learning_starts={capacity}, or set "
            "buffer.capacity to more."
        )
    return buffer


def build_test_rollout(settings: Settings, agents: nn.Module, env: VectorEnv) -> Rollout:
    """Test episodes: their own environments, seeds and exploration."""
    policy = Policy(
        agents=agents,
        exploration=FixedEpsilon(epsilon=settings.run.test.epsilon),
        noisy=False,
        spec=env.spec,
        n_envs=env.n_envs,
        rng=generator(settings.run.seed, TEST_POLICY_STREAM),
    )
    return Rollout(env=env, policy=policy, seeds=TestSeeds(settings.run.seed, env.n_envs))


def build_trainer(
    settings: Settings, run_dir: Path, loggers: Loggers, callbacks: Sequence[Callback] = ()
) -> Trainer:
    """A trainer whose parts fit each other.

    Raises:
        ValueError: parts that do not fit, such as a mixer without a team reward.
    """
    run, algo, nodes = settings.run, settings.algo, settings.nodes
    assert algo is not None, "check() refuses to train what does not learn"
    device = prepare_machine(settings)
    torch.manual_seed(seed_key(run.seed, NOISE_STREAM))  # noisy layers and quantile levels
    env = build_env(settings, settings.hardware.n_envs, training=True)
    n_test_envs = min(run.test.n_envs, run.test.episodes)
    test_env = build_env(settings, n_test_envs, training=False)
    spec = env.spec
    need_same_sizes(spec, test_env.spec)
    learner = build_learner(settings, spec, device)
    exploration = conform(
        nodes["algo.exploration"].build(n_envs=env.n_envs), Exploration, "algo.exploration"
    )
    policy = Policy(
        agents=learner.online.agents,
        exploration=exploration,
        spec=spec,
        n_envs=env.n_envs,
        rng=generator(run.seed, POLICY_STREAM),
    )
    buffer = build_buffer(settings, spec, learner, device)
    first = obs_statistics(learner)
    if run.dataset.write is not None:
        env = recorded(settings, env, policy)
        first.append(Recording(env.writer))
    watchers = build_callbacks(settings, loggers, exploration, first, callbacks)
    return Trainer(
        rollout=Rollout(
            env=env,
            policy=policy,
            seeds=EpisodeSeeder(run.seed, ENV_STREAM),
            keeps_hidden=buffer.keeps_hidden,
        ),
        test_rollout=build_test_rollout(settings, learner.online.agents, test_env),
        buffer=buffer,
        learner=learner,
        actor=build_actor(settings, learner, env, exploration),
        callbacks=watchers,
        run_dir=run_dir,
        **trainer_words(settings, spec),
    )


def build_actor(
    settings: Settings, learner: Learner, env: VectorEnv, exploration: Exploration
) -> Actor:
    """What answers single observations."""
    return Actor(
        agents=learner.online.agents,
        exploration=exploration,
        spec=env.spec,
        rng=generator(settings.run.seed, ACTOR_STREAM),
        view=view_of(env.spec),
    )


def view_of(spec: EnvSpec) -> Callable[[Any], np.ndarray] | None:
    """From an observation as the environment gives it to [N, *O]; None where it is so already."""
    if spec.obs_space is None:
        return None
    from rltrain.env.spaces import observation_view

    return observation_view(spec.obs_space)


def build_callbacks(
    settings: Settings,
    loggers: Loggers,
    exploration: Any,
    first: Sequence[Callback],
    last: Sequence[Callback],
) -> Callbacks:
    """What looks at a run, in order: the user's own before those that test, log and save."""
    run = settings.run
    return Callbacks(
        [
            *first,
            *(node.build() for node in settings.callbacks),
            Test(interval=run.test.interval, loggers=loggers),
            Log(interval=run.log.interval, loggers=loggers, exploration=exploration),
            DrawCurve(title=title(settings)),
            Stop(**asdict(run.stop)),
            Health(),
            Save(interval=run.save.interval, replay_buffer=run.save.replay_buffer),
            *last,
        ]
    )


def trainer_words(settings: Settings, spec: EnvSpec) -> dict[str, Any]:
    """The numbers that a trainer is told, and what it says about itself."""
    run, algo = settings.run, settings.algo
    assert algo is not None, "check() refuses to train what does not learn"
    return {
        "total_env_steps": run.total_env_steps,
        "steps_per_collect": algo.steps_per_collect,
        "batch_size": algo.batch_size,
        "updates_per_episode": algo.updates_per_episode,
        "updates_per_env_step": algo.updates_per_env_step,
        "learning_starts": algo.learning_starts,
        "log_interval": run.log.interval,
        "keep_last": run.save.keep_last,
        "test_episodes": run.test.episodes,
        "test_seed": run.seed,
        "test_function": build_test_function(settings),
        "about": about(settings, spec),
    }


def recorded(
    settings: Settings, env: VectorEnv, player: Player, n_episodes: int | None = None
) -> Any:
    """The environment, with everything that is played in it written to ``dataset.write``.

    Args:
        n_episodes: keep only the first so many; None = all.
    """
    chosen = settings.run.dataset
    assert chosen.write is not None
    writer = Writer(
        folder=Path(chosen.write).expanduser(),
        spec=env.spec,
        n_envs=env.n_envs,
        about={
            "version": rltrain.__version__,
            "played": f"{settings.run.mode}: {title(settings)}",
            "algo": settings.choices["algo"],
            "env": settings.choices["env"],
            "spec": spec_record(env.spec),
        },
        shard_bytes=chosen.shard_bytes,
        max_bytes=chosen.max_bytes,
        n_episodes=n_episodes,
    )
    return RecordedEnv(env=env, player=player, writer=writer)


def obs_statistics(learner: Learner) -> list[Callback]:
    """What keeps the statistics of a network that normalises observations; before user operators,
    so that they count as they were seen.
    """
    norm = cast(Agents, learner.online.agents).obs_norm
    return [] if norm is None else [ObsStatistics(update=norm.update)]


def build_player(settings: Settings, folder: Path) -> Rollout:
    """Environments and a policy with a checkpoint's weights, for evaluation."""
    device = prepare_machine(settings)
    n_envs = min(settings.run.test.n_envs, settings.run.test.episodes)
    env = build_env(settings, n_envs, training=False)
    agents = load_agents(settings, env.spec, device, folder)
    return recorded_player(settings, build_test_rollout(settings, agents, env))


def load_agents(settings: Settings, spec: EnvSpec, device: torch.device, folder: Path) -> nn.Module:
    """The network that acts, with the weights of a checkpoint; nothing else of the run is built.

    Raises:
        UsageError: the weights belong to another environment or network.
    """
    with seed_networks(seed_key(settings.run.seed, NETWORK_STREAM)):
        agents = build_agents(settings, spec).to(device)
    saved = checkpoint.read(folder, MODEL).get("online", {})
    own = {name: tensor for name, tensor in saved.items() if name.startswith("agents.")}
    have = {f"agents.{name}": tensor for name, tensor in agents.state_dict().items()}
    check_fits({"online": have}, {"online": own}, folder, about(settings, spec))
    agents.load_state_dict({name.removeprefix("agents."): t for name, t in own.items()})
    return agents


def build_scripted_player(settings: Settings) -> Rollout:
    """Environments and a player that needs no weights, for evaluation.

    Raises:
        ValueError: these environments have no such player.
    """
    run = settings.run
    prepare_machine(settings)
    scripted = settings.nodes["algo"].kwargs["policy"] != "random"
    n_envs = min(run.test.n_envs, run.test.episodes)
    env = build_env(settings, n_envs, training=False, scripted=scripted)
    policy = settings.nodes["algo"].build(
        env=env, epsilon=run.test.epsilon, rng=generator(run.seed, TEST_POLICY_STREAM)
    )
    player = Rollout(env=env, policy=policy, seeds=TestSeeds(run.seed, env.n_envs))
    return recorded_player(settings, player)


def recorded_player(settings: Settings, player: Rollout) -> Rollout:
    """The player of an evaluation, whose episodes are written where ``dataset.write`` says so."""
    run, played = settings.run, player.env
    if run.dataset.write is None:
        return player
    env = recorded(settings, played, cast(Player, player.policy), run.test.episodes)
    env.writer.begin()
    return Rollout(env=env, policy=player.policy, seeds=TestSeeds(run.seed, played.n_envs))


def title(settings: Settings) -> str:
    """``qmix on smac 3m, seed 0``, ``scripted closest on smac 3m, seed 0``."""
    env, player = settings.nodes["env"].kwargs, settings.nodes.get("algo")
    preset = settings.choices["env"] not in ("gymnasium", "own")
    keys = ("map_name", "game") if preset else ("maker", "id")
    scenario = str(next((env[key] for key in keys if env.get(key)), ""))
    name = " ".join(filter(None, [settings.choices["env"], scenario]))
    algo = settings.choices["algo"] + (f" {player.kwargs['policy']}" if player else "")
    return f"{algo} on {name}, seed {settings.run.seed}"


def config_record(settings: Settings) -> dict[str, Any]:
    """``config.json``: what the run resolved to, and which option of each group was chosen."""
    return {"choices": dict(settings.choices), **settings.plain}


def about(settings: Settings, spec: EnvSpec) -> dict[str, Any]:
    """What is saved beside weights: enough to build a network for them."""
    return {CONFIG: config_record(settings), SPEC: spec_record(spec)}


def spec_record(spec: EnvSpec) -> dict[str, Any]:
    """An EnvSpec as JSON holds it."""
    record = asdict(spec)
    record["obs_shape"] = list(spec.obs_shape)
    return record
