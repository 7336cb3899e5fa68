"""Device, threads, allocator, seeds, machine."""

import json
import os
import platform
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import torch

from rltrain.assemble.env import n_threads
from rltrain.config.compose import compose_checked
from rltrain.hardware import device
from tests.helpers import python


@pytest.fixture
def threads_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = torch.get_num_threads()
    for variable in device.THREAD_VARIABLES:
        monkeypatch.setenv(variable, os.environ.get(variable, "1"))
    yield
    torch.set_num_threads(before)


def test_auto_is_the_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for typed, found in (("auto", "cuda"), ("cpu", "cpu"), ("cuda", "cuda")):
        assert device.resolve_device(typed) == torch.device(found)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device.resolve_device("auto") == torch.device("cpu")
    with pytest.raises(ValueError, match=r"hardware\.device=cuda: .*Set hardware\.device=cpu or"):
        device.resolve_device("cuda")


@pytest.mark.parametrize(
    ("cores", "algo", "expected"), [(1, "drqn", 1), (8, "drqn", 2), (1, "dqn", 1), (8, "dqn", 1)]
)
def test_threads_are_chosen_by_the_kind_of_network(cores, algo, expected, monkeypatch):
    monkeypatch.setattr("rltrain.assemble.env.available_cores", lambda: cores)
    settings = compose_checked([f"algo={algo}", "env=cartpole", "hardware.threads=auto"]).settings()
    assert n_threads(settings) == expected


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_available_cores_are_those_of_this_process() -> None:
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        assert device.available_cores() == 1
    finally:
        os.sched_setaffinity(0, cores)
    assert device.available_cores() == len(cores)


@pytest.mark.usefixtures("threads_as_before")
@pytest.mark.parametrize("n", [1, 2])
def test_set_threads_reaches_torch_and_children(n: int) -> None:
    device.set_threads(n)
    assert torch.get_num_threads() == n
    assert {os.environ[v] for v in device.THREAD_VARIABLES} == {str(n)}


def test_the_allocator_policy_is_set_on_glibc_and_skipped_elsewhere(monkeypatch):
    assert device.set_allocator_policy() == (platform.libc_ver()[0] == "glibc")
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    assert device.set_allocator_policy() is False


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the policy is glibc's")
def test_with_the_policy_a_freed_block_costs_no_new_page_faults() -> None:
    code = """
import resource, numpy
from rltrain.hardware.device import set_allocator_policy

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        blocks = [numpy.ones(12 << 20, numpy.uint8) for _ in range(3)]
        del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

default = faults()
set_allocator_policy()
faults()
print(default, faults())
"""
    default, policy = map(int, python("-c", code, check=True).stdout.split())
    assert policy <= default / 10


def test_networks_depend_on_their_seed_alone_and_leave_torch_as_it_was() -> None:
    torch.manual_seed(1)
    expected = torch.rand(2)
    made = []
    for before in (1, 2):
        torch.manual_seed(before)
        with device.seed_networks(5):
            made.append(torch.nn.Linear(3, 2).weight.detach().clone())
    torch.manual_seed(1)
    with device.seed_networks(6):
        made.append(torch.nn.Linear(3, 2).weight.detach().clone())
    assert torch.equal(torch.rand(2), expected)
    assert torch.equal(made[0], made[1])
    assert not torch.equal(made[0], made[2])


def test_the_machine_can_be_written_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.13.0+cu130")
    machine = json.loads(json.dumps(device.machine()))
    assert machine["torch"] == "2.13.0+cu130"
    assert machine["python"] == platform.python_version()
    assert machine["cores"] >= 1
    assert machine["memory_bytes"] > 10**8
    assert {"cpu", "gpu", "numpy", "numba", "system"} <= set(machine)


def test_owners_of_the_generators_in_two_threads_at_once_are_warned_of_once(caplog):
    device.warn_of_threads.cache_clear()
    both = Barrier(2)

    def train(waits: bool) -> None:
        for _ in range(3):
            with device.TorchRandom(), device.TorchRandom():  # a test function trains as well
                if waits:
                    both.wait(60)

    with ThreadPoolExecutor(2) as threads:
        for _ in range(2):
            threads.submit(train, False).result()
        assert caplog.text == ""
        for each in [threads.submit(train, True) for _ in range(2)]:
            each.result()
    assert caplog.text.count("two threads of this process train at once") == 1
    assert device.TorchRandom.inside == []


def test_threads_may_leave_one_owner_in_any_order(caplog: pytest.LogCaptureFixture) -> None:
    """Defect: the thread that left last removed another than the one that had entered first."""
    device.warn_of_threads.cache_clear()
    owner = device.TorchRandom()
    with ThreadPoolExecutor(1) as a, ThreadPoolExecutor(1) as b:
        for thread, turn in ((a, owner.__enter__), (b, owner.__enter__)):
            thread.submit(turn).result()
        for thread in (a, b):
            thread.submit(owner.__exit__).result()
    assert caplog.text.count("two threads of this process train at once") == 1
    assert device.TorchRandom.inside == []
