"""Sources of rows: an embedded set, a file, a folder of splits, or the hub."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import envs_data
from envs_data import DataError
from marft_common.installation import pip_install
from marft_envs.data.column_formats import Fields
from marft_envs.data.files import Row, find_split, read_file

MATH_CONFIGS = frozenset(
    ("algebra", "counting_and_probability", "geometry", "intermediate_algebra", "number_theory", "prealgebra",
     "precalculus")
)  # fmt: skip
"""The seven configurations of EleutherAI/hendrycks_math: parts of one set, so all are read."""


class Source(NamedTuple):
    """Rows of one split under a short name.

    Attributes:
        name: First part of generated task ids.
        rows: At least one row.
    """

    name: str
    rows: Sequence[Row]


class Hub(Protocol):
    """The two functions of `datasets` that we use; tests pass their own object."""

    def get_dataset_config_names(self, path: str, *, revision: str | None) -> list[str]:
        """Return the configurations of a data set."""

    def load_dataset(self, path: str, name: str, *, revision: str | None) -> Mapping[str, Iterable[Mapping[str, Any]]]:
        """Return its splits."""


def open_source(kind: str, data: str, split: str, hub: Callable[[], Hub]) -> Source:
    """Return the rows that `data` names.

    Args:
        kind: Kind of task; its embedded set has the same name.
        data: "embedded", "embedded:NAME" (a set, or a folder that has one of the kind's name), a file, a folder, or
            "hub:OWNER/NAME[:CONFIG][@REVISION]".
        split: Name of the split; a single file is one split and takes any name.
        hub: Returns the module `datasets`; called for "hub:" only.

    Raises:
        DataError: There is no such data or no such split.
    """
    scheme, _, rest = data.partition(":")
    if scheme == "embedded":
        name = f"{rest}/{kind}" if f"{rest}/{kind}" in envs_data.names() else rest or kind
        rows = enumerate(envs_data.rows(name, split), start=1)
        return Source(name.replace("/", "-"), [Row(f"embedded:{name}:{split}:{i}", row) for i, row in rows])
    if scheme == "hub":
        return _from_hub(rest, split, hub())
    path = Path(data).expanduser()
    if path.is_dir():
        return Source(path.resolve().name, read_file(find_split(path, split)))
    if not path.exists():
        raise DataError(
            str(path), "no such file or folder",
            '"embedded", "embedded:NAME", "hub:OWNER/NAME" or a path', "check the path",
        )  # fmt: skip
    return Source(path.stem, _of_split(read_file(path), path, split))


def _of_split(rows: list[Row], path: Path, split: str) -> list[Row]:
    """Return the rows with this value in the column "split" (case ignored); all rows if there is no such column."""
    columns = [Fields(row.columns) for row in rows]
    if not any("split" in fields for fields in columns):
        return rows
    chosen = [row for row, fields in zip(rows, columns, strict=True) if fields.get("split") == split]
    if not chosen:
        found = ", ".join(sorted({str(fields.get("split")) for fields in columns}))
        raise DataError(str(path), f"splits: {found}", f"split {split!r}", "name one that is there")
    return chosen


def installed_hub() -> Hub:
    """Return the module `datasets`.

    Raises:
        DataError: It is not installed.
    """
    try:
        import datasets  # an extra, and slow to import
    except ImportError as error:
        raise DataError(
            "hub", "no package datasets", "it, to read from the hub", f"run {pip_install('data')}"
        ) from error
    module: Hub = datasets
    return module


def _from_hub(spec: str, split: str, hub: Hub) -> Source:
    rest, _, revision = spec.partition("@")
    path, _, config = rest.partition(":")
    where = f"hub:{path}"
    if not path:
        raise DataError(where, "no name", "hub:OWNER/NAME", "name a data set")
    try:
        configs = [config] if config else _configs(where, hub.get_dataset_config_names(path, revision=revision or None))
        parts = {name: hub.load_dataset(path, name, revision=revision or None) for name in configs}
    except DataError:
        raise
    except Exception as error:  # datasets raises a dozen unrelated kinds: network, script, YAML, hub
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise DataError(where, reason, "a readable data set", "check name, configuration and network") from error
    rows: list[Row] = []
    for name, splits in parts.items():
        if split not in splits:
            raise DataError(
                f"{where}:{name}",
                f"splits: {', '.join(splits)}",
                f"split {split!r}",
                "name one that is there",
            )
        rows += [Row(f"{where}:{name}:{split}: row {i}", row) for i, row in enumerate(splits[split], start=1)]
    if not rows:
        raise DataError(where, "no rows", "at least one", "check the data set on the hub")
    return Source(path.rstrip("/").rpartition("/")[2], rows)


def _configs(where: str, found: list[str]) -> list[str]:
    """Choose a configuration when the user named none."""
    if len(found) == 1 or set(found) == MATH_CONFIGS:
        return sorted(found)
    for usual in ("main", "default"):
        if usual in found:
            return [usual]
    raise DataError(where, f"configurations: {', '.join(found)}", "one", f"write {where}:{found[0]} or another")
