"""Mutation testing of the numeric core: change one expression at a time, and see which quick test turns red.

The mutants are those of cosmic-ray's and mutmut's operators. Each runs in a fork of a process that has imported torch
and transformers already; it reads the changed source in place of the file, which stays as it is. It runs the tests that
reached the changed statement, the quickest first, until one fails. Left out are mutants that cannot be told apart by
results: of annotations, type aliases, assertions, `strict=` of zip, and texts. `docs/benchmarks/mutation.md` has what
came of it.

    make mutation ARGS="--each 40 --seed 0 --out runs/mutation.jsonl"

Results are appended as JSON lines; what is there already is not run again, unless it survived and `--again` is given.
Which tests reach which line is kept in the folder beside them: delete it when tests have changed.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import itertools
import json
import math
import os
import random
import re
import resource
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = "marft_agents"
CORE = (
    *("models.tree_attention", "models.prefix_tree", "models.gated_mlp"),
    *("generation.token_sampling", "generation.kv_cache"),
    *("generation.prompt_tree", "generation.prompt_cache", "generation.drafting"),
    *("generation.continuous_batching", "rollouts.branching", "rollouts.prompt_groups", "runs.evaluation"),
    *("learning.advantages", "learning.batch", "learning.credit", "learning.critic", "learning.learner"),
    *("learning.objectives", "learning.policy_update", "learning.scoring"),
    *("policies.token_log_probs", "learning.update_metrics", "trajectory"),
)
QUICK = ["-q", "-x", "-p", "no:cacheprovider", "-W", "ignore", "--no-header", "--tb=no"]
HEAVY = "torch transformers transformers.models.llama.modeling_llama peft safetensors.torch hypothesis gymnasium pytest"
# Bits of floats, identity of numbers, None for what is computed: nearly all raise at once, and say little of the tests.
CRASHING = re.compile(
    r"ReplaceBinaryOperator_(Add|Sub|Mul|Div|FloorDiv|Mod|Pow)_(.Shift|Bit.*)|ReplaceComparisonOperator_.*_Is(Not)?|"
    r"operator_assignment|Variable(Replacer|Inserter)"
)
MEMORY = 16 << 30  # bytes of address space: a mutant may ask for more than there is


def _file(module: str) -> Path:
    return Path(ROOT, PACKAGE, *module.split(".")).with_suffix(".py")


# ------------------------------------------------------------------ mutants


@dataclass(frozen=True)
class Mutant:
    """One change of one module.

    Attributes:
        module: dotted name within the package.
        line: of the changed expression, from 1.
        operator: of cosmic-ray or mutmut.
        source: the whole changed module.
        change: the lines before and after.
    """

    module: str
    line: int
    operator: str
    source: str
    change: str

    @property
    def key(self) -> str:
        """Identify the change, whatever the rest of the module is like."""
        return hashlib.sha1(f"{self.module} {self.line} {self.source}".encode()).hexdigest()[:12]


Candidate = tuple[tuple[int, int], str, Callable[[], str]]  # (line, column), operator, source


def by_cosmic_ray(source: str) -> Iterator[Candidate]:
    """Yield the mutants of cosmic-ray's operators that need no arguments."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.operators.provider import OperatorProvider

    operators = OperatorProvider()
    nodes = list(ast_nodes(get_ast(source)))
    for name in operators:
        if CRASHING.fullmatch(name):
            continue
        operator = operators[name]()
        places = [place for node in nodes for place in operator.mutation_positions(node)]
        for occurrence, (start, _) in enumerate(places):
            yield start, name, lambda o=operator, k=occurrence: mutate_code(source, o, k)


def by_mutmut(source: str) -> Iterator[Candidate]:
    """Yield the mutants of mutmut's operators."""
    import libcst
    from libcst.metadata import MetadataWrapper, PositionProvider
    from mutmut.mutation.mutators import mutation_operators

    wrapper = MetadataWrapper(libcst.parse_module(source), unsafe_skip_copy=True)
    positions = wrapper.resolve(PositionProvider)
    operators = [(kind, operator) for kind, operator in mutation_operators if not CRASHING.fullmatch(operator.__name__)]
    for node, span in positions.items():
        for kind, operator in operators:
            for new in operator(node) if isinstance(node, kind) else ():
                place = (span.start.line, span.start.column)
                yield place, operator.__name__, lambda o=node, n=new: wrapper.module.deep_replace(o, n).code


