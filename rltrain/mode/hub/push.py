"""mode=push: a run with one checkpoint, its curve and its model card, sent to the Hub."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from rltrain.common import checkpoint
from rltrain.common.files import PAGES, json_object, newest, put_text
from rltrain.common.metrics import read_test
from rltrain.errors import UsageError, reason
from rltrain.logger.screen import Screen
from rltrain.mode.evaluate import open_checkpoint
from rltrain.mode.find_run import chosen_again, training_run
from rltrain.mode.hub.download import PREFIX, client
from rltrain.mode.messages.card import VIDEOS, card, describes_run
from rltrain.mode.messages.closing import evaluate_command, to_trust

SENT = ("config.json", "run.json", "metrics.jsonl", "learning_curve.png")


@chosen_again
def push(
    path: str | Path, overrides: Sequence[str], load_step: int | Literal["best"] | None
) -> str:
    """Send a run to the repository ``hub.repo``, which is created if missing; returns what
    ``checkpoint=`` takes.

    Raises:
        CheckpointError: nothing trustworthy at ``path``.
        UsageError: no repository is named, the extra is missing, or the Hub refuses.
    """
    source, settings = open_checkpoint(path, overrides, load_step, plays=False)
    hub, run_dir = settings.run.hub, training_run(source.folder)
    if hub.repo is None or not re.fullmatch(r"[\w.-]+/[\w.-]+", hub.repo):
        raise UsageError(
            f"mode=push needs a repository, got hub.repo={hub.repo or 'null'}: type "
            "hub.repo=owner/name, such as hub.repo=me/qmix-3m."
        )
    repo, address = hub.repo, f"{PREFIX}{hub.repo}"
    api = client(f"hub.repo={repo}")
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        checkpoint.copy_weights(source.folder, folder / "checkpoints" / str(source.step))
        facts = json_object(run_dir / "run.json")
        if describes_run(facts):
            facts |= {name: read_test(facts.get(name)) for name in ("final_test", "best_test")}
            recorded = [path for form in (VIDEOS, PAGES) for path in newest(run_dir, form)]
            for name in [*map(Path, SENT), *recorded]:
                if (run_dir / name).is_file():
                    (folder / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(run_dir / name, folder / name)
            trust = to_trust(json_object(source.folder / "config.json"))
            evaluate = evaluate_command(address, trust)
            commands = {evaluate, evaluate.replace("mode=evaluate", "mode=watch")}
            text = card(folder, settings, facts, sorted(commands), trust, address)
            put_text(folder / "README.md", text)
        try:
            api.create_repo(repo_id=repo, private=hub.private, exist_ok=True)
            api.upload_folder(repo_id=repo, folder_path=folder, commit_message="rltrain mode=push")
        except Exception as error:
            raise UsageError(
                f"hub.repo={repo}: the Hub did not accept the run ({reason(error)}). Check the "
                "network, the name, and the login: type hf auth login, or set HF_TOKEN."
            ) from error
    Screen().lines(*source.remarks)
    return address
