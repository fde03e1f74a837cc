"""The layers of `marft_envs` and the floors of `baselines`: each folder has one, and no module imports itself."""

import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]


@pytest.mark.parametrize(
    ("package", "contract"),
    [("baselines", "floors of baselines"), ("marft_envs", "layers of the environments")],
)
def test_each_folder_and_module_has_one_layer(package, contract):
    [layers] = [one["layers"] for one in CONTRACTS if one["name"] == contract]
    there = {path.stem for path in (ROOT / package).glob("*.py")} - {"__init__"}
    there |= {path.parent.name for path in (ROOT / package).glob("*/__init__.py")}
    assert sorted(name.strip() for layer in layers for name in layer.split("|")) == sorted(there)


def modules(*more):
    """Return the modules that each module imports when it is imported."""
    found = grimp.build_graph("marft_envs", exclude_type_checking_imports=True, cache_dir=None)
    edges = {module: set(found.find_modules_directly_imported_by(module)) for module in found.modules}
    for importer, imported in more:
        edges[importer].add(imported)
    return edges


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


@pytest.mark.parametrize(
    ("graph", "circle"),
    [
        (modules, ("marft_envs.spaces", "marft_envs.game.flex_mg")),
        (folders, ("marft_envs.game.task", "marft_envs.tasks.math")),
    ],
)
def test_nothing_imports_itself_by_way_of_others_and_a_circle_would_be_found(graph, circle):
    TopologicalSorter(graph()).prepare()
    with pytest.raises(CycleError):
        TopologicalSorter(graph(circle)).prepare()
