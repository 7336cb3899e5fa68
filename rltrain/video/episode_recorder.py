"""Test episodes as numbers, with what agents saw and valued, for a page to look into."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from rltrain.common.files import locked, next_number
from rltrain.common.machine.torch_settings import EnvContext
from rltrain.errors import UsageError
from rltrain.interfaces import Mixer, RolloutPolicy, VectorEnv
from rltrain.types import Drawing, Episode
from rltrain.video.recorder import Recording
from rltrain.video.viewer.page_data import write_viewer

ABSENT = -1
"""The look of a unit that is not there."""
MOST_OBS = 512
"""Numbers of one agent's observation that are kept, where no layout names what it sees."""


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
