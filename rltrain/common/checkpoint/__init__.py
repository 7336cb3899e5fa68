"""Checkpoints: atomic, checksummed, versioned and pickle-free folders of safetensors and JSON.

A checkpoint is written into a temporary folder, synced, given its manifest last, and renamed: it
is complete or it is not there. Tensors of a state go to ``<part>.safetensors``, arrays too large to
copy to ``<part>.<path>.npy``, everything else to ``<part>.json``. Public names are in
``__init__.pyi``.
"""

from rltrain.common.imports import public_names

__all__, __getattr__ = public_names(__name__)