class _Behaviour(ast.NodeTransformer):
    """Drop what no result depends on."""

    def visit_Module(self, node):
        node.body = [s for s in node.body if not (isinstance(s, ast.Assign) and isinstance(s.value, ast.Subscript))]
        return self.generic_visit(node)

    def visit_FunctionDef(self, node):
        node.returns = None
        return self.generic_visit(node)

    def visit_arg(self, node):
        node.annotation = None
        return node

    def visit_arguments(self, node):
        node.args = [*node.posonlyargs, *node.args, *node.kwonlyargs]  # `*` and `/` are promises to callers
        node.defaults += [default for default in node.kw_defaults if default is not None]
        node.posonlyargs, node.kwonlyargs, node.kw_defaults = [], [], []
        return self.generic_visit(node)

    def visit_AnnAssign(self, node):
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def visit_Assert(self, node):
        return ast.Pass()

    def visit_Constant(self, node):
        words = isinstance(node.value, str) and " " in node.value
        return ast.Constant("") if words else node

    def visit_Call(self, node):
        if isinstance(node.func, ast.Name) and node.func.id in ("zip", "dataclass"):
            node.keywords = []
        return self.generic_visit(node)


def behaviour(source: str) -> str | None:
    """Return what two sources have in common if they do the same by construction; None if it does not compile."""
    try:
        tree = ast.parse(source)
        compile(source, "mutant", "exec")
    except SyntaxError:
        return None
    return ast.dump(_Behaviour().visit(tree))


def mutants(module: str, seed: int, most: int) -> Iterator[Mutant]:
    """Draw mutants of one module: one at every place before the second at any."""
    source = _file(module).read_text(encoding="utf-8")
    drawn = [*by_cosmic_ray(source), *by_mutmut(source)]
    random.Random(f"{seed} {module}").shuffle(drawn)
    seen: Counter[tuple[int, int]] = Counter()
    turn = []
    for place, _, _ in drawn:
        turn.append(seen[place])
        seen[place] += 1
    known = {behaviour(source), None}
    found = 0
    for k in sorted(range(len(drawn)), key=turn.__getitem__):
        (line, _), operator, make = drawn[k]
        changed = make()
        essence = behaviour(changed)
        if essence in known:
            continue
        known.add(essence)
        old, new = source.splitlines(), changed.splitlines()
        head = next((i for i, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), len(new))
        tail = next((i for i, pair in enumerate(zip(old[::-1], new[::-1], strict=False)) if pair[0] != pair[1]), 0)
        parts = [" / ".join(x.strip() for x in lines[head : len(lines) - tail]) for lines in (old, new)]
        yield Mutant(module, line, operator, changed, " -> ".join(parts))
        found += 1
        if found == most:
            return


# ------------------------------------------------------------------ a warm process and its forks


