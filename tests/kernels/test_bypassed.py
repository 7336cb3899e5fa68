"""Plain code that a compiled run does not call is in the table, so that edits of it are noticed."""

import importlib
import inspect
import pkgutil
import sys
from collections import Counter
from operator import attrgetter
from pathlib import Path
from types import FunctionType

import pytest

import rltrain
from rltrain import kernels
from rltrain.kernels import digests
from rltrain.kernels.captured import global_names
from tests.kernels.run_edits import COMMON, DQN, QMIX

PACKAGE = Path(rltrain.__file__).parent
SHORT = *COMMON, "algo.exploration.start=1", "algo.exploration.end=1"  # the same steps
NOISY = [word for word in COMMON if not word.startswith("algo.exploration")]
RUNS = {
    "dqn": (*DQN, *SHORT, "algo.lr_factors=[[0,1],[9,0.5]]"),
    "qmix": (*QMIX, *SHORT),
    "rainbow": (
        *("algo=rainbow", "env=cartpole", *NOISY, "algo.learning_starts=10"),
        *("algo.batch_size=8", "algo.network.hidden_sizes=[8]"),
    ),
    "pqn": (
        "algo=pqn",
        "env=cartpole",
        *SHORT,
        *("algo.steps_per_collect=16", "algo.batch_size=32"),
        "algo.network.hidden_sizes=[8]",
    ),
}


EXCEPTIONS = {
    "rltrain/algo/cpu_math.py: one_thread": "number of threads, not what they compute",
    "rltrain/algo/checks.py: BatchCheck.result": "a check",
    "rltrain/common/env_values.py: array_forms": "a check of the environment, which is compiled",
    "rltrain/common/env_values.py: require_ended": "the same",
    "rltrain/common/machine/torch_settings.py: EnvContext.__enter__": "what environments set",
    "rltrain/common/machine/torch_settings.py: EnvContext.__exit__": "the same",
    "rltrain/common/machine/torch_settings.py: read_settings": "the same",
    "rltrain/common/machine/torch_settings.py: random_state": "the same",
    "rltrain/callback/hooks.py: Callback.__setattr__": "notices hooks, not counters",
    "rltrain/common/metrics.py: one_number": "a check of metrics, which are arrays of numbers here",
    # called once for several steps, between which its result cannot change
    "rltrain/algo/exploration/epsilon.py: EpsilonGreedy.epsilon": "of a clock",
    "rltrain/common/schedule.py: linear": "of a clock, for epsilon",
    "rltrain/common/schedule.py: piecewise": "of a clock, for the learning rate",
    "rltrain/types.py: Clock.after_update": "called by update and by the loop, compiled once",
    "rltrain/algo/flat_parameters.py: Buffers.copies": "of buffers, without which it is compiled",
    "rltrain/algo/flat_parameters.py: FlatParameters.gradient": "where the gradient lies",
    "rltrain/algo/flat_parameters.py: FlatParameters.require_attached": "a check",
    "rltrain/buffer/replay.py: ReplayBuffer.keeps_hidden": "a setting",
    "rltrain/env/games/classic_control.py: ClassicControl.moved": "gets the number of steps",
    "rltrain/callback/replaced_code.py: ReplacedCode.look": "notices edits, before each batch",
}
"""Functions that compiled code calls less often or never, although edits of them go unnoticed."""


def calls(words, kernels, folder):
    """How often each function of the package is called in 80 env steps, by file and name."""
    trainer = rltrain.make_trainer([*words, f"hardware.kernels={kernels}"], run_dir=folder)
    counts = Counter()

    def count(frame, event, arg):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(f"{PACKAGE}/"):
            file = f"rltrain/{Path(code.co_filename).relative_to(PACKAGE)}"
            counts[file, code.co_qualname.partition(".<locals>")[0]] += 1

    trainer.start()
    trainer.run(40)
    before = trainer.clock.updates
    sys.setprofile(count)
    try:
        trainer.run(120)
    finally:
        sys.setprofile(None)
    assert trainer.clock.updates > before
    trainer.close()
    return counts


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_functions_that_compiled_code_skips_are_watched(name, tmp_path):
    """Defect: batches that another ``Store.batch`` returned were not learned from."""
    plain, compiled = (calls(RUNS[name], k, tmp_path / k) for k in ("torch", "compiled"))
    watched = digests.current()
    skipped = {
        f"{file}: {function}"
        for (file, function), n in plain.items()
        if compiled[file, function] < n
        and not file.startswith("rltrain/kernels/")
        and not is_watched(watched, file, function)
    }
    assert skipped - EXCEPTIONS.keys() == set()


def is_watched(places, file, function):
    module = file.removeprefix("rltrain/").removesuffix(".py").replace("/", ".")
    names = function, function.rpartition(".")[0]  # or a class without it
    return any(f"{module}:{name}" in places for name in names)


def test_what_plain_and_compiled_code_call_is_looked_up_at_every_call():
    """Functions that are not watched, and that plain code finds in its own module. Defect: IQN
    learned and acted with levels of another ``draw_levels`` than the one that it was replaced by.
    """
    called = set()
    for place in digests.known():
        module = digests.find_module(place)
        value = inspect.unwrap(digests.undecorated(attrgetter(place.partition(":")[2])(module)))
        if isinstance(value, FunctionType):
            own = (vars(module).get(name) for name in global_names(value.__code__))
            called |= {f for f in own if getattr(f, "__module__", "") == module.__name__}
    for part in pkgutil.walk_packages(kernels.__path__, "rltrain.kernels."):
        held = vars(importlib.import_module(part.name)).values()
        assert not {f for f in held if isinstance(f, FunctionType)} & called
