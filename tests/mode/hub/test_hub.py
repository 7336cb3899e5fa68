"""Runs sent to the Hub and loaded from it; a folder stands in for the Hub."""

import inspect
import json
import shutil
from types import SimpleNamespace

import pytest

import rltrain
from rltrain.errors import CheckpointError, UsageError
from rltrain.mode.hub import download, push

COMMIT = "0123456789" * 4


class Folder:
    """The client's methods that are used, on a folder."""

    def __init__(self, root):
        self.root, self.private, self.fetched = root, None, []

    def create_repo(self, *, repo_id, private, exist_ok):
        self.private = private

    def upload_folder(self, *, repo_id, folder_path, commit_message):
        shutil.copytree(folder_path, self.root / repo_id, dirs_exist_ok=True)

    def repo_info(self, *, repo_id):
        if not (self.root / repo_id).is_dir():
            raise ConnectionError("no such repository")
        return SimpleNamespace(sha=COMMIT)

    def list_repo_tree(self, *, repo_id, recursive, revision):
        for path in sorted((self.root / repo_id).rglob("*")):
            name = path.relative_to(self.root / repo_id).as_posix()
            size = {"size": path.stat().st_size} if path.is_file() else {}
            yield SimpleNamespace(path=name, **size)

    def hf_hub_download(self, *, repo_id, filename, revision, local_dir):
        self.fetched.append(filename)
        (local_dir / filename).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.root / repo_id / filename, local_dir / filename)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    found = Folder(tmp_path / "hub")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for module in (download, push):
        monkeypatch.setattr(module, "client", lambda typed: found)
    return found


@pytest.fixture
def pushed(hub, trained, command):
    assert command("mode=push", f"checkpoint={trained}", "hub.repo=me/game") == 0
    return hub.root / "me/game"


def test_a_run_is_sent_with_its_card_and_the_weights_only(hub, pushed):
    sent = {path.relative_to(pushed).as_posix() for path in pushed.rglob("*") if path.is_file()}
    assert {"README.md", "run.json", "config.json", "learning_curve.png"} < sent
    weights = {"manifest.json", "config.json", "model.json", "model.safetensors", "spec.json"}
    steps = {name.split("/")[1] for name in sent if name.startswith("checkpoints/")}
    assert len(steps) == 1
    assert {name for name in sent if "checkpoints/" in name} == {
        f"checkpoints/{steps.copy().pop()}/{name}" for name in weights
    }
    card = (pushed / "README.md").read_text()
    assert "rltrain mode=evaluate checkpoint=hf://me/game" in card
    assert "load_policy('hf://me/game')" in card
    assert "outputs/" not in card, "no path of this machine"
    assert hub.private is True


@pytest.mark.parametrize("test", [None, "x", {"env_steps": 1, "test/return_mean": None}, [], {}])
def test_a_run_is_sent_whatever_its_last_test_was(hub, trained, command, test):
    """A metric that was NaN is null in run.json."""
    record = json.loads((trained / "run.json").read_text())
    (trained / "run.json").write_text(json.dumps({**record, "final_test": test}))
    assert command("mode=push", f"checkpoint={trained}", "hub.repo=me/game") == 0
    assert (hub.root / "me/game" / "README.md").is_file()


def test_a_run_from_the_hub_acts_and_is_evaluated_as_the_sent_one(hub, pushed, trained, command):
    expected = rltrain.evaluate(trained, episodes=2, seed=0).metrics
    assert rltrain.evaluate("hf://me/game", episodes=2, seed=0).metrics == expected
    first = len(hub.fetched)
    assert rltrain.load_policy("hf://me/game").step == rltrain.load_policy(trained).step
    assert len(hub.fetched) == first, "nothing is downloaded twice"
    assert not list((download.cache() / "me--game" / COMMIT).glob("evaluation*")), "kept as it was"


def test_one_checkpoint_is_downloaded_where_one_is_named(hub, pushed):
    (step,) = (path.name for path in (pushed / "checkpoints").iterdir())
    shutil.copytree(pushed / "checkpoints" / step, pushed / "checkpoints/7")
    download.download(f"hf://me/game/checkpoints/{step}")
    assert hub.fetched
    assert not any("checkpoints/7/" in name for name in hub.fetched)


def test_other_files_are_never_downloaded(hub, pushed):
    for name in ("setup.py", "model.pkl", "checkpoints/evil.py", "checkpoints/5/../../x.json"):
        (pushed / name).parent.mkdir(parents=True, exist_ok=True)
        (pushed / name).write_text("raise SystemExit")
    download.download("hf://me/game")
    assert not [name for name in hub.fetched if name.endswith((".py", ".pkl", "x.json"))]
    assert not [name for name in hub.fetched if name.endswith((".md", ".jsonl", ".png"))]


def test_a_file_that_is_too_large_is_refused(hub, pushed, monkeypatch):
    monkeypatch.setitem(download.MAX_BYTES, ".safetensors", 10)
    with pytest.raises(CheckpointError, match=r"model.safetensors has .* bytes, too many"):
        download.download("hf://me/game")
    assert not [name for name in hub.fetched if name.endswith(".safetensors")]


def test_a_changed_weight_file_is_refused(hub, pushed):
    (weights,) = pushed.glob("checkpoints/*/model.safetensors")
    before = weights.read_bytes()
    weights.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    with pytest.raises(CheckpointError, match="damaged"):
        rltrain.load_policy("hf://me/game")


@pytest.mark.parametrize(
    ("typed", "error", "message"),
    [
        ("hf://me/nothing", CheckpointError, "no such repository"),
        ("hf://me", UsageError, "expected hf://owner/name"),
        ("hf://me/../secret", UsageError, "expected hf://owner/name"),
    ],
)
def test_an_address_without_a_run_is_explained(hub, command, typed, error, message):
    with pytest.raises(error, match=message):
        command("mode=evaluate", f"checkpoint={typed}")


def test_what_cannot_be_sent_or_continued_is_explained(hub, trained, command, monkeypatch):
    with pytest.raises(UsageError, match="mode=push needs a checkpoint"):
        command("mode=push", "hub.repo=me/game")
    with pytest.raises(UsageError, match=r"got hub.repo=null: type hub.repo=owner/name"):
        command("mode=push", f"checkpoint={trained}")
    with pytest.raises(UsageError, match="weights only and cannot be continued"):
        command("resume=hf://me/game")
    monkeypatch.setattr(hub, "create_repo", lambda **_: 1 / 0)
    with pytest.raises(UsageError, match="hf auth login"):
        command("mode=push", f"checkpoint={trained}", "hub.repo=me/game")


def test_the_client_has_what_is_used():
    api = pytest.importorskip("huggingface_hub").HfApi
    for name, method in inspect.getmembers(Folder, inspect.isfunction):
        if not name.startswith("_"):
            used = set(inspect.signature(method).parameters)
            assert used <= set(inspect.signature(getattr(api, name)).parameters), name


def test_a_missing_package_is_named(trained, command, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="huggingface_hub, which is not installed"):
        command("mode=push", f"checkpoint={trained}", "hub.repo=me/game")
