"""The layers of `marft_envs` and the floors of `baselines`: each folder has one, and no module imports itself."""

import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]


def test_each_folder_of_baselines_has_a_floor():
    [layers] = [contract["layers"] for contract in CONTRACTS if contract["name"] == "floors of baselines"]
    listed = [name.strip() for layer in layers for name in layer.split("|")]
    there = {path.stem for path in (ROOT / "baselines").glob("*.py")} - {"__init__"}
    assert sorted(listed) == sorted(there | {path.parent.name for path in (ROOT / "baselines").glob("*/__init__.py")})


def test_each_folder_and_module_has_a_layer():
    [layers] = [contract["layers"] for contract in CONTRACTS if contract["name"] == "layers of the environments"]
    listed = {name.strip() for layer in layers for name in layer.split("|")}
    there = {path.stem for path in (ROOT / "marft_envs").glob("*.py")} - {"__init__"}
    there |= {path.parent.name for path in (ROOT / "marft_envs").glob("*/__init__.py")}
    assert listed == there


def graph(*more):
    found = grimp.build_graph("marft_envs", exclude_type_checking_imports=True, cache_dir=None)
    edges = {module: set(found.find_modules_directly_imported_by(module)) for module in found.modules}
    for importer, imported in more:
        edges[importer].add(imported)
    return edges


def test_no_module_imports_itself_by_way_of_others():
    TopologicalSorter(graph()).prepare()


def folders(*more):
    """Return the folders that each folder imports, those in functions and for type checkers included."""
    found = grimp.build_graph("marft_envs", cache_dir=None)
    edges: dict[str, set[str]] = {}
    pairs = [(one, other) for one in found.modules for other in found.find_modules_directly_imported_by(one)]
    for importer, imported in [*pairs, *more]:
        one, other = (".".join(module.split(".")[:2]) for module in (importer, imported))
        if one != other and "marft_envs" not in (one, other):
            edges.setdefault(one, set()).add(other)
    return edges


def test_no_folder_imports_itself_by_way_of_others():
    TopologicalSorter(folders()).prepare()


def test_a_circle_of_folders_would_be_found():
    with pytest.raises(ValueError, match="nodes are in a cycle"):
        TopologicalSorter(folders(("marft_envs.game.task", "marft_envs.tasks.math"))).prepare()


def test_a_circle_would_be_found():
    with pytest.raises(ValueError, match="nodes are in a cycle"):
        TopologicalSorter(graph(("marft_envs.spaces", "marft_envs.game.flex_mg"))).prepare()
