"""``battle-<n>.html``: test episodes to look into, in one file that loads nothing else.

Numbers are as few bytes, which the page's script unpacks: whole multiples of a step, as
differences in time, in planes of equal bytes, deflated together. The largest count of its width
is a number that is not finite, which the page leaves out.
"""

from __future__ import annotations

import json
import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

import numpy as np

from rltrain.common.files import JsonObject, put_text
from rltrain.common.json_text import without_nan
from rltrain.common.page import filled

STEP = 1 / 1024
"""Resolution of positions, values and other fractions, off by at most half of it."""
LEVELS = 8192
"""Fewest levels between the smallest and the largest number."""
LARGEST = 2**32 - 2
"""The largest count of a finite number."""

Entry = tuple[str, Sequence[int], int, float, float]
"""Name, shape, bytes of a number, smallest number and step."""


def write_viewer(path: Path, page: JsonObject, episodes: Sequence[JsonObject]) -> None:
    """Write the page; ``page`` and ``episodes`` as ``packed_page`` takes them."""
    script = files(__package__).joinpath("viewer.js").read_text(encoding="utf-8")
    fields = {
        "script": script,
        "hash": b64encode(sha256(script.encode()).digest()).decode(),
        "data": packed_page(page, episodes),
    }
    put_text(path, filled(__package__, "viewer", fields))


def packed_page(page: JsonObject, episodes: Sequence[JsonObject]) -> str:
    """A page's data as text (base64).

    Args:
        page: plain values.
        episodes: plain values, and under ``arrays`` arrays [T, …] by name.
    """
    heads, body = [], bytearray()
    for episode in episodes:
        entries = []
        for name, array in episode["arrays"].items():
            entry, planes = packed(name, array)
            entries.append(entry)
            body += planes
        heads.append({**episode, "arrays": entries})
    plain = without_nan({**page, "episodes": heads})
    head = json.dumps(plain, separators=(",", ":"), allow_nan=False).encode()
    return b64encode(zlib.compress(struct.pack("<I", len(head)) + head + body, 9)).decode()


def packed(name: str, array: np.ndarray) -> tuple[Entry, bytes]:
    """An array [T, …], and what a reader has to know."""
    numbers = np.asarray(array, np.float64)
    finite = np.abs(numbers) <= np.finfo(np.float32).max  # as the page's script has numbers
    known = numbers[finite]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
    whole = array.dtype.kind in "iub"
    step = 1.0 if whole else min(STEP, max(high - low, 1e-9) / LEVELS)
    step = max(step, (high - low) / LARGEST)
    counts = np.rint((np.where(finite, numbers, low) - low) / step).astype(np.uint64)
    width = next(w for w in (1, 2, 4) if int(counts.max(initial=0)) < 256**w - 1)
    counts = np.where(finite, counts, 256**width - 1).astype(f"<u{width}")
    counts[1:] -= counts[:-1].copy()  # modulo 256 ** width
    planes = np.ascontiguousarray(counts).view(np.uint8).reshape(-1, width).T
    return (name, list(array.shape), width, low, step), planes.tobytes()
