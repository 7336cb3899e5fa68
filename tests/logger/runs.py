"""A run as displays see it, whose clock the test moves."""

from dataclasses import dataclass, field

from rltrain.common.progress import Progress
from rltrain.types import Clock


@dataclass
class FakeRun:
    clock: Clock = field(default_factory=Clock)
    seconds: float = 0.0
    total_env_steps: int = 1000
    stopping: str | None = None
    progress: Progress = field(default_factory=Progress)

    def at(self, env_steps: int, seconds: float, updates: int = 1):
        self.clock, self.seconds = Clock(env_steps, 0, updates), seconds
        return self
