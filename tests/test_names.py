"""A name stands for one thing: no two files and no two classes share one."""

import re
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "rltrain"
FILES = [
    path
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.parent.name != "smaclite" and not path.name.startswith("__")
]
"""Without the battles of SMAClite, whose files double those of the engine."""
BACKENDS = {
    "vector.py": "environments side by side: in Python; battles and games of StarCraft II",
    "rollout.py": "rollouts in this process, and in worker processes",
    "worker.py": "the loop of a worker, and that of a game",
    "episode.py": "the buffer that YAML calls so, and the episodes of the engine",
}
"""Files of one name that are the same thing for two backends or packages."""


def shared(names):
    """The names that belong to several files."""
    places = defaultdict(list)
    for name, path in names:
        places[name].append(str(path.relative_to(PACKAGE)))
    return {name: paths for name, paths in places.items() if len(paths) > 1}


def test_no_two_files_share_a_name():
    assert set(shared((path.name, path) for path in FILES)) == set(BACKENDS)


def test_no_two_classes_share_a_name():
    texts = ((path, path.read_text(encoding="utf-8")) for path in FILES)
    found = [(name, path) for path, x in texts for name in re.findall(r"(?m)^ *class (\w+)", x)]
    assert len(found) > 300
    assert shared(found) == {}
