"""Checkpoints: atomic, checksummed, versioned and pickle-free folders of safetensors and JSON.

A checkpoint is written into a temporary folder, synced, given its manifest last, and renamed: it
is complete or it is not there. Tensors of a state go to ``<part>.safetensors``, arrays too large to
copy to ``<part>.<path>.npy``, everything else to ``<part>.json``.
"""

from rltrain.common.checkpoint.locate import (
    MANIFEST,
    Found,
    drop_part,
    find,
    folder_of,
    is_one,
    kind_of,
    manifest_of,
    name_pointer,
    newest_full,
    pointed,
    put_manifest,
    resumable,
    seal,
    single,
    steps_of,
    stored_manifest,
)
from rltrain.common.checkpoint.retention import drop_later, make_latest, prune
from rltrain.common.checkpoint.storage import (
    CONFIG,
    MODEL,
    REPLAY,
    SPEC,
    TRAINER,
    has,
    read,
    restore_replaced,
    write,
)

__all__ = [
    "CONFIG",
    "MANIFEST",
    "MODEL",
    "REPLAY",
    "SPEC",
    "TRAINER",
    "Found",
    "drop_later",
    "drop_part",
    "find",
    "folder_of",
    "has",
    "is_one",
    "kind_of",
    "make_latest",
    "manifest_of",
    "name_pointer",
    "newest_full",
    "pointed",
    "prune",
    "put_manifest",
    "read",
    "restore_replaced",
    "resumable",
    "seal",
    "single",
    "steps_of",
    "stored_manifest",
    "write",
]
