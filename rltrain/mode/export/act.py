"""Acts greedily with policy.onnx; needs numpy and onnxruntime, not rltrain."""

from pathlib import Path

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

    def act(self, obs: np.ndarray, avail_actions: np.ndarray | None = None) -> np.ndarray:
        """One observation per agent [N, …] and available actions [N, A] to actions [N]."""
        obs = np.asarray(obs, self.obs_type)
        n_frames = int(self.about["frame_stack"])
        self.frames = [*(self.frames or [obs] * n_frames)[1:], obs]
        every = np.ones(self.shapes["avail_actions"], bool)
        inputs = {
            "obs": np.concatenate(self.frames, axis=1)[None],
            "avail_actions": every if avail_actions is None else every & (avail_actions != 0),
            "last_action": self.last_action,
            "hidden": self.hidden,
        }
        self.last_action, _, *memory = self.session.run(None, {k: inputs[k] for k in self.shapes})
        self.hidden = memory[0] if memory else self.hidden
        return self.last_action[0] + int(self.about["first_action"])
