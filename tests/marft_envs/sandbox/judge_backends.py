"""Backends of the judge for parametrised tests, with the marks of what they need."""

import pytest

DOCKER = pytest.param("docker", marks=(pytest.mark.docker, pytest.mark.attacks))
BUBBLEWRAP = pytest.param("bubblewrap", marks=(pytest.mark.bubblewrap, pytest.mark.attacks))
LOCAL = (BUBBLEWRAP, "landlock")  # these need no engine
BACKENDS = (DOCKER, *LOCAL)
