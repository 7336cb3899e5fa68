"""mode=export: the acting network of a checkpoint as ONNX, and a script that acts with it."""

from __future__ import annotations

import json
import logging
import os
import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

import rltrain
from rltrain.algo.checks import stacked_shape
from rltrain.assemble.build_learner import load_agents
from rltrain.assemble.env import build_env, ordered_as_saved, prepare_machine
from rltrain.assemble.rollouts import build_test_rollout
from rltrain.common import checkpoint
from rltrain.common.files import JsonObject, drop_temporary, locked, put_text, require_empty
from rltrain.common.machine.install import require_extra
from rltrain.common.machine.places import refused_writes
from rltrain.config.schema import Settings
from rltrain.errors import Interrupted, UsageError, storage_errors, usage_errors
from rltrain.interfaces import Agents
from rltrain.logger.screen import Screen, shown
from rltrain.mode.evaluate import open_checkpoint
from rltrain.mode.evaluation_files import home, results_folder
from rltrain.mode.find_run import chosen_again
from rltrain.types import Batch, Clock, EnvSpec, Output

POLICY, SCRIPT, RECORD = "policy.onnx", "act.py", "export.json"
SHIPPED = Path(__file__).with_name(SCRIPT)
PACKAGES = ("onnx", "onnxscript", "onnxruntime")
COMPARED_STEPS = 200
"""Time steps of all environments, at most, whose values are compared."""
TOLERANCE = 1e-4
"""Largest difference, relative to the largest value, or to 1 if all values are smaller."""


BESIDE = (
    "The files of an export belong next to the checkpoint: copy the checkpoint "
    "(checkpoints/<env_steps>) to your own folder, and type rltrain mode=export checkpoint=COPY."
)
"""Advice where they cannot be written."""


class ActingNetwork(nn.Module):
    """A network of agents as an ONNX graph takes it: every input and output is a tensor, and those
    that the agents do not use are left out.
    """

    def __init__(self, agents: Agents, spec: EnvSpec) -> None:
        super().__init__()
        self.agents = agents
        n_agents, obs_dtype = spec.n_agents, getattr(torch, spec.obs_dtype)
        self.examples = {  # two environments: sizes of 1 would become constants of the graph
            "obs": torch.zeros(2, n_agents, *stacked_shape(spec), dtype=obs_dtype),
            "avail_actions": torch.ones(2, n_agents, spec.n_actions, dtype=torch.bool),
        }
        if agents.uses_last_action:
            self.examples["last_action"] = torch.zeros(2, n_agents, dtype=torch.int64)
        if agents.hidden_dim:
            self.examples["hidden"] = torch.zeros(2, n_agents, agents.hidden_dim)
        self.outputs = ["action", "q"] + (["next_hidden"] if agents.hidden_dim else [])

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """``examples`` of E environments to actions [E, N], values [E, N, A] and hidden states."""
        given = dict(zip(self.examples, inputs, strict=True))
        obs, shape = given["obs"].float(), given["avail_actions"].shape[:2]
        last_action = given.get("last_action", obs.new_full(shape, -1, dtype=torch.int64))
        hidden = given.get("hidden", obs.new_zeros(*shape, 0))
        q, hidden = self.agents.step(obs, last_action, hidden)
        action = q.masked_fill(~given["avail_actions"], -torch.inf).argmax(-1)
        return (action, q, hidden)[: len(self.outputs)]


