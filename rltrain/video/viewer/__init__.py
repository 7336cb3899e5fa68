"""``episodes.html``: test episodes to look into, in one file that loads nothing else."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from rltrain.common.files import put_text
from rltrain.common.page import filled
from rltrain.video.viewer.page_data import packed_page


def write_viewer(
    path: Path, page: Mapping[str, object], episodes: Sequence[Mapping[str, object]]
) -> None:
    """Write the page; ``page`` and ``episodes`` as ``packed_page`` takes them."""
    here = files(__package__)
    script = here.joinpath("viewer.js").read_text(encoding="utf-8")
    fields = {
        "css": here.joinpath("viewer.css").read_text(encoding="utf-8"),
        "script": script,
        "hash": b64encode(sha256(script.encode()).digest()).decode(),
        "data": packed_page(page, episodes),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    put_text(path, filled(__package__, "viewer.html", fields))
