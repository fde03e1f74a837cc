import os
import shutil

import pytest

from marft_envs.sandbox import Judge

BACKENDS = (
    pytest.param("docker", marks=pytest.mark.docker),
    pytest.param("bubblewrap", marks=pytest.mark.bubblewrap),
    "landlock",
)


@pytest.fixture(scope="session", params=BACKENDS)
def judge(request):
    """A judge of each backend in turn, with two slots. What is missing fails; only bubblewrap may, outside CI."""
    if request.param == "bubblewrap" and shutil.which("bwrap") is None and not os.environ.get("CI"):
        pytest.skip("bubblewrap is not installed")
    with Judge(backend=request.param, workers=2) as made:
        yield made
