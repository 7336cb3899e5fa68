"""A Ray cluster of several simulated nodes."""

import pytest

STORE = 100_000_000


@pytest.fixture(scope="module")
def cluster():
    """A head without CPUs and three nodes of two."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    import rltrain.hardware.ray.cluster  # noqa: F401  sets Ray's variables

    head = {"num_cpus": 0, "object_store_memory": STORE, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=head)
    made.nodes = [made.add_node(num_cpus=2, object_store_memory=STORE) for _ in range(3)]
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()
