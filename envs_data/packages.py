"""Optional packages with tasks: the exact version, the command that installs it, checksums of its files."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from envs_data.digest import digest_of
from marft_common.installation import here


class PackageError(ImportError):
    """An optional package is missing, or of another version; the message has the command that installs it."""


@dataclass(frozen=True)
class Package:
    """An optional package in the one version whose tasks are registered.

    Attributes:
        name: Name of the distribution.
        module: Name of its top-level module.
        version: Version whose tasks the ids stand for; another version has other tasks.
        install: Shell command that installs it.
        needs: Modules of other distributions that it imports, where it is installed without its dependencies.
    """

    name: str
    module: str
    version: str
    install: str
    needs: tuple[str, ...] = ()

    @property
    def reinstall(self) -> str:
        """Shell command that restores its files; packages that it needs are left alone."""
        return f"pip install --force-reinstall --no-deps {self.name}=={self.version}"

    @property
    def folder(self) -> Path:
        """Folder of the installed package, which is not imported.

        Raises:
            PackageError: It is not installed, or in another version.
        """
        found = importlib.util.find_spec(self.module)
        if found is None or not found.submodule_search_locations:
            raise PackageError(f"these environments need the optional package {self.name}: {here(self.install)}")
        if missing := [module for module in self.needs if importlib.util.find_spec(module) is None]:
            raise PackageError(f"{self.name} is installed, but {', '.join(missing)} is not: {here(self.install)}")
        try:
            version = metadata.version(self.name)
        except metadata.PackageNotFoundError:
            version = "of unknown version"
        if version != self.version:
            raise PackageError(
                f"found {self.name} {version}, wanted {self.version}: another version has other tasks, and scores that "
                f"cannot be compared: {here(self.install)}"
            )
        return Path(found.submodule_search_locations[0])

    def read(self, path: str, sha256: str) -> bytes:
        """Return the content of a data file.

        Args:
            path: Path below the folder of the package.
            sha256: Checksum of the file whose tasks the ids stand for.

        Raises:
            PackageError: The package or the file is missing, or its content is another.
        """
        file = self.folder / path
        try:
            content = file.read_bytes()
        except OSError as error:
            raise PackageError(f"{file} cannot be read ({error}): {self.reinstall}") from error
        if (found := hashlib.sha256(content).hexdigest()) != sha256:
            raise PackageError(
                f"{file}: found data with SHA-256 {found}, wanted {sha256}: scores on other data cannot be compared: "
                f"{self.reinstall}"
            )
        return content

    def checked_folder(self, patterns: Sequence[str], sha256: str) -> Path:
        """Return the folder of the package after a check of the files that decide how its tasks are played.

        Files that passed are not hashed again in this process.

        Args:
            patterns: Patterns of these files below the folder, code included.
            sha256: Hash of their names and contents, see `digest_of`.

        Raises:
            PackageError: The package is missing, or one of these files is another.
        """
        folder = self.folder
        _check(self, folder, tuple(patterns), sha256)
        return folder


@lru_cache(maxsize=64)
def _check(package: Package, folder: Path, patterns: tuple[str, ...], sha256: str) -> None:
    """Compare the hash of the files. An error is not cached, so a package installed again is checked again."""
    if (found := digest_of(folder, patterns)) != sha256:
        raise PackageError(
            f"{package.name} {package.version} in {folder}: found files with SHA-256 {found}, wanted {sha256}: scores "
            f"with other files cannot be compared: {package.reinstall}"
        )
