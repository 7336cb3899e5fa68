"""``python -m rltrain.kernels.twins`` writes the digests of the plain code anew, after the
tests that compare the counterparts with it have passed.
"""

from __future__ import annotations

import json

from rltrain.kernels.twins.digests import FILE, current

if __name__ == "__main__":
    FILE.write_text(json.dumps(current(), indent=1) + "\n")
    print(f"wrote {FILE}")
