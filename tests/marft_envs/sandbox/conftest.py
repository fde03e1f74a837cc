import os
import shutil

import pytest

from marft_envs.sandbox import Judge
from marft_envs.sandbox import judge as judge_module
from marft_envs.sandbox.image import DEFAULT_IMAGE

BACKENDS = (
    pytest.param("docker", marks=(pytest.mark.docker, pytest.mark.attacks)),
    pytest.param("bubblewrap", marks=(pytest.mark.bubblewrap, pytest.mark.attacks)),
    "landlock",
)


@pytest.fixture(scope="session", autouse=True)
def held():
    """`test_selection.py` attacks each backend; without this, every worker of pytest would attack each once more."""
    judge_module._held |= {(backend, DEFAULT_IMAGE) for backend in judge_module.ISOLATING}


@pytest.fixture(scope="session", params=BACKENDS)
def judge(request):
    """A judge of each backend in turn, with two slots. What is missing fails; only bubblewrap may, outside CI."""
    if request.param == "bubblewrap" and shutil.which("bwrap") is None and not os.environ.get("CI"):
        pytest.skip("bubblewrap is not installed")
    with Judge(backend=request.param, workers=2) as made:
        yield made
