"""``battle-<n>.html``: test episodes with what agents saw and valued, to look into, in one file
that loads nothing else.

Numbers are as few bytes, which the page's script unpacks: whole multiples of a step, as
differences in time, in planes of equal bytes, deflated together. The largest count of its width
is a number that is not finite, which the page leaves out.
"""

from __future__ import annotations

import json
import struct
import zlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rltrain.common.files import JsonObject, locked, next_number, put_text
from rltrain.common.json_text import without_nan
from rltrain.common.machine.torch_settings import EnvContext
from rltrain.common.page import filled
from rltrain.errors import UsageError
from rltrain.interfaces import Mixer, RolloutPolicy, VectorEnv
from rltrain.types import Drawing, Episode
from rltrain.video.recorder import Recording

ABSENT = -1
"""The look of a unit that is not there."""
MOST_OBS = 512
"""Numbers of one agent's observation that are kept, where no layout names what it sees."""
VIEWER = "rltrain.video.viewer"
"""The folder with the page's HTML, style and script."""
STEP = 1 / 1024
"""Resolution of positions, values and other fractions, off by at most half of it."""
LEVELS = 8192
"""Fewest levels between the smallest and the largest number."""
LARGEST = 2**32 - 2
"""The largest count of a finite number."""

Entry = tuple[str, Sequence[int], int, float, float]
"""Name, shape, bytes of a number, smallest number and step."""


def require_drawing(env: VectorEnv, name: str, typed: str, instead: str) -> None:
    """Refuse an environment that does not report positions.

    Args:
        typed: the override that asks for the page.
        instead: what to type in its place, if it has pictures.

    Raises:
        UsageError: it does not.
    """
    if not env.has_drawing:
        instead = instead if env.frames_per_second else "record=false"
        raise UsageError(
            f"{typed}: env '{name}' does not report positions, so the page has nothing to "
            "draw. Expected battles of the built-in engine (env=smac, smacv2 or smaclite with "
            "env.backend=native), stag_hunt, lbf, rware, mpe, cartpole, acrobot, mountaincar, or "
            f"an environment with a method drawing(). Type {instead}."
        )


@dataclass
class EpisodeRecorder(Recording):
    """Keeps the first episodes and writes a page when all of them are over: ``battle-<n>.html``, or
    ``episodes-<n>.html`` of what is no battle, where n counts from 1 past those that are there.

    Args:
        title: what plays.
        policy: whose values are recorded.
        mixer: joins them to the value of the team; None: there is none.
    """

    title: str
    policy: RolloutPolicy
    mixer: Mixer | None = None
    _steps: dict[int, list[dict[str, Any]]] = field(default_factory=dict)  # by episode
    _acting: dict[int, dict[str, Any]] = field(default_factory=dict)  # by environment
    _done: dict[int, dict[str, Any]] = field(default_factory=dict)
    _looks: dict[str, int] = field(default_factory=dict)  # JSON to number

    def __call__(
        self, env: VectorEnv, numbers: Sequence[int], finished: Mapping[int, Episode]
    ) -> None:
        """Keep the current time step of every environment."""
        self._acting = {}
        for e, number in enumerate(numbers):
            if number >= self.n_episodes:
                continue
            steps = self._steps.setdefault(number, [])
            if env.lost is not None and env.lost[e]:
                steps.clear()
            steps.append(self._step(env, e))
            if e not in finished:
                self._acting[e] = steps[-1]
                continue
            self._done[number] = self._episode(env, number, finished[e])
            del self._steps[number]
            self.files[number] = []
        if len(self._done) == self.n_episodes and finished:
            with self.disk.attempt("a page of episodes"):
                self._write(env)

    def stepped(self, action: np.ndarray, reward: np.ndarray, terminated: np.ndarray) -> None:
        """Keep what was done in it."""
        q = self.policy.q
        for e, step in self._acting.items():
            step |= {"action": action[e].copy(), "reward": reward[e].copy()}
            step |= {} if q is None else {"q": q[e].copy()}

    def _step(self, env: VectorEnv, e: int) -> dict[str, Any]:
        """The time step before its actions."""
        with EnvContext("drawing"):
            drawing = Drawing(*env.drawing(e))
        there = drawing.columns.get("there", np.ones(len(drawing.looks), np.bool_))
        looks = [
            self._looks.setdefault(json.dumps(look), len(self._looks)) if here else ABSENT
            for look, here in zip(drawing.looks, there.tolist(), strict=True)
        ]
        step = {name: column for name, column in drawing.columns.items() if name != "there"}
        step |= {"look": np.array(looks), "avail": env.avail_actions[e].copy()}
        small = len(env.spec.obs_shape) == 1 and env.spec.obs_shape[0] <= MOST_OBS
        if small and "sees" not in step:
            step["obs"] = env.obs[e].copy()
        return step | {"state": env.state[e].copy(), "world": drawing.world}

    def _episode(self, env: VectorEnv, number: int, episode: Episode) -> dict[str, Any]:
        """The arrays [T, …] or [T + 1, …] of a finished episode, and its result."""
        steps = self._steps[number]
        n_units = max(len(step["look"]) for step in steps)
        arrays, world = {}, steps[-1]["world"]
        for name in [name for name in steps[0] if name != "world"]:
            rows = [step[name] for step in steps if name in step]
            if name in ("avail", "obs", "state", "action", "reward", "q"):
                arrays[name] = np.stack(rows)
            else:
                empty = ABSENT if name == "look" else 0
                arrays[name] = np.stack([padded(row, n_units, empty) for row in rows])
        state = arrays.pop("state")
        is_team = self.mixer is not None and self.mixer.n_streams == 1 < env.spec.n_agents
        if self.mixer is not None and is_team and "q" in arrays:
            arrays |= mixed(self.mixer, arrays, state)
        result = {"number": number, "return": episode.episode_return, "length": episode.length}
        won = {"win": bool(episode.info["win"])} if "win" in episode.info else {}
        return {**result, **won, "world": world, "arrays": arrays}

    def _write(self, env: VectorEnv) -> None:
        page = {
            "title": self.title,
            "n_agents": env.spec.n_agents,
            "n_actions": env.spec.n_actions,
            "names": [str(name) for name, *_ in env.spec.agents or ()],
            "looks": [json.loads(look) for look in self._looks],
        }
        episodes = [self._done[n] for n in sorted(self._done)]
        stem = "battle" if "backend" in env.about else "episodes"
        self.folder.mkdir(exist_ok=True)
        with locked(self.folder):
            path = self.folder / f"{stem}-{next_number(self.folder, stem, '.html')}.html"
            write_viewer(path, page, episodes)
        self.files = {number: [path] for number in self.files}