class _Changed(importlib.machinery.SourceFileLoader):
    """Loads a module from another text than its file's."""

    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname):
        return compile(self._source, self.path, "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self._name, self._mutant = f"{PACKAGE}.{mutant.module}", mutant

    def find_spec(self, fullname, path, target=None):
        if fullname != self._name:
            return None
        file = str(_file(self._mutant.module))
        return importlib.util.spec_from_loader(fullname, _Changed(fullname, file, self._mutant.source))


class _Report:
    """Writes what the tests did to a file: seconds by test, and the first that failed."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.failed: str | None = None

    def pytest_runtest_logreport(self, report):
        self.seconds[report.nodeid] += report.duration
        if report.failed and self.failed is None:
            self.failed = report.nodeid

    def pytest_collectreport(self, report):
        if report.failed and self.failed is None:
            self.failed = report.nodeid or "collection"


def _ours(module: object) -> bool:
    return (getattr(module, "__file__", None) or str(ROOT)).startswith(str(ROOT))


def in_fork(arguments: list[str], out: Path, limit_s: int, mutant: Mutant | None = None) -> dict:
    """Run pytest in a fork; return the exit status, the first failure and the seconds by test.

    Args:
        arguments: of pytest.
        out: where the fork writes what came of it.
        limit_s: of CPU time; ten times as much of the clock's, since machines are shared.
        mutant: what it reads in place of a module; None: nothing.
    """
    out.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        if mutant is not None:
            sys.meta_path.insert(0, _Finder(mutant))
        report = _Report()
        import pytest

        status = 1
        try:
            status = int(pytest.main(arguments, plugins=[report]))
        except BaseException as error:
            report.failed = report.failed or repr(error)
        loaded = [name for name, module in sys.modules.items() if not _ours(module)]
        found = {"status": status, "failed": report.failed, "seconds": report.seconds, "modules": loaded}
        out.write_text(json.dumps(found))
        os._exit(0)
    deadline = time.monotonic() + 10 * limit_s
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        time.sleep(0.02)
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
    if out.exists():
        return json.loads(out.read_text())
    return {"status": 1, "failed": f"it crashed, or did not end within {limit_s} s", "seconds": {}}


# ------------------------------------------------------------------ which tests reach what


@dataclass
class Reach:
    """Which tests reach which line, and how long each takes."""

    lines: dict[str, dict[int, list[str]]]
    seconds: dict[str, float]

    def tests_of(self, mutant: Mutant, cap: float) -> list[str]:
        """Return the tests that reach the changed statement, the quickest first; at import all of the module.

        Args:
            mutant: the change.
            cap: leave out the slowest, so that all together take at most so many seconds.
        """
        by_line = self.lines[mutant.module]
        span = _statement(mutant)
        found = {test for line in span for test in by_line.get(line, ())}
        if not found or "" in found:
            found = {test for tests in by_line.values() for test in tests}
        order = sorted(found - {""}, key=self.cost)
        total = itertools.accumulate(map(self.cost, order))
        return [test for k, (test, spent) in enumerate(zip(order, total, strict=True)) if not k or spent <= cap]

    def cost(self, test: str) -> float:
        """Return the seconds of a test; 1 if it is not known."""
        return self.seconds.get(test, 1.0)


def _statement(mutant: Mutant) -> range:
    """Return the lines of the smallest statement, or head of a compound one, that holds the mutant's."""
    source = _file(mutant.module).read_text(encoding="utf-8")
    best = range(mutant.line, mutant.line + 1)
    size = 10**9
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if isinstance(body, list) else node.end_lineno
            if node.lineno <= mutant.line <= last and last - node.lineno < size:
                best, size = range(node.lineno, last + 1), last - node.lineno
    return best


def reach(tests: list[str], folder: Path) -> Reach:
    """Run all tests once with coverage; kept in `folder`, to be deleted when tests have changed."""
    from coverage import CoverageData

    kept, data = folder / "reach.json", folder / "coverage"
    if not kept.exists():
        os.environ["COVERAGE_FILE"] = str(data)
        measure = [f"--cov={PACKAGE}", "--cov-context=test", "--cov-report=", "--cov-fail-under=0"]
        found = in_fork([*QUICK, *measure, *tests], folder / "last.json", 3600)
        if found["status"]:
            raise SystemExit(f"the tests are red before anything is changed: {found['failed']}")
        measured = CoverageData(str(data))
        measured.read()
        lines = {
            ".".join(Path(file).relative_to(ROOT / PACKAGE).with_suffix("").parts): {
                n: sorted({c.split("|")[0] for c in own}) for n, own in contexts.items()
            }
            for file in measured.measured_files()
            for contexts in [measured.contexts_by_lineno(file)]
        }
        kept.write_text(json.dumps({"lines": lines, "seconds": found["seconds"], "modules": found["modules"]}))
    found = json.loads(kept.read_text())
    for name in found["modules"]:  # so that no fork has to: what the tests load, our own modules aside
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    by_line = {name: {int(n): own for n, own in lines.items()} for name, lines in found["lines"].items()}
    return Reach(by_line, found["seconds"])


# ------------------------------------------------------------------ the run


def main() -> None:
    """Draw, run and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--modules", nargs="+", default=CORE, choices=CORE, metavar="NAME", help="of the core")
    parser.add_argument("--each", type=int, default=20, help="most mutants per module")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--tests", nargs="+", default=["tests/marft_agents"], help="what must turn red")
    parser.add_argument(
        "--cap", type=float, default=math.inf, help="most seconds of tests per mutant, the slowest left out"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/mutation.jsonl"), help="results, one JSON line each")
    parser.add_argument("--again", action="store_true", help="run survivors again")
    given = parser.parse_args()
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    os.environ["OMP_NUM_THREADS"] = "1"
    for name in HEAVY.split():
        importlib.import_module(name)
    folder = given.out.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    reached = reach(given.tests, folder)
    lines = given.out.read_text().splitlines() if given.out.exists() else []
    known = {record["key"]: record for record in map(json.loads, lines)}
    counts: Counter[tuple[str, str]] = Counter()
    for module in given.modules:
        for mutant in mutants(module, given.seed, given.each):
            before = known.get(mutant.key)
            if before and not (given.again and before["outcome"] != "killed"):
                counts[module, before["outcome"]] += 1
                continue
            tests = reached.tests_of(mutant, given.cap)
            limit = 20 + math.ceil(5 * sum(map(reached.cost, tests)))
            started = time.monotonic()
            found = in_fork([*QUICK, *tests], folder / "last.json", limit, mutant) if tests else {"status": 0}
            record = {
                "key": mutant.key,
                "module": module,
                "line": mutant.line,
                "operator": mutant.operator,
                "change": mutant.change,
                "outcome": "killed" if found["status"] else "survived",
                "by": found.get("failed"),
                "tests": len(tests),
                "seconds": round(time.monotonic() - started, 2),
            }
            counts[module, record["outcome"]] += 1
            with given.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
            print(f"{record['outcome']:9} {module}:{mutant.line} {mutant.change}  [{record['seconds']} s]", flush=True)
    print("| module | mutants | killed | survived |\n|---|---:|---:|---:|")
    for module in given.modules:
        killed, survived = counts[module, "killed"], counts[module, "survived"]
        print(f"| {module} | {killed + survived} | {killed} | {survived} |")


if __name__ == "__main__":
    main()
