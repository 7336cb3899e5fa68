"""Malicious runs that try to execute code, to read or write files outside, or to exhaust memory:
none succeeds. If a command needs the file, it is refused in a sentence and nothing is changed; an
evaluation does not read files that only training needs.

The checkpoints' manifests match the changed files. An audit hook monitors this process.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import resource
import shutil
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.faults.runs import SMALL, digests
from rltrain.common.checkpoint.run_checkpoints import seal
from rltrain.errors import RltrainError
from rltrain.main import run

PAYLOADS = (
    *("os.system", "posix.system", "subprocess.getoutput", "subprocess.Popen", "builtins.eval"),
    *("builtins.exec", "builtins.open", "builtins.__import__", "importlib.import_module"),
    *("pathlib.Path.write_text", "shutil.copy", "shutil.rmtree", "torch.load", "torch.hub.load"),
    *("numpy.load", "pickle.loads", "runpy.run_path", "ctypes.CDLL", "gymnasium.make"),
    *("rltrain.common.files.put_text", "logging.os.system", "rltrain.main.run"),
)
NODES = (
    *("env", "buffer", "algo.network", "algo.loss", "algo.mixer", "algo.exploration"),
    *("algo.optimizer", "algo.distribution", "algo.target_update", "callbacks", "test.function"),
)
COMMANDS = ("mode=evaluate checkpoint={run}", "resume={run}")
SECRET = "secret.txt"
FORBIDDEN = ("os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "socket.connect")
LARGEST = 1 << 30  # bytes by which memory may grow


class Watch:
    """What an audit hook has seen while it was on."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.on, self.seen = folder, False, list[str]()
        sys.addaudithook(self.hook)

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on:
            return
        ours = event == "subprocess.Popen" and arguments[0] == "git"  # for the record's commit
        if (event in FORBIDDEN and not ours) or event == "pickle.find_class":
            self.seen.append(f"{event} {arguments!r:.80}")
        if event == "open" and isinstance(arguments[0], str):
            path, flags = os.path.abspath(arguments[0]), arguments[2] or 0
            writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            inside = path.startswith((str(self.folder), "/dev/null", str(Path.home() / ".cache")))
            if (writes and not inside) or path.endswith(SECRET) or path == "/etc/passwd":
                self.seen.append(f"open {path}")


def cases(folder: Path, seed: int, n_cases: int | None) -> Iterator[tuple[str, str | None]]:
    """All hostile runs, each evaluated and resumed."""
    (folder / SECRET).write_text("secret")
    inside = folder / "inside"
    inside.mkdir()
    watch = Watch(inside)
    with contextlib.chdir(inside), contextlib.redirect_stdout(io.StringIO()):
        assert run([*SMALL, "hydra.run.dir=run"]) == 0
        shutil.move(inside / "run", folder / "run")
        for i, (name, change) in enumerate(attacks(folder)):
            if i == n_cases:
                return
            for command in COMMANDS:
                shutil.copytree(folder / "run", inside / "run", symlinks=True)
                change(inside / "run")
                yield f"{name}, {command}", answered(command, inside, watch)
                shutil.rmtree(inside / "run")


def answered(command: str, inside: Path, watch: Watch) -> str | None:
    """What is wrong with how a command answers a hostile run, or None."""
    before, memory = digests(inside), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    watch.seen.clear()
    watch.on = True
    try:
        code: int | None = run(command.format(run=inside / "run").split())
    except RltrainError as error:
        code = error.exit_code
        if len(str(error).splitlines()) > 6:
            return f"{len(str(error).splitlines())} lines"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        watch.on = False
    if watch.seen:
        return "; ".join(watch.seen[:3])
    if (inside / "PWNED").exists():
        return "code was executed"
    if (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) * 1024 > LARGEST:
        return "took more than 1 GiB"
    if code and digests(inside) != before:
        return "refused, but files were changed"
    return None


