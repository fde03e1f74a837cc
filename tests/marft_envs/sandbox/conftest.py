import pytest

from marft_envs.sandbox import Judge
from marft_envs.sandbox import judge as judge_module
from marft_envs.sandbox.image import DEFAULT_IMAGE
from tests.marft_envs.sandbox.judge_backends import BACKENDS


@pytest.fixture(scope="session", autouse=True)
def held():
    """`test_selection.py` attacks each backend; without this, every worker of pytest would attack each once more."""
    judge_module._held |= {(backend, DEFAULT_IMAGE) for backend in judge_module.ISOLATING}


@pytest.fixture(scope="session", params=BACKENDS)
def judge(request):
    """A judge of each backend in turn, with two slots."""
    with Judge(backend=request.param, workers=2) as made:
        yield made
