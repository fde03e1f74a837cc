"""Commands that install extras name the checkout where marft runs from one."""

import pytest

from marft_common import installation
from marft_common.installation import here, pip_install


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.setattr(installation, "CHECKOUT", tmp_path)
    return tmp_path


def test_in_a_checkout_its_folder_is_installed(checkout, monkeypatch):
    assert pip_install("agents") == f"pip install -e '{checkout}[agents]'"
    monkeypatch.chdir(checkout)
    assert pip_install("a2a,serve") == "pip install -e '.[a2a,serve]'"
    assert here("pip install 'marft[x]' && pip install --no-deps y==1") == (
        "pip install -e '.[x]' && pip install --no-deps y==1"
    )


def test_an_installed_package_is_named(checkout):
    (checkout / "pyproject.toml").unlink()
    assert pip_install("agents") == "pip install 'marft[agents]'"