def padded(row: np.ndarray, n_units: int, empty: int) -> np.ndarray:
    """A column [units] or [N, units] for more units."""
    widths = [(0, 0)] * (row.ndim - 1) + [(0, n_units - row.shape[-1])]
    return np.pad(row, widths, constant_values=empty)


def mixed(
    mixer: Mixer, arrays: Mapping[str, np.ndarray], state: np.ndarray
) -> dict[str, np.ndarray]:
    """The team's value [T] of the actions taken, and its derivatives by the agents' [T, N]."""
    device = next((p.device for p in mixer.parameters()), torch.device("cpu"))
    n = len(arrays["action"])
    action = torch.from_numpy(arrays["action"]).to(device)[:, None]  # [T, 1, N]
    q = torch.from_numpy(arrays["q"]).to(device)[:, None]  # [T, 1, N, A]
    avail = torch.from_numpy(arrays["avail"][:n]).to(device)[:, None].bool()
    greedy_q = q.masked_fill(~avail, -torch.inf).amax(-1)
    chosen = q.gather(-1, action[..., None])[..., 0].requires_grad_()
    with torch.enable_grad():
        total = mixer(chosen, greedy_q, action, torch.from_numpy(state[:n]).to(device)[:, None])
        (weight,) = torch.autograd.grad(total.sum(), chosen)
    return {
        "q_tot": total[:, 0, 0].detach().cpu().numpy(),
        "weight": weight[:, 0].cpu().numpy(),
    }


def write_viewer(path: Path, page: JsonObject, episodes: Sequence[JsonObject]) -> None:
    """Write the page; ``page`` and ``episodes`` as ``packed_page`` takes them."""
    script = files(VIEWER).joinpath("viewer.js").read_text(encoding="utf-8")
    fields = {
        "script": script,
        "hash": b64encode(sha256(script.encode()).digest()).decode(),
        "data": packed_page(page, episodes),
    }
    put_text(path, filled(VIEWER, "viewer", fields))


def packed_page(page: JsonObject, episodes: Sequence[JsonObject]) -> str:
    """A page's data as text (base64).

    Args:
        page: plain values.
        episodes: plain values, and under ``arrays`` arrays [T, …] by name.
    """
    heads, body = [], bytearray()
    for episode in episodes:
        entries = []
        for name, array in episode["arrays"].items():
            entry, planes = packed(name, array)
            entries.append(entry)
            body += planes
        heads.append({**episode, "arrays": entries})
    plain = without_nan({**page, "episodes": heads})
    head = json.dumps(plain, separators=(",", ":"), allow_nan=False).encode()
    return b64encode(zlib.compress(struct.pack("<I", len(head)) + head + body, 9)).decode()


def packed(name: str, array: np.ndarray) -> tuple[Entry, bytes]:
    """An array [T, …], and what a reader has to know."""
    numbers = np.asarray(array, np.float64)
    finite = np.abs(numbers) <= np.finfo(np.float32).max  # as the page's script has numbers
    known = numbers[finite]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
    whole = array.dtype.kind in "iub"
    step = 1.0 if whole else min(STEP, max(high - low, 1e-9) / LEVELS)
    step = max(step, (high - low) / LARGEST)
    counts = np.rint((np.where(finite, numbers, low) - low) / step).astype(np.uint64)
    width = next(w for w in (1, 2, 4) if int(counts.max(initial=0)) < 256**w - 1)
    counts = np.where(finite, counts, 256**width - 1).astype(f"<u{width}")
    counts[1:] -= counts[:-1].copy()  # modulo 256 ** width
    planes = np.ascontiguousarray(counts).view(np.uint8).reshape(-1, width).T
    return (name, list(array.shape), width, low, step), planes.tobytes()
