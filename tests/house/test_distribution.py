"""Wheel and sdist: what is inside, and that each installs and runs in a fresh environment (slow)."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile

import pytest

import envs_data
from tests.distribution import REPOSITORY_ONLY, DistributionError, check_content, main, packaged_files
from tests.house.house_pages import ROOT


def test_a_wheel_must_hold_modules_data_presets_templates_and_pages():
    wanted = packaged_files()
    stored = [{**entry["splits"], **entry.get("attachments", {})} for entry in envs_data.manifest().values()]
    assert {f"envs_data/{part['file']}" for parts in stored for part in parts.values()} <= wanted
    assert {
        "baselines/cli/main.py",
        "baselines/experiments/laptop/figure3_marft_a_duo.toml",
        "baselines/report/page/main.js",
        "envs_data/manifest.json",
        "marft_envs/plugins/bfcl/teams/duo_en.json",
        "marft_envs/sandbox/Dockerfile",
        "marft_envs/sandbox/jail/spawn.c",
        "marft_envs/teams/presets/math_duo_en.json",
    } <= wanted
    assert any(name.startswith("baselines/scaffold/template/") for name in wanted)
    assert not any(
        name.startswith((*REPOSITORY_ONLY, "envs_data/build/", "baselines/third_party/", "marft_envs/sandbox/attacks/"))
        for name in wanted
    )


@pytest.mark.parametrize(
    ("left_out", "added", "message"),
    [
        ((), (), None),
        (("envs_data/manifest.json",), (), r"lacks 1 files, first \['envs_data/manifest.json'\]"),
        ((), ("tests/helpers/fakes.py",), r"holds 1 files that it must not, first \['tests/helpers/fakes.py'\]"),
        ((), ("envs_data/build/math.py",), r"must not, first \['envs_data/build/math.py'\]"),
    ],
)
def test_a_wheel_with_other_files_is_refused(tmp_path, left_out, added, message):
    wheel = tmp_path / "marft-0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in (packaged_files() - set(left_out)) | set(added) | {"marft-0.dist-info/METADATA"}:
            archive.writestr(name, "")
    if message is None:
        check_content(wheel)
    else:
        with pytest.raises(DistributionError, match=message):
            check_content(wheel)


@pytest.mark.slow
def test_wheel_and_sdist_install_and_run_outside_of_the_checkout(tmp_path, capsys):
    """Both are built from a copy of the tracked files, with the backend that `python -m build` calls."""
    source = tmp_path / "source"
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, tracked.stdout.split("\0")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, source / name)
    (tmp_path / "dist").mkdir()
    for kind in ("sdist", "wheel"):
        code = f"import setuptools.build_meta as backend; backend.build_{kind}({str(tmp_path / 'dist')!r})"
        subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True, check=True)
    built = sorted((tmp_path / "dist").iterdir())
    assert [path.suffix for path in built] == [".whl", ".gz"]
    assert main(["--borrow", *map(str, built)]) == 0
    assert capsys.readouterr().out.count("installs and runs") == 2
