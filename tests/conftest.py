"""Configuration of all tests: same examples of Hypothesis in every run, no wait for a benchmark, a user of their own.

The profile `random` of Hypothesis draws other examples, by --hypothesis-seed.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings

# A machine may be slow or busy: no time limit for an example, and none for drawing it.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", _PATIENT, derandomize=True)
settings.register_profile("random", _PATIENT, derandomize=False, max_examples=300, database=None, print_blob=True)
settings.load_profile("same")

_ITEMS = pytest.StashKey[list[pytest.Item]]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Keep the list of all tests, before marks leave any out."""
    config.stash[_ITEMS] = list(items)


@pytest.fixture
def collected(request):
    """All tests that were collected, also those that marks leave out; None if this was only a part of the suite."""
    folders = {Path(argument).resolve() for argument in request.config.args}
    whole = folders & {request.config.rootpath, request.config.rootpath / "tests"}
    return request.config.stash[_ITEMS] if whole else None


def pytest_collection_finish():
    """Take modules and collected tests out of garbage collection: a full one of them would take half a second."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _state_of_a_new_user(tmp_path_factory):
    """The ledger of written files is that of a user who has written nothing yet; child processes inherit it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patch.delenv("MARFT_TRUST", raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_wait_for_the_disk():
    """Files are written as ever; only after a power failure would it show that nobody waited until a disk has them.

    A training of two small updates would wait thirty times. `os.fdatasync` waits.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)  # also raises an error for a file that is closed
        yield


@pytest.fixture
def short_benchmark(monkeypatch):
    """The five seconds of PettingZoo's performance benchmark pass in a hundredth of one."""
    benchmark = importlib.import_module("pettingzoo.test.performance_benchmark")
    monkeypatch.setattr(benchmark, "time", SimpleNamespace(time=lambda: 500 * time.time()))


@pytest.fixture(scope="session")
def connected():
    """One Ray cluster for all tests of it, to which this process is connected; its processes find the tests' modules.

    Yields:
        The cluster: a head with three cores and one slot of `marft_judge`.
    """
    import ray
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_memory_monitor_refresh_ms", "0")  # it kills workers where others fill the memory
        head = {"num_cpus": 3, "resources": {"marft_judge": 1}, "include_dashboard": False}
        made = Cluster(initialize_head=True, head_node_args=head | {"object_store_memory": 2**28})
        ray.init(made.address, log_to_driver=False, configure_logging=False)
        yield made
        ray.shutdown()
        made.shutdown()
