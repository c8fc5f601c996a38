"""Settings of the tests: the machine's speed takes no part in a verdict, and examples are the same in every run."""

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "depthgraph", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("depthgraph")


@pytest.fixture
def one_thread():
    """Tiny matrices are slower on two threads, and far slower on a busy machine."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
