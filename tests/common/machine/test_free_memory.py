"""Memory that is really there: the machine's, or what a container leaves."""

from types import SimpleNamespace

import pytest

from rltrain.common.machine.free_memory import available_memory, free_disk


@pytest.fixture(autouse=True)
def a_machine(monkeypatch):
    class Memory:
        available = 1000

    monkeypatch.setattr("psutil.virtual_memory", Memory)


def limited(folder, limit, usage, names=("memory.max", "memory.current")):
    for name, text in zip(names, (limit, usage), strict=True):
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{text}\n")
    return folder


def test_without_control_groups_the_machine_decides(tmp_path):
    assert available_memory(tmp_path / "nowhere") == 1000


def test_a_container_may_leave_less(tmp_path):
    assert available_memory(limited(tmp_path, 500, 200)) == 300
    assert available_memory(limited(tmp_path, 5000, 200)) == 1000
    assert available_memory(limited(tmp_path, 100, 200)) == 0


def test_no_limit_is_no_limit(tmp_path):
    assert available_memory(limited(tmp_path, "max", 200)) == 1000


def test_control_groups_of_the_first_kind(tmp_path):
    names = ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")
    assert available_memory(limited(tmp_path, 500, 100, names)) == 400


def test_the_room_for_a_folder_is_what_is_free_beside_its_own_files(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=1000))
    assert free_disk(tmp_path / "not" / "there") == 1000
    (tmp_path / "file").write_bytes(b"x" * 8192)
    assert free_disk(tmp_path) == 1000 + 8192