class ComparedAgents(Agents):
    """Agents that compute every step with the exported file as well, and keep the largest
    difference.
    """

    uses_last_action = True

    def __init__(self, network: ActingNetwork, file: Path) -> None:
        import onnxruntime

        super().__init__()
        self.network, self.agents = network, network.agents
        self.hidden_dim = self.agents.hidden_dim
        self.session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
        self.n_steps, self.difference = 0, 0.0

    def unroll(self, batch: Batch, start: int = 0, stop: int | None = None) -> Output:
        """The agents' own values."""
        return self.agents.unroll(batch, start, stop)

    def step(self, obs: Tensor, last_action: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """The agents' own values."""
        q, after = self.agents.step(obs, last_action, hidden)
        examples = self.network.examples
        given = {
            "obs": obs.to(examples["obs"].dtype),
            "avail_actions": torch.ones_like(q, dtype=torch.bool),
            "last_action": last_action,
            "hidden": hidden,
        }
        inputs = {name: given[name].numpy() for name in examples}
        outputs = self.session.run(None, inputs)
        for ours, theirs in zip((q, after), outputs[1:], strict=False):
            scale = ours.nan_to_num(0.0, 0.0, 0.0).abs().max().clamp(min=1.0)
            theirs = torch.from_numpy(theirs)
            apart = (ours - theirs).abs().where(ours != theirs, 0.0)  # also of infinite values
            self.difference = np.maximum(self.difference, float(apart.max() / scale))  # NaN stays
        self.n_steps += 1
        return q, after


@chosen_again
def export(
    path: str | Path, overrides: Sequence[str], load_step: int | Literal["best"] | None
) -> Path:
    """Write ``onnx/<env_steps>/`` next to the checkpoint: ``policy.onnx``, ``act.py``,
    ``export.json``; print and return it. Nothing is left there unless the file gives the policy's
    values.

    Raises:
        CheckpointError: nothing trustworthy at ``path``.
        UsageError: a missing package, a folder that cannot be written, or a network that cannot be
            exported.
    """
    with usage_errors():
        for module in PACKAGES:
            require_extra("onnx", module, "mode=export")
    plain = ("hardware.device=cpu", "hardware.kernels=torch")
    source, settings = open_checkpoint(path, (*overrides, *plain), load_step, plays=True)
    folder = (home(source) or results_folder()) / "onnx" / str(source.step)
    own, script = [POLICY, RECORD, "__pycache__"], folder / SCRIPT
    if script.is_file() and script.read_bytes() == SHIPPED.read_bytes():
        own.append(SCRIPT)  # else someone has edited it
    advice = "Move them elsewhere: an export replaces its folder."
    require_empty(folder, "an export", advice, tuple(own))
    temporary = folder.with_name(f".tmp-{folder.name}-{os.getpid()}")
    aside = folder.with_name(f".tmp-{folder.name}-replaced")
    with ExitStack() as held:
        with refused_writes(folder, BESIDE):
            folder.parent.mkdir(parents=True, exist_ok=True)
            held.enter_context(locked(folder.parent))
            checkpoint.restore_replaced(folder.parent)
            drop_temporary(folder.parent)
            temporary.mkdir(parents=True)
        try:
            record = written(settings, source, temporary)
            with storage_errors(folder):
                if folder.exists():
                    folder.replace(aside)
                temporary.replace(folder)
        finally:
            checkpoint.restore_replaced(folder.parent)
            drop_temporary(folder.parent)
            with suppress(OSError):  # not empty
                folder.parent.rmdir()
    show(folder, record, source.remarks)
    return folder


def written(settings: Settings, source: checkpoint.Found, folder: Path) -> dict[str, Any]:
    """Write the files of an export and compare them with the policy; returns ``export.json``."""
    device, settings = prepare_machine(settings), ordered_as_saved(settings, source.folder)
    with usage_errors():
        env = build_env(settings, min(settings.run.test.n_envs, 4), training=False)
    try:
        agents = load_agents(settings, env.spec, device, source.folder).eval()
        network = ActingNetwork(agents, env.spec)
        about = {
            "what": settings.title,
            "checkpoint": str(source.folder),
            "env_steps": str(source.step),
            "frame_stack": str(env.spec.frame_stack),
            "first_action": ",".join(map(str, first_actions(env.spec))),
            "rltrain": rltrain.__version__,
        }
        node = settings.nodes["test.env"]
        gymnasium = getattr(node, "target", "") == "rltrain.env.gymnasium_env"  # not passed
        if gymnasium and ":" not in node.kwargs["id"]:
            limit = {"max_episode_steps": node.kwargs["max_episode_steps"]}
            about["gymnasium_id"] = node.kwargs["id"]  # for the script
            about["gymnasium_kwargs"] = json.dumps({**limit, **node.kwargs["kwargs"]})
        write_onnx(network, folder / POLICY, about)
        compared = ComparedAgents(network, folder / POLICY)
        rollout = build_test_rollout(settings, compared, env)
        episodes, seed = settings.run.test.episodes, settings.run.seed
        with suppress(Interrupted):
            rollout.run_episodes(
                episodes, seed, Clock(), stop=lambda: compared.n_steps >= COMPARED_STEPS
            )
    finally:
        env.close()
    if not compared.difference <= TOLERANCE:
        raise UsageError(
            f"{type(agents).__name__} (algo.network) gives different values as ONNX: they differ "
            f"by {compared.difference:.2g} of the largest value, expected at most {TOLERANCE:g}. "
            "Nothing was written. A network that draws noise in evaluation mode, or keeps state "
            "besides hidden, cannot be exported."
        )
    shutil.copyfile(SHIPPED, folder / SCRIPT)
    record = {
        **about,
        "inputs": {name: described(x) for name, x in network.examples.items()},
        "outputs": network.outputs,
        "observation_space": env.spec.obs_space,
        "action_components": env.spec.action_components,
        "action_dtype": env.spec.action_dtype,
        "agents": env.spec.agents,
        "compared_steps": compared.n_steps * env.n_envs,
        "largest_relative_difference": float(compared.difference),
    }
    put_text(folder / RECORD, json.dumps(record, indent=1))
    return record


def first_actions(spec: EnvSpec) -> list[int]:
    """The environment's own number of action 0, for all agents or for each; 0 of combinations."""
    if spec.agents is None:
        return [spec.first_action]
    return [int(space.get("start", 0)) if "discrete" in space else 0 for *_, space in spec.agents]


def write_onnx(network: ActingNetwork, file: Path, about: dict[str, str]) -> None:
    """The network as one ONNX file with ``about`` as its metadata; UsageError for what has no ONNX
    form.
    """
    batch = torch.export.Dim("batch")
    try:
        with quiet(), torch.no_grad():
            program = torch.onnx.export(
                network,
                tuple(network.examples.values()),
                dynamo=True,
                input_names=list(network.examples),
                output_names=network.outputs,
                dynamic_shapes=(tuple({0: batch} for _ in network.examples),),
                verbose=False,
            )
    except Exception as error:  # of torch.export, of any kind
        kind, reason = type(network.agents).__name__, str(error).strip().partition("\n")[0]
        raise UsageError(
            f"{kind} (algo.network) cannot be exported: {type(error).__name__}: {reason} Expected "
            "a step(obs, last_action, hidden) of tensor operations that torch.export can trace for "
            "any number of environments: no Python branches on values of tensors, no NumPy. "
            "Change it, then export the checkpoint again."
        ) from error
    assert program is not None
    program.model.metadata_props.update(about)
    with storage_errors(file):
        program.save(file, external_data=False)


@contextmanager
def quiet() -> Iterator[None]:
    """Without what the exporter says about itself."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(before)


def described(example: Tensor) -> str:
    """``float32 [batch, 3, 30]``."""
    sizes = ", ".join(["batch", *map(str, example.shape[1:])])
    return f"{str(example.dtype).removeprefix('torch.')} [{sizes}]"


def show(folder: Path, record: JsonObject, remarks: Sequence[str]) -> None:
    """Print the files that were written and how to use them."""
    inputs = ", ".join(f"{name} {size}" for name, size in record["inputs"].items())
    Screen().lines(
        *remarks,
        f"Wrote {record['what']}, env step {int(record['env_steps']):,}, as {shown(folder)}/"
        f"{POLICY}.",
        f"Inputs: {inputs}. Outputs: {', '.join(record['outputs'])}.",
        f"Its values are those of the policy on {record['compared_steps']:,} observations of the "
        f"environment (largest relative difference {record['largest_relative_difference']:.1e}).",
        f"{shown(folder)}/{SCRIPT} acts with it: OnnxPolicy().act(obs, avail_actions).",
    )
