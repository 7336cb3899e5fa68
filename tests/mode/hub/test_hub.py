"""Runs sent to the Hub and loaded from it; a folder stands in for the Hub."""

import hashlib
import inspect
import json
import shutil
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import SimpleNamespace

import pytest

import rltrain
from rltrain.errors import CheckpointError, UsageError
from rltrain.mode.hub import download, push
from tests.helpers import changed_json

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
            entry = {"size": path.stat().st_size} if path.is_file() else {}
            oid = blob_id(path.read_bytes()) if path.is_file() else None
            yield SimpleNamespace(path=name, blob_id=oid, lfs=None, **entry)

    def hf_hub_download(self, *, repo_id, filename, revision, local_dir, force_download):
        self.fetched.append(filename)
        (local_dir / filename).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.root / repo_id / filename, local_dir / filename)


def blob_id(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@pytest.fixture
def hub(tmp_path, monkeypatch):
    found = Folder(tmp_path / "hub")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for module in (download, push):
        monkeypatch.setattr(module, "client", lambda typed: found)
    return found


@pytest.fixture
def pushed(hub, trained, command, monkeypatch):
    monkeypatch.setattr(push, "to_trust", lambda config: "mine" if config["algo"] else None)
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
    assert "rltrain mode=evaluate checkpoint=hf://me/game trust=[mine]" in card
    assert "load_policy('hf://me/game', trust=['mine'])" in card
    assert "outputs/" not in card, "no path of this machine"
    assert hub.private is True


def test_an_opponent_is_sent_without_the_results_of_the_run_that_it_played_in(hub, trained):
    """Defect: its weights were sent with that run's card."""
    one, *_ = (trained / "checkpoints").glob("[0-9]*")
    push.push(shutil.copytree(one, trained / "opponents/foe"), ["hub.repo=me/foe"], None)
    assert [path.name for path in (hub.root / "me/foe").iterdir()] == ["checkpoints"]


@pytest.mark.parametrize("test", [None, "x", {"env_steps": 1, "test/return_mean": None}, [], {}])
def test_a_run_is_sent_whatever_its_last_test_was(hub, trained, command, test):
    """A metric that was NaN is null in run.json."""
    with changed_json(trained / "run.json") as record:
        record["final_test"] = test
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


def test_what_cannot_be_sent_or_found_is_explained(hub, trained, command, monkeypatch):
    with pytest.raises(CheckpointError, match="no such repository"):
        command("mode=evaluate", "checkpoint=hf://me/nothing")
    with pytest.raises(UsageError, match=r"got hub.repo=null: type hub.repo=owner/name"):
        command("mode=push", f"checkpoint={trained}")
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


DAMAGE = {
    "half": lambda sent: [sent[: len(sent) // 2]],
    "longer": lambda sent: [sent, b"more"],
    "a page": lambda sent: [b"<html>Service unavailable</html>"],
    "endless": lambda sent: [sent, *([bytes(2**20)] * 64)],
    "a flipped byte": lambda sent: [sent[:-1], bytes([sent[-1] ^ 1])],
    "zeros": lambda sent: [bytes(len(sent))],
}
FILES = ["run.json", "checkpoints/best", "model.safetensors"]


class Server(ThreadingHTTPServer):
    """A Hub of one repository, which lists its files and sends them damaged."""

    def __init__(self, root):
        super().__init__(("127.0.0.1", 0), Handler)
        self.damage, self.damaged, self.times = None, None, 0
        self.info = {"id": "me/game", "sha": COMMIT}
        self.files = {
            path.relative_to(root).as_posix(): path.read_bytes()
            for path in root.rglob("*")
            if path.is_file()
        }
        self.listing = [self.listed(name, content) for name, content in self.files.items()]

    def listed(self, name, content):
        entry = {"type": "file", "path": name, "size": len(content), "oid": blob_id(content)}
        if name.endswith(".safetensors"):
            sha256 = hashlib.sha256(content).hexdigest()
            entry["lfs"] = {"oid": sha256, "size": len(content), "pointerSize": 130}
        return entry

    def parts(self, path):
        """The body of a reply, in parts."""
        _, _, name = path.partition(f"/resolve/{COMMIT}/")
        if not name:
            return [json.dumps(self.listing if "/tree/" in path else self.info).encode()]
        if self.times == 0 or not name.endswith(self.damaged):
            return [self.files[name]]
        self.times -= 1
        return self.damage(self.files[name])


class Handler(BaseHTTPRequestHandler):
    def do_HEAD(self):
        _, _, name = self.path.partition(f"/resolve/{COMMIT}/")
        content = self.server.files[name]
        self.send_response(200)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{blob_id(content)}"')
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        with suppress(OSError):  # the client has read enough
            for part in self.server.parts(self.path):
                self.wfile.write(part)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(pushed, monkeypatch):
    api = pytest.importorskip("huggingface_hub").HfApi
    (step,) = (path.name for path in (pushed / "checkpoints").iterdir())
    (pushed / "checkpoints/best").write_text(step)
    with Server(pushed) as found:
        thread = Thread(target=found.serve_forever, args=[0.01], daemon=True)
        thread.start()
        endpoint = f"http://127.0.0.1:{found.server_port}"
        monkeypatch.setattr(download, "client", lambda typed: api(endpoint=endpoint, token=False))
        yield found
        found.shutdown()
        thread.join()


def same(server, folder):
    """Whether the downloaded files are those of the server, and nothing else is there."""
    paths = [p for p in folder.rglob("*") if p.is_file() and ".cache" not in p.parts]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths} == {
        name: content for name, content in server.files.items() if download.FILES.fullmatch(name)
    }


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_download_is_not_kept(server, file, damage):
    server.damage, server.damaged, server.times = DAMAGE[damage], file, -1
    if damage in ("a flipped byte", "zeros"):  # left to what reads it
        download.download("hf://me/game")
    else:
        with pytest.raises(CheckpointError, match=r"not the [0-9,]+ bytes|cannot be downloaded"):
            download.download("hf://me/game")
    server.times = 0
    assert same(server, download.download("hf://me/game"))


def test_a_file_that_is_not_the_listed_one_is_fetched_again_once(server):
    server.damage, server.damaged, server.times = DAMAGE["zeros"], "model.safetensors", 1
    folder = download.download("hf://me/game")
    assert same(server, folder)
    (weights,) = folder.glob("checkpoints/*/model.safetensors")
    weights.write_bytes(bytes(weights.stat().st_size))
    assert same(server, download.download("hf://me/game")), "nor kept when it was damaged later"


@pytest.mark.parametrize(
    ("info", "entry", "message"),
    [
        ({"sha": ".."}, {}, "its commit is '..'"),
        ({"sha": None}, {}, "its commit is 'None'"),
        ({"id": ...}, {}, "'id' is missing"),
        ({}, {"type": ...}, "'type' is missing"),
        ({}, {"path": ...}, "'path' is missing"),
        ({}, {"path": 5}, "not int"),
        ({}, {"size": -1}, "run.json has -1 bytes"),
        ({}, {"size": "5"}, "run.json has '5' bytes"),
        ({}, {"size": 1.5}, "run.json has 1.5 bytes"),
    ],
)
def test_a_malformed_listing_is_explained(server, info, entry, message):
    def put(mapping, changes):
        kept = {**mapping, **changes}
        return {name: value for name, value in kept.items() if value is not ...}

    server.info = put(server.info, info)
    server.listing = [
        put(each, entry) if each["path"] == "run.json" else each for each in server.listing
    ]
    with pytest.raises(CheckpointError, match=r"hf://me/game: .*listing.*malformed") as caught:
        download.download("hf://me/game")
    assert message in str(caught.value)
    assert not list(download.cache().rglob("*.json"))


@pytest.mark.parametrize("which", ["info", "listing"])
def test_another_reply_than_a_listing_is_explained(server, which):
    for reply in ({"error": "busy"}, ["run.json"], "busy", None):
        setattr(server, which, reply)
        with pytest.raises(CheckpointError, match=r"hf://me/game: .*listing.*malformed"):
            download.download("hf://me/game")
