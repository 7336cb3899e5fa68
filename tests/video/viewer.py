"""A reader of ``battle-<n>.html``, which knows of it what its own script knows."""

import json
import re
import struct
import zlib
from base64 import b64decode

import numpy as np


def read_page(text):
    """The page's data; an episode's arrays by name."""
    (data,) = re.findall(r'id="data">([^<]*)</script>', text)
    plain = zlib.decompress(b64decode(data))
    (size,) = struct.unpack_from("<I", plain)
    page, at = json.loads(plain[4 : 4 + size]), 4 + size
    for episode in page["episodes"]:
        arrays = {}
        for name, shape, width, low, step in episode["arrays"]:
            n = int(np.prod(shape))
            arrays[name] = unpacked(plain[at : at + n * width], shape, width, low, step)
            at += n * width
        episode["arrays"] = arrays
    assert at == len(plain)
    return page


def unpacked(planes, shape, width, low, step):
    """The numbers of one array."""
    n = int(np.prod(shape))
    columns = np.frombuffer(planes, np.uint8).reshape(width, n).T
    counts = np.ascontiguousarray(columns).view(f"<u{width}").reshape(shape)
    counts = np.cumsum(counts, 0, dtype=np.uint64) % 256**width
    return np.where(counts == 256**width - 1, np.nan, low + counts * step)
