"""Acts greedily with policy.onnx; needs numpy and onnxruntime, not rltrain. ``python act.py`` plays
an episode where Gymnasium has the environment, and acts on zeros elsewhere.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

FILE = Path(__file__).with_name("policy.onnx")


class OnnxPolicy:
    """The network in ``policy.onnx`` and what it remembers within an episode."""

    def __init__(self, file: Path = FILE) -> None:
        self.session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
        self.shapes = {i.name: (1, *i.shape[1:]) for i in self.session.get_inputs()}
        kinds = {i.name: i.type for i in self.session.get_inputs()}
        self.obs_type = np.uint8 if kinds["obs"] == "tensor(uint8)" else np.float32
        self.about = self.session.get_modelmeta().custom_metadata_map
        self.reset()

    def reset(self) -> None:
        """Begin an episode."""
        n_agents = self.shapes["avail_actions"][1]
        self.last_action = np.full((1, n_agents), -1)
        self.hidden = np.zeros(self.shapes.get("hidden", 0), np.float32)
        self.frames: list[np.ndarray] = []

    def act(self, obs: np.ndarray, avail_actions: np.ndarray | None = None) -> Any:
        """One observation per agent [N, …] and available actions [N, A] to actions [N]; of a single
        agent also as Gymnasium gives and takes them, […] and [A] to a number.
        """
        obs = np.asarray(obs, self.obs_type)
        if alone := self.shapes["obs"][1] == 1 and obs.ndim == len(self.shapes["obs"]) - 2:
            obs = obs[None]
        n_frames = int(self.about["frame_stack"])
        self.frames = [*(self.frames or [obs] * n_frames)[1:], obs]
        available = np.ones(self.shapes["avail_actions"], bool)
        if avail_actions is not None:
            available &= np.asarray(avail_actions) != 0
        inputs = {
            "obs": np.concatenate(self.frames, axis=1)[None],
            "avail_actions": available,
            "last_action": self.last_action,
            "hidden": self.hidden,
        }
        self.last_action, _, *memory = self.session.run(None, {k: inputs[k] for k in self.shapes})
        self.hidden = memory[0] if memory else self.hidden
        action = self.last_action[0] + np.array(self.about["first_action"].split(","), int)
        return int(action[0]) if alone else action


def main() -> None:
    """Play one episode, or act once."""
    policy = OnnxPolicy()
    about, (_, n_agents, first, *rest) = policy.about, policy.shapes["obs"]
    shape = (first // int(about["frame_stack"]), *rest)
    if about.get("gymnasium_id"):
        import gymnasium

        env = gymnasium.make(about["gymnasium_id"], **json.loads(about["gymnasium_kwargs"]))
        if env.observation_space.shape == shape:
            (obs, _), total, n_steps, over = env.reset(seed=0), 0.0, 0, False
            while not over:
                obs, reward, terminated, truncated, _ = env.step(policy.act(obs))
                total, n_steps, over = total + float(reward), n_steps + 1, terminated or truncated
            print(f"{about['gymnasium_id']}: return {total:g} in {n_steps} steps")
            return
    actions = policy.act(np.zeros((n_agents, *shape)))
    print(f"{about['what']}: observations of zeros give the actions {actions}")


if __name__ == "__main__":
    main()