def attacks(folder: Path) -> Iterator[tuple[str, Callable[[Path], object]]]:
    """Changes of a run folder, by name."""
    touch = f"touch {folder}/inside/PWNED"
    for target in PAYLOADS:
        yield f"env._target_={target}", of_config("env", {"_target_": target, "command": touch})
    for path in NODES:
        node: Any = {"_target_": "os.system", "command": touch}
        value = [node] if path == "callbacks" else node
        yield f"{path}._target_=os.system", of_config(path, value)
    yield "trust=[os]", of_config("trust", ["os", "posix", "subprocess"], env="os.system")
    for text in ("${oc.env:HOME}", "${oc.decode:x}", "${run_dir}", "${hydra:runtime.cwd}"):
        yield f"env={text}", of_config("env.id", text)
    for name in ("os:system", "subprocess:Popen", "../x:Env", "nowhere.module:Env", "x" * 10_000):
        yield f"env.id={name:.20}", of_config("env", {**GYMNASIUM, "id": name})
    for text in ("[]", "null", "[" * 200_000, '{"env": ' * 100_000, '{"env": 1, "env": 2}', "\x00"):
        yield f"config.json is {text:.12}", of_text("config.json", text)
    yield "config.json is 1e400", of_text("config.json", '{"seed": 1e400, "choices": {}}')
    yield "config.json is no UTF-8", lambda r: every(r, "config.json", b"\xff\xfe{}")
    yield "config.json is a link", lambda r: link(r, "config.json", folder / SECRET)
    for file in ("model.safetensors", "model.json", "spec.json", "config.json"):
        yield f"{file} is a pickle", lambda r, f=file: every(r, f, pickle.dumps(Evil(touch)))
    for file in ("model.json", "spec.json", "trainer.json"):
        yield f"{file} is nested", lambda r, f=file: every(r, f, b"[" * 300_000)
        yield f"{file} is a list", lambda r, f=file: every(r, f, b"[1]")
    for length in (2**31, 2**62, 2**64 - 1):
        header = struct.pack("<Q", length) + b"{}"
        yield f"header of {length}", lambda r, h=header: every(r, "model.safetensors", h)
    for shape, offsets in (([2**62], [0, 8]), ([-1], [0, 8]), ([2], [8, 0]), ([2], [0, 2**62])):
        text = json.dumps({"x": {"dtype": "F32", "shape": shape, "data_offsets": offsets}}).encode()
        data = struct.pack("<Q", len(text)) + text + bytes(8)
        yield f"tensor {shape} {offsets}", lambda r, d=data: every(r, "model.safetensors", d)
    yield "an array of objects", of_arrays(np.array([Evil(touch)], object))
    yield "an array of 2^62", of_arrays(None)
    for name in ("../../x", "/etc/passwd", "a/b", ".", ""):
        yield f"manifest lists {name}", lambda r, n=name: listed(r, n)
    yield "manifest is a link", lambda r: link(r, "manifest.json", folder / SECRET, sealed=False)
    yield "weights are a link", lambda r: link(r, "model.safetensors", folder / SECRET)
    yield "weights are NaN", nan_weights
    yield "all steps are links", linked_steps


GYMNASIUM = {"_target_": "rltrain.env.gymnasium_env", "kwargs": {}}


class Evil:
    """Executes a command when it is unpickled."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


def checkpoints(run_dir: Path) -> list[Path]:
    """The checkpoints of a run."""
    return [path for path in (run_dir / "checkpoints").iterdir() if path.is_dir()]


def every(run_dir: Path, name: str, data: bytes) -> None:
    """Replace a file in all checkpoints, and in the run folder if it is there."""
    if (run_dir / name).exists():
        (run_dir / name).write_bytes(data)
    for folder in checkpoints(run_dir):
        (folder / name).write_bytes(data)
        seal(folder, "full")


def of_text(name: str, text: str) -> Callable[[Path], object]:
    """Replace a file by a text."""
    return lambda run_dir: every(run_dir, name, text.encode())


def of_config(path: str, value: Any, env: str | None = None) -> Callable[[Path], object]:
    """Set a value of the configuration, and the class of the environment."""

    def change(run_dir: Path) -> None:
        config = json.loads((run_dir / "config.json").read_text())
        node, *names = config, *path.split(".")
        for name in names[:-1]:
            node = node.setdefault(name, {})
        node[names[-1]] = value
        if env is not None:
            config["env"]["_target_"] = env
        every(run_dir, "config.json", json.dumps(config).encode())

    return change


def of_arrays(array: np.ndarray | None) -> Callable[[Path], object]:
    """Replace every stored array by this one; None: by one that claims to have 2^62 entries."""

    def change(run_dir: Path) -> None:
        file = io.BytesIO()
        if array is None:
            header = {"descr": "<f4", "fortran_order": False, "shape": (2**62,)}
            np.lib.format.write_array_header_2_0(file, header)
        else:
            np.save(file, array, allow_pickle=True)
        for folder in checkpoints(run_dir):
            names = {path.stem for path in folder.glob("*.json")} - {"manifest"}
            for name in names:
                tree = json.dumps({"x": {"__array__": "x"}}).encode()
                (folder / f"{name}.json").write_bytes(tree)
                (folder / f"{name}.x.npy").write_bytes(file.getvalue())
            seal(folder, "full")

    return change


def listed(run_dir: Path, name: str) -> None:
    """Let the manifests list a file."""
    from rltrain.common.checkpoint.run_checkpoints import put_manifest, stored_manifest

    for folder in checkpoints(run_dir):
        manifest = stored_manifest(folder)
        manifest["files"][name] = {"bytes": 6, "sha256": "0" * 64}
        put_manifest(folder, manifest)


def link(run_dir: Path, name: str, target: Path, *, sealed: bool = True) -> None:
    """Replace a file in all checkpoints, and in the run folder, by a link."""
    if (run_dir / name).exists():
        (run_dir / name).unlink()
        (run_dir / name).symlink_to(target)
    for folder in checkpoints(run_dir):
        if sealed:
            shutil.copy(target, folder / name)
            seal(folder, "full")
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)


def nan_weights(run_dir: Path) -> None:
    """Replace all weights by NaN."""
    from safetensors.numpy import load_file, save_file

    for folder in checkpoints(run_dir):
        file = folder / "model.safetensors"
        save_file({k: np.full_like(v, np.nan) for k, v in load_file(file).items()}, file)
        seal(folder, "full")


def linked_steps(run_dir: Path) -> None:
    """Replace all checkpoints by links out of the run folder."""
    for folder in checkpoints(run_dir):
        shutil.rmtree(folder)
        folder.symlink_to("/etc")
