"""Install a wheel or an sdist in a fresh virtual environment, and use it outside of the checkout.

    python tests/distribution.py dist/*.whl dist/*.tar.gz
    python tests/distribution.py --borrow dist/*.whl

With --borrow nothing is downloaded: the environment sees the packages that are installed beside this Python, except
marft. First the files inside are compared with the checkout. Part of the release workflow; not part of the wheel.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).parents[1]
SETUP = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
REPOSITORY_ONLY = ("tests/", "docs/", "examples/", "runs/", "benchmarks/", "docs_generator/")
ENV = ["--env", "marft/gsm8k_duo-v0", "--data", "embedded:stories"]
TINY = ["--model", "tiny", "--groups", "2", "--group-size", "2", "--max-new-tokens", "4", "--device", "cpu"]
USES = (
    ["marft", "envs"],
    ["marft", "data", "check"],
    ["marft", "play", "marft/tools_duo-v0", "--policy", "scripted"],
    ["marft", "check", "marft/math_duo-v0", "--quick"],
    ["marft", "sandbox", "check", "--backend", "landlock"],
    ["marft", "new", "word_games"],
    ["marft", "train", *ENV, *TINY, "--updates", "1", "--out", "run"],
    ["marft", "train", "--config", "laptop/figure3_marft_a_duo", "--print-config"],
    ["marft", "report", "run", "--out", "report.html"],
    ["python", "-c", "import marft_envs, pettingzoo; pettingzoo.make('aec', 'marft/math_duo-v0').reset(seed=0)"],
)
IMPORTED_FROM = "import baselines, marft_envs; print(baselines.__file__, marft_envs.__file__, sep='\\n')"


class DistributionError(RuntimeError):
    """Error for a distribution with wrong content, or one that does not install or run."""


# -------------------------------------------------------------------- content


def packaged_files() -> set[str]:
    """Return the files of the checkout that a wheel must hold: modules and data of the packages."""
    find, data = SETUP["packages"]["find"], SETUP["package-data"]
    found = set()
    for top in data:
        for path in (ROOT / top).rglob("*.py"):
            package = ".".join(path.parent.relative_to(ROOT).parts)
            excluded = any(fnmatchcase(package, pattern) for pattern in find["exclude"])
            if (path.parent / "__init__.py").is_file() and not excluded:
                found.add(path.relative_to(ROOT).as_posix())
        for pattern in data[top]:
            files = f"{pattern}/*" if pattern.endswith("**") else pattern  # here, ** alone matches folders
            found |= {path.relative_to(ROOT).as_posix() for path in (ROOT / top).glob(files) if path.is_file()}
    return {name for name in found if "__pycache__" not in name}


def files_in(distribution: Path) -> set[str]:
    """Return the files of a wheel or an sdist; those of an sdist without its top folder."""
    if distribution.suffix == ".whl":
        with zipfile.ZipFile(distribution) as wheel:
            return set(wheel.namelist())
    with tarfile.open(distribution) as sdist:
        return {member.name.partition("/")[2] for member in sdist.getmembers() if member.isfile()}


def check_content(distribution: Path) -> None:
    """Compare a distribution with the checkout.

    Raises:
        DistributionError: A module or data file is missing, or tests and generators are inside.
    """
    found = files_in(distribution)
    if missing := sorted(packaged_files() - found):
        raise DistributionError(f"{distribution.name} lacks {len(missing)} files, first {missing[:5]}")
    ours = tuple(f"{name}/" for name in SETUP["package-data"])
    known = packaged_files()
    wrong = sorted(
        name for name in found if name.startswith(REPOSITORY_ONLY) or (name.startswith(ours) and name not in known)
    )
    if wrong:
        raise DistributionError(f"{distribution.name} holds {len(wrong)} files that it must not, first {wrong[:5]}")


# ------------------------------------------------------------ install and use


def install(distribution: Path, folder: Path, *, borrow: bool) -> Path:
    """Install a distribution in a fresh virtual environment; return the folder of its programs.

    Args:
        distribution: Wheel or sdist.
        folder: Folder of the virtual environment.
        borrow: True to use the packages installed beside this Python, and download nothing.
    """
    venv.create(folder, with_pip=not borrow)
    python = folder / "bin" / "python"
    if borrow:
        # A path file, not a call of site.addsitedir: editable installs of the borrowed packages stay out.
        inner = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
        (inner / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
        own = ["--no-deps", "--no-index", "--ignore-installed", "--no-build-isolation"]
        pip = [sys.executable, "-m", "pip", "--python", str(python)]
        wanted = str(distribution)
    else:
        own, pip = ["-c", str(ROOT / "constraints.txt")], [str(python), "-m", "pip"]
        wanted = f"marft[agents,math] @ {distribution.resolve().as_uri()}"
    _run([*pip, "--disable-pip-version-check", "install", "--quiet", *own, wanted], folder)
    return python.parent


def use(programs: Path, folder: Path) -> None:
    """Use an installed distribution in an empty folder.

    Raises:
        DistributionError: A command fails, or the packages are imported from the checkout.
    """
    places = _run([str(programs / "python"), "-c", IMPORTED_FROM], folder).splitlines()
    if not all(Path(place).is_relative_to(programs.parent) for place in places):
        raise DistributionError(f"imported from {places}, wanted from {programs.parent}")
    for program, *arguments in USES:
        _run([str(programs / program), *arguments], folder)


def _run(command: Sequence[str], folder: Path) -> str:
    clean = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(
        command, cwd=folder, env=clean | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise DistributionError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """Check distributions; return the exit code."""
    parser = argparse.ArgumentParser(description="Install wheels and sdists in fresh environments, and use them.")
    parser.add_argument("distributions", nargs="+", type=Path, metavar="FILE", help="wheel or sdist")
    parser.add_argument("--borrow", action="store_true", help="use the installed packages, and download nothing")
    parsed = parser.parse_args(arguments)
    for distribution in parsed.distributions:
        check_content(distribution)
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch).resolve()
            (folder / "desk").mkdir()
            use(install(distribution.resolve(), folder / "venv", borrow=parsed.borrow), folder / "desk")
        print(f"{distribution.name}: {distribution.stat().st_size / 1e6:.1f} MB, installs and runs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
