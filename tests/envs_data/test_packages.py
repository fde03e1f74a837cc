"""Packages of the plugins: missing ones are named with the command, other versions and other data are refused."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

import marft_envs
from envs_data.digest import digest_of
from envs_data.packages import Package, PackageError
from marft_common.installation import pip_install
from marft_envs.registration.plugins import BUNDLED

MODULES = ("bfcl_eval", "tau2", "reasoning_gym", "plancraft", "textworld_express", "py4j", "agentdojo")
IDS = [name for name in marft_envs.envs() if marft_envs.spec(name).plugin in {plugin.name for plugin in BUNDLED}]


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Lay a package with a data file where Python finds it."""
    metadata, module = tmp_path / "worlds_of_tests-2.5.dist-info", tmp_path / "worlds_of_tests"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: worlds-of-tests\nVersion: 2.5\n")
    module.mkdir()
    (module / "__init__.py").write_text("raise RuntimeError('it is not to be imported')")
    (module / "tasks.json").write_text("[1]")
    monkeypatch.syspath_prepend(tmp_path)
    return Package("worlds-of-tests", "worlds_of_tests", "2.5", "pip install 'marft[worlds]'")


def test_the_bundled_plugins_register_without_importing_their_packages():
    code = (
        f"import sys, json, marft_envs; print(json.dumps([len(marft_envs.envs()), "
        f"sorted(set({MODULES!r}) & set(sys.modules))]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    count, imported = json.loads(done.stdout)
    assert count > len(IDS) >= 300
    assert imported == []


def test_a_missing_package_is_named_with_the_command():
    missing = Package("nowhere", "no_such_package", "1.0", "pip install 'marft[nowhere]'")
    with pytest.raises(PackageError, match=r"optional package nowhere: " + re.escape(pip_install("nowhere"))):
        missing.folder  # noqa: B018


@pytest.mark.parametrize("plugin", [plugin.name for plugin in BUNDLED])
def test_every_plugin_says_what_to_install(plugin, monkeypatch):
    env_id = next(name for name in IDS if marft_envs.spec(name).plugin == plugin)
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
    for name in [name for name in sys.modules if name.startswith("marft_envs.plugins.")]:
        for cached in vars(sys.modules[name]).values():  # other tests have read files of the packages
            getattr(cached, "cache_clear", int)()
    with pytest.raises(ImportError, match=r"need the optional package .*pip install "):
        marft_envs.make(env_id)


def test_another_version_and_one_without_metadata_are_refused(package):
    wanted = re.escape(pip_install("worlds"))
    with pytest.raises(PackageError, match=r"found worlds-of-tests 2\.5, wanted 2\.6.*" + wanted):
        replace(package, version="2.6").folder  # noqa: B018
    shutil.rmtree(package.folder.parent / "worlds_of_tests-2.5.dist-info")
    with pytest.raises(PackageError, match=r"found worlds-of-tests of unknown version, wanted 2\.5.*\[worlds\]"):
        package.folder  # noqa: B018


def test_data_is_read_and_other_data_is_refused(package):
    assert package.read("tasks.json", hashlib.sha256(b"[1]").hexdigest()) == b"[1]"
    with pytest.raises(PackageError, match=r"tasks\.json: found data with SHA-256 \w{64}, wanted 00"):
        package.read("tasks.json", "00")
    with pytest.raises(PackageError, match=r"gone\.json cannot be read .*--force-reinstall"):
        package.read("gone.json", "00")


def test_other_files_are_refused_until_they_are_restored(package):
    folder, right = package.folder, digest_of(package.folder, ["*.json"])
    (folder / "tasks.json").write_text("[2]")
    told = rf"worlds-of-tests 2\.5 in .*: found files with SHA-256 \w{{64}}, wanted {right}.*worlds-of-tests==2\.5$"
    with pytest.raises(PackageError, match=told):
        package.checked_folder(["*.json"], right)
    (folder / "tasks.json").write_text("[1]")
    assert package.checked_folder(["*.json"], right) == folder
