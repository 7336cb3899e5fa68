"""An edit of any file of the path for readers changes what a default run trains."""

import json
from pathlib import Path

import pytest

import rltrain
from tests.helpers import python

PACKAGE = Path(rltrain.__file__).parent
RUN = """
import json, logging, sys
from tests.kernels.edits import replace_module
name, path, folder, *words = sys.argv[1:]
if path:
    replace_module(name, path)
import rltrain, torch
words = ["env=two_step", "hardware.threads=1", "logger=[]", *words]
trainer = rltrain.make_trainer(words, run_dir=folder)
trainer.run(300)
assert trainer.clock.updates > 5
sum_ = sum(float(p.detach().double().abs().sum()) for p in trainer.learner.online.parameters())
print(json.dumps({"sum": sum_, "updates": trainer.clock.updates}))
trainer.close()
"""
EDITS = {  # file: text, other text, whether a compiled counterpart has to step aside
    "trainer": ("self.update_ratio.due(", "2 * self.update_ratio.due(", False),
    "algo/learner": ("batch = self.reward_norm(batch)", "pass", False),
    "algo/loss/td": ("penalized(huber(", "penalized(3 * huber(", True),
    "algo/targets": (
        "target = reward + discounts * value\n    for",
        "target = reward\n    for",
        True,
    ),
    "algo/mixer/qmix": ("F.elu(mixed", "F.relu(mixed", True),
    "algo/network/gru": ("F.relu_(self.fc1(", "torch.tanh(self.fc1(", True),
}


def run(folder, name="", path="", words=()):
    done = python("-c", RUN, name, str(path), str(folder), *words, cwd=PACKAGE.parent)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stdout + done.stderr


@pytest.fixture(scope="module")
def unedited(tmp_path_factory):
    words = ["algo=qmix", "algo.reward_norm=scale", "algo.batch_size=4", "algo.learning_starts=0"]
    return words, run(tmp_path_factory.mktemp("runs") / "unedited", words=words)[0]


@pytest.mark.slow
@pytest.mark.parametrize("file", EDITS)
def test_an_edit_takes_effect(tmp_path, unedited, file):
    words, before = unedited
    text, other, steps_aside = EDITS[file]
    source = (PACKAGE / f"{file}.py").read_text()
    assert source.count(text) == 1
    copy = tmp_path / f"{file.rpartition('/')[2]}.py"
    copy.write_text(source.replace(text, other))
    name = f"rltrain.{file.replace('/', '.')}"
    shown, said = run(tmp_path / "auto", name, copy, words)
    plain, _ = run(tmp_path / "torch", name, copy, [*words, "hardware.kernels=torch"])
    assert abs(shown["sum"] - before["sum"]) > 1e-4 or shown["updates"] != before["updates"]
    assert shown["sum"] == pytest.approx(plain["sum"], rel=1e-4)
    assert (f"rltrain/{file}.py: " in said) is steps_aside
