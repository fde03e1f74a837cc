"""Readers for the published formats of programming problems, recognised by column names.

| format | columns (case ignored) |
|---|---|
| open-r1/codeforces | description, official_tests; examples, input_format, output_format, note, time_limit (s), \
memory_limit (MB), input_mode, interaction_format, executable, generated_checker, checker (ours: a spec, or "any") |
| DeepMind code_contests | description, public_tests, private_tests; generated_tests, time_limit, memory_limit_bytes, \
input_file |
| LiveCodeBench | question_content, public_test_cases; private_test_cases, starter_code, metadata |
| APPS, TACO | question, input_output; starter_code, time_limit, memory_limit |

The first format with all of its first columns present is taken. Missing limits are 2 s and 256 MB (6 s for
LiveCodeBench, as in its own judge). Memory is capped at 2048 MB, the memory of a slot of the judge. Without a
checker of the row, outputs are compared by value (`marft_envs.tasks.code.tolerances`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from envs_data import DataError
from marft_envs.data.column_formats import Fields
from marft_envs.data.files import Row
from marft_envs.sandbox.checkers import AnyChecker, ProgramChecker, read_checker
from marft_envs.sandbox.judge_data import MAX_TEST_BYTES, Test
from marft_envs.tasks.code import function_tests
from marft_envs.tasks.code.function_tests import LongInteger
from marft_envs.tasks.code.limits import UnsuitedError, read_limits
from marft_envs.tasks.code.packed_tests import unpack_tests
from marft_envs.tasks.code.problem import Problem
from marft_envs.tasks.code.tolerances import result_checker, value_checker


class ProblemFormat(NamedTuple):
    """One arrangement of columns.

    Attributes:
        name: Name for messages and `meta["origin"]`.
        columns: Columns that identify the format.
        read: Makes the problem of a row, given its id.
    """

    name: str
    columns: tuple[str, ...]
    read: Callable[[Row, Fields, str], Problem]


def read_problem(row: Row, default_id: str) -> Problem:
    """Return the problem of a row.

    Args:
        row: A row of any of the formats.
        default_id: Id for a row that names none.

    Raises:
        UnsuitedError: Interactive, files instead of standard input, no tests, ...
        DataError: Its columns match no format, or it is broken.
    """
    fields = Fields(row.columns)
    for each in FORMATS:
        if all(name in fields for name in each.columns):
            problem = each.read(row, fields, default_id)
            return _with_meta(problem, fields, each.name)
    found = ", ".join(map(str, row.columns)) or "none"
    wanted = "; ".join(f"{' + '.join(each.columns)} ({each.name})" for each in FORMATS)
    raise DataError(row.where, f"columns {found}", f"one of: {wanted}", "rename the columns")


# ----------------------------------------------------------------- the formats


def _open_r1(row: Row, fields: Fields, default_id: str) -> Problem:
    _refuse(row, bool(fields.text("interaction_format")), "an interactive problem", "one with input and output")
    mode = fields.text("input_mode") or "stdio"
    _refuse(row, mode != "stdio", f"input_mode {mode!r}", "'stdio'")
    _refuse(row, fields.get("executable") is False, "a problem that is not executable", "one that is")
    complete = fields.get("official_tests_complete") is True
    tests = []
    for test in _tests(row, fields, "official_tests"):
        # Codeforces shows long tests in part, with three dots at the end: such a test judges nothing.
        is_cut = test.input.rstrip().endswith(b"...") or test.output.rstrip().endswith(b"...")
        if complete or not is_cut:
            tests.append(test)
    # Contest and index together are an id of Codeforces, like 1350/A.
    number = "/".join(filter(None, (fields.text("contest_id"), fields.text("index"))))
    checker, several = _checker(row, fields)
    return _problem(
        row,
        id=fields.text("id") or number or default_id,
        statement=_required(row, fields, "description"),
        title=fields.text("title"),
        input_format=_mathematics(fields.text("input_format")),
        output_format=_mathematics(fields.text("output_format")),
        note=_mathematics(fields.text("note")),
        examples=_tests(row, fields, "examples"),
        tests=tuple(tests),
        limits=read_limits(row, fields.get("time_limit"), fields.get("memory_limit")),
        checker=checker,
        meta={"several_answers": 1} if several else {},
    )


def _code_contests(row: Row, fields: Fields, default_id: str) -> Problem:
    _refuse(row, bool(fields.text("input_file") or fields.text("output_file")), "input from a file", "standard input")
    size = fields.get("memory_limit_bytes")
    hidden = (*_tests(row, fields, "private_tests"), *_tests(row, fields, "generated_tests"))
    statement = _required(row, fields, "description")
    return _problem(
        row,
        id=fields.text("name") or default_id,
        statement=statement,
        checker=value_checker(statement),
        examples=_tests(row, fields, "public_tests"),
        tests=hidden,
        limits=read_limits(row, fields.get("time_limit"), f"{size} bytes" if size else None),
    )


def _live_code_bench(row: Row, fields: Fields, default_id: str) -> Problem:
    public, private = _packed(row, fields, "public_test_cases"), _packed(row, fields, "private_test_cases")
    about: dict[str, Any] = {
        "id": fields.text("question_id") or default_id,
        "title": fields.text("question_title"),
        "limits": read_limits(row, 6.0, None),
    }
    kinds = {test.get("testtype", "stdin") for test in public + private}
    _refuse(row, len(kinds) > 1, f"tests of the kinds {', '.join(sorted(map(str, kinds)))}", "one kind")
    statement = _required(row, fields, "question_content")
    if kinds != {"functional"}:
        shown = tuple(_test(row, test) for test in public)
        hidden = tuple(_test(row, test) for test in private)
        checker = value_checker(statement)
        return _problem(row, statement=statement, examples=shown, tests=hidden, checker=checker, **about)
    name = _object(row, fields, "metadata").get("func_name")
    calls = []
    for test in public + private:
        try:
            calls.append(function_tests.parse_call(str(test.get("input", "")), str(test.get("output", ""))))
        except (ValueError, RecursionError) as error:
            raise DataError(row.where, f"a call that is no JSON ({error})", "JSON", "fix or remove the row") from error
    return _function_problem(row, fields, str(name), statement, calls, examples=len(public), **about)


def _apps(row: Row, fields: Fields, default_id: str) -> Problem:
    given = _object(row, fields, "input_output")
    inputs, outputs = given.get("inputs") or [], given.get("outputs") or []
    _same_length(row, "input_output", inputs, outputs)
    statement = _required(row, fields, "question")
    about: dict[str, Any] = {
        "id": fields.text("problem_id") or fields.text("id") or default_id,
        "title": fields.text("name"),
        "limits": read_limits(row, fields.get("time_limit"), fields.get("memory_limit")),
    }
    if name := given.get("fn_name"):
        calls = []
        for arguments, result in zip(inputs, outputs, strict=True):
            if not isinstance(arguments, list):
                found = f"arguments of type {type(arguments).__name__} in input_output"
                raise DataError(row.where, found, "a list of the arguments of each call", "fix or remove the row")
            calls.append(function_tests.FunctionCall(arguments, result))
        wrapped = function_tests.are_wrapped(calls)
        if wrapped:
            calls = [call._replace(result=call.result[0]) for call in calls]
        return _function_problem(row, fields, str(name), statement, calls, wrapped=wrapped, **about)
    tests = tuple(Test(_lines(row, i), _lines(row, o)) for i, o in zip(inputs, outputs, strict=True))
    return _problem(row, statement=statement, tests=tests, checker=value_checker(statement), **about)


FORMATS = (
    ProblemFormat("open-r1/codeforces", ("description", "official_tests"), _open_r1),
    ProblemFormat("code_contests", ("description", "public_tests", "private_tests"), _code_contests),
    ProblemFormat("LiveCodeBench", ("question_content", "public_test_cases"), _live_code_bench),
    ProblemFormat("APPS or TACO", ("question", "input_output"), _apps),
)


# ------------------------------------------------------------------ the parts


def _problem(row: Row, *, statement: str, **about: Any) -> Problem:
    tests = about.get("tests", ()) + about.get("examples", ())
    _refuse(row, not tests, "no tests", "at least one")
    largest = max(max(len(test.input), len(test.output)) for test in tests)
    _refuse(row, largest > MAX_TEST_BYTES, f"a test of {largest:,} bytes", f"at most {MAX_TEST_BYTES:,}")
    return Problem(statement=_mathematics(statement), **about)


def _function_problem(
    row: Row,
    fields: Fields,
    name: str,
    statement: str,
    calls: Sequence[function_tests.FunctionCall],
    *,
    examples: int = 0,
    wrapped: bool = False,
    **about: Any,
) -> Problem:
    try:
        driver = function_tests.driver(name)
    except ValueError as error:
        raise DataError(row.where, str(error), "the name of the function", "complete or remove the row") from error
    starter = fields.text("starter_code")
    asked = f"Write the function `{name}`." + (f" Begin with:\n{starter}" if starter else "")
    tests = function_tests.make_tests(calls)
    return _problem(
        row,
        statement=f"{statement}\n\n{asked}",
        examples=tests[:examples],
        tests=tests[examples:],
        checker=result_checker(statement, may_be_wrapped=wrapped),
        languages=("python",),
        preamble=function_tests.PREAMBLE,
        driver=driver,
        **about,
    )


def _with_meta(problem: Problem, fields: Fields, origin: str) -> Problem:
    """Add the metadata of the row; of several columns with one meaning the first counts."""
    meta: dict[str, str | int | float] = {"kind": "codeforces", "origin": origin, **problem.meta}
    numbers = {
        "level": fields.text("level"),
        "rating": fields.text("rating") or fields.text("cf_rating"),
        "difficulty": fields.text("difficulty"),
    }
    for name, text in numbers.items():
        if text and text != "0":  # 0 stands for a missing rating
            meta[name] = int(text) if re.fullmatch(r"[0-9]{1,9}", text) else text
    tags = fields.get("tags") or fields.get("cf_tags")
    if isinstance(tags, Sequence) and tags:
        meta["tags"] = tags if isinstance(tags, str) else ", ".join(map(str, tags))
    return replace(problem, meta=meta)


def _refuse(row: Row, is_unsuited: bool, found: str, wanted: str) -> None:
    if is_unsuited:
        raise UnsuitedError(row.where, found, wanted, "leave the row out")


def _required(row: Row, fields: Fields, name: str) -> str:
    text = fields.text(name)
    if not text:
        raise DataError(row.where, f"no text in column {name!r}", "a problem", "complete or remove the row")
    return text


def _mathematics(text: str) -> str:
    """Convert the formulas of Codeforces to the usual form: $x$, not $$$x$$$."""
    return text.replace("$$$", "$")


def _parsed(row: Row, fields: Fields, name: str) -> Any:
    """Return a column that may be kept as JSON text (in CSV files, and in APPS)."""
    value = fields.get(name)
    if not isinstance(value, str):
        return value
    try:
        return function_tests.read_json(value) if value.strip() else None
    except (ValueError, RecursionError) as error:
        raise DataError(row.where, f"{name} that is no JSON ({error})", "JSON", "fix or remove the row") from error


def _object(row: Row, fields: Fields, name: str) -> Mapping[str, Any]:
    value = _parsed(row, fields, name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise DataError(row.where, f"{name} of type {type(value).__name__}", "an object", "fix or remove the row")
    return value


def _tests(row: Row, fields: Fields, name: str) -> tuple[Test, ...]:
    """Read a list of {input, output}, or an object of two lists."""
    value = _parsed(row, fields, name)
    if value is None:
        return ()
    if isinstance(value, Mapping):
        inputs, outputs = value.get("input") or [], value.get("output") or []
        _same_length(row, name, inputs, outputs)
        value = [{"input": i, "output": o} for i, o in zip(inputs, outputs, strict=True)]
    if not isinstance(value, Sequence) or not all(isinstance(test, Mapping) for test in value):
        raise DataError(row.where, f"{name} that are no objects", "a list of {input, output}", "fix the row")
    return tuple(_test(row, test) for test in value)


def _test(row: Row, test: Mapping[str, Any]) -> Test:
    return Test(_lines(row, test.get("input")), _lines(row, test.get("output")))


def _lines(row: Row, value: Any) -> bytes:
    """Return the text of a test as bytes; APPS has lists of lines too."""
    if isinstance(value, list) and all(isinstance(line, str | int | float | LongInteger) for line in value):
        value = "\n".join(map(str, value))
    if not isinstance(value, str):
        raise DataError(row.where, f"a test of type {type(value).__name__}", "text", "fix or remove the row")
    return value.encode("utf-8", "replace")


def _packed(row: Row, fields: Fields, name: str) -> list[dict[str, Any]]:
    value = fields.get(name)
    if isinstance(value, list):
        return [dict(test) for test in value]
    try:
        return unpack_tests(value) if isinstance(value, str) and value.strip() else []
    except ValueError as error:
        raise DataError(row.where, f"{name}: {error}", "a JSON list of tests", "fetch the row again") from error


def _same_length(row: Row, name: str, inputs: Any, outputs: Any) -> None:
    if not isinstance(inputs, Sequence) or not isinstance(outputs, Sequence) or len(inputs) != len(outputs):
        raise DataError(row.where, f"{name} with other inputs than outputs", "as many of both", "fix the row")


def _checker(row: Row, fields: Fields) -> tuple[AnyChecker, bool]:
    """Return the checker, and True if other right answers than the given one exist, which it refuses."""
    if source := fields.text("generated_checker"):
        return ProgramChecker(source, "files"), False
    spec = fields.text("checker")
    if spec in ("", "any"):
        texts = [fields.text(name) for name in ("description", "output_format", "note")]
        return value_checker("\n".join(texts)), spec == "any"
    try:
        return read_checker(spec), False
    except ValueError as error:
        raise DataError(row.where, str(error), "a checker's spec", "fix the column 'checker'") from error
