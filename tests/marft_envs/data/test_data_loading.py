"""Loading tasks: every format, every kind of file, every way in which data can be bad."""

import csv
import hashlib
import json
import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import envs_data
from marft_envs import Task
from marft_envs.data import DataError, load_tasks
from marft_envs.data.golds import MODES, repairs
from marft_envs.grading import grade_math
from marft_envs.registration.task_environment import TaskEnvironment
from marft_envs.tasks.code.loading import load_problems
from marft_envs.tasks.math import MathTasks
from tests.marft_envs.originals import KINDS, OWN, files, published, rows

SAMPLES = {
    "hendrycks": (
        {"problem": "p", "level": "Level 3", "type": "Algebra", "solution": r"First \boxed{1}, so \boxed{\frac{1}{2}}"},
        ("math", "x-test-00000", r"\frac{1}{2}", {"level": 3, "subject": "Algebra"}),
    ),
    "math500": (
        {"problem": "p", "solution": r"\boxed{9}", "answer": "8", "subject": "Algebra", "level": 3, "unique_id": "t/1"},
        ("math", "t/1", "8", {"level": 3, "subject": "Algebra"}),
    ),
    "gsm8k": ({"question": "p", "answer": "<<1000+234=1234>>\n#### 1,234"}, ("gsm8k", "x-test-00000", "1234", {})),
    "aime_maxwell": ({"ID": "I-1", "Problem": "p", "Solution": "s", "Answer": "025"}, ("aime", "I-1", "25", {})),
    "aime_h4": (
        {"id": 60, "problem": "p", "solution": "s", "answer": "025", "url": "u", "year": "2024"},
        ("aime", "60", "25", {"year": 2024}),
    ),
    "math_arena": ({"problem_idx": 3, "problem": "p", "answer": 25}, ("aime", "3", "25", {})),
    "cmath": (
        {"grade": 3, "question": "几分之几？", "golden": "6/9", "reasoning_step": 1, "num_digits": 2},
        ("cmath", "x-test-00000", "6/9", {"grade": 3, "reasoning_steps": 1, "num_digits": 2}),
    ),
    "marft": ({"problem": "p", "final_answer": "7"}, ("math", "x-test-00000", "7", {})),
    "marft_cmath": (
        {"grade": "6", "problem": "p", "final_answer": "25%", "reasoning_steps": 2, "num_digits": 4},
        ("cmath", "x-test-00000", "25%", {"grade": 6, "reasoning_steps": 2, "num_digits": 4}),
    ),
}
"""A row of each published format, and what is read from it: kind, id, answer, further metadata."""


def write(path, rows):
    """Write rows in the format that the extension says."""
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows, indent=1), "utf-8")
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys())
            writer.writeheader()
            writer.writerows(rows)
    return path


@pytest.mark.parametrize("extension", [".jsonl", ".json", ".csv", ".parquet"])
@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_a_published_format_is_recognised_in_every_kind_of_file(tmp_path, name, extension):
    row, (kind, task_id, answer, meta) = SAMPLES[name]
    (task,) = load_tasks(kind, str(write(tmp_path / f"x{extension}", [row])), "test")
    assert (task.id, task.answer, task.split) == (task_id, answer, "test")
    assert task.prompt == ("几分之几？" if name == "cmath" else "p")
    assert task.meta == {"kind": kind, "gold_mode": "single", **meta}


def test_rows_keep_their_order_and_ids_are_stable(tmp_path):
    rows = [{"question": f"{n} + 1?", "answer": str(n + 1)} for n in range(12)]
    path = str(write(tmp_path / "sums.jsonl", rows))
    tasks = load_tasks("gsm8k", path, "train")
    assert [task.prompt for task in tasks] == [row["question"] for row in rows]
    assert tasks[11].id == "sums-train-00011"
    assert tasks == load_tasks("gsm8k", path, "train")


def test_a_folder_has_one_file_a_split(tmp_path):
    write(tmp_path / "train.jsonl", [{"question": "q", "answer": "1"}])
    write(tmp_path / "test.jsonl", [{"question": "q", "answer": "2"}])
    (task,) = load_tasks("gsm8k", str(tmp_path), "test")
    assert (task.answer, task.id) == ("2", f"{tmp_path.name}-test-00000")


def test_a_column_named_split_chooses_rows(tmp_path):
    rows = [{"question": s, "answer": "1", "split": s} for s in ("train", "test", "train")]
    path = str(write(tmp_path / "both.csv", rows))
    assert len(load_tasks("gsm8k", path, "train")) == 2
    assert len(load_tasks("gsm8k", path, "test")) == 1
    with pytest.raises(DataError, match="found splits: test, train, wanted split 'dev'"):
        load_tasks("gsm8k", path, "dev")
    # In any case, as all columns, and also where only later rows have it: no test row becomes one to train on.
    rows = [{"question": "q", "answer": "1"}, *({"question": s, "answer": "1", "Split": s} for s in ("train", "test"))]
    [task] = load_tasks("gsm8k", str(write(tmp_path / "both.jsonl", rows)), "train")
    assert task.prompt == "train"


@pytest.mark.parametrize("kind", ["math", "gsm8k", "aime", "cmath"])
@pytest.mark.parametrize("split", ["train", "test"])
def test_embedded_sets_become_tasks(kind, split):
    tasks = load_tasks(kind, split=split)
    assert len(tasks) == len(envs_data.rows(kind, split))
    assert len({task.id for task in tasks}) == len(tasks)
    assert all(task.prompt and task.answer and task.split == split and task.meta["kind"] == kind for task in tasks)


def test_an_embedded_set_is_checked_once_and_every_caller_has_a_list_of_its_own(monkeypatch):
    first = load_tasks("gsm8k")
    monkeypatch.setattr("marft_envs.data.check_gold", pytest.fail)
    again = load_tasks("gsm8k")
    again.reverse()
    assert again == first[::-1]
    assert load_tasks("gsm8k") == first


def test_any_embedded_set_can_be_named():
    (first, *_) = load_tasks("gsm8k", "embedded:stories", "test")
    assert first.id == "stories-test-00000"
    assert first.meta["level"] in (1, 2, 3)


@pytest.mark.parametrize("path", files(*KINDS.values()))
def test_files_in_the_original_formats_load_and_every_gold_is_right(path):
    kind = next(kind for kind, name in KINDS.items() if name == path.stem)
    tasks = load_tasks(kind, str(path), "train")
    assert len(tasks) == len(rows(path))
    for task in tasks:
        mode = task.meta["gold_mode"]
        golds = task.answer if mode == "single" else json.loads(task.answer)
        for answer in golds if mode == "any" else [golds if mode == "single" else ", ".join(golds)]:
            response = rf"Hence \boxed{{{answer}}}."
            assert grade_math(response, golds, "zh" if kind == "cmath" else "en", mode=mode).correct, task


@pytest.mark.parametrize(
    ("kind", "answers", "meta"),
    [
        ("math", {0: "9", 1: "2, 3", 11: r"15\%", 13: "50"}, {"subject": "Algebra", "level": 1}),
        ("gsm8k", {0: "45", 1: "1260", 4: "-5", 6: "2.4"}, {}),
        ("aime", {0: "1", 1: "30", 4: "999", 5: "0"}, {"year": 2024}),
        ("cmath", {0: "5", 3: "6/9", 6: "95%"}, {"grade": 1}),
    ],
)
def test_our_files_in_the_original_formats_are_read_as_meant(kind, answers, meta):
    tasks = load_tasks(kind, str(OWN / f"{KINDS[kind]}.jsonl"), "train")
    assert {place: tasks[place].answer for place in answers} == answers
    assert {name: tasks[0].meta[name] for name in meta} == meta


# ---- repaired golds


def test_a_repaired_gold_goes_into_answer_and_mode(tmp_path, monkeypatch):
    problem = " Find both roots. "
    key = hashlib.sha1(problem.strip().encode()).hexdigest()[:12]
    monkeypatch.setitem(repairs(), key, type(next(iter(repairs().values())))(("2", "-3"), "all"))
    row = {"problem": problem, "solution": r"\boxed{2} or \boxed{-3}"}
    (task,) = load_tasks("math", str(write(tmp_path / "r.jsonl", [row])), "train")
    assert (task.meta["gold_mode"], json.loads(task.answer)) == ("all", ["2", "-3"])
    assert grade_math(r"\boxed{-3, 2}", json.loads(task.answer), mode="all").correct
    assert not grade_math(r"\boxed{-3}", json.loads(task.answer), mode="all").correct


def test_the_repair_table_holds_hashes_and_short_answers_only():
    assert len(repairs()) == 41
    for key, gold in repairs().items():
        assert len(key) == 12
        assert int(key, 16) >= 0
        assert gold.mode in MODES
        assert (len(gold.answers) == 1) == (gold.mode == "single")
        assert all(0 < len(answer) < 70 for answer in gold.answers)


def test_the_repairs_are_found_in_the_training_rows():
    path = published("math_train.jsonl")
    overrides = json.loads(published("math_gold_overrides.json").read_text("utf-8"))
    wanted = {row["problem_sha1"]: row for row in overrides if row["split"] == "train"}
    found = {
        hashlib.sha1(task.prompt.encode()).hexdigest()[:12]: task for task in load_tasks("math", str(path), "train")
    }
    for key, row in wanted.items():
        answer = found[key].answer
        assert row["gold"] == ([answer] if row["mode"] == "single" else json.loads(answer))
        assert found[key].meta["gold_mode"] == row["mode"]


# ---- bad data: one clear message each


def answered(answer, problem='"p"'):
    return f'{{"problem": {problem}, "answer": {answer}}}\n'


GOOD, NO_ANSWER = answered('"1"'), "found no answer in column 'answer'.*, wanted one, as text or number"
BAD = {
    "an empty file": ("jsonl", "", ": found no rows, wanted at least one"),
    "blank lines only": ("jsonl", "\n\n", ": found no rows"),
    "broken JSON": ("jsonl", GOOD + '{"problem": "p", \n', ":2: found broken JSON .*, wanted valid JSON; fix"),
    "an open text": ("jsonl", '{"a": "b\n', r":1: found broken JSON \(Unterminated string at column 7\)"),
    "a control code": ("jsonl", '{"a": "\x01"}\n', r":1: found broken JSON \(Invalid control character at column 8\)"),
    "an endless number": ("jsonl", answered("9" * 5000), r":1: found broken JSON \(a number too long\)"),
    "deep nesting": ("jsonl", "[" * 100_000, r":1: found broken JSON \(too deep nesting\)"),
    "a list in a line": ("jsonl", GOOD + "[1]\n", ":2: found a JSON list, wanted an object"),
    "no columns": ("jsonl", "{}\n", ":1: found columns none"),
    "no answer": ("jsonl", '{"problem": "p"}\n', r":1: found columns problem, wanted one of: problem \+ final_answer"),
    "no box": ("jsonl", '{"problem": "p", "solution": "5"}\n', r":1: found no \\boxed answer in column 'solution'"),
    "an empty problem": ("jsonl", answered('"1"', '""'), ":1: found no text in column 'problem'"),
    "half a surrogate pair": ("jsonl", answered('"1"', '"\\ud800"'), ":1: found no text"),
    "a blank answer": ("jsonl", GOOD + "\n" + answered('" "', '"q"'), ":3: " + NO_ANSWER),
    "an empty answer": ("jsonl", answered('""'), ":1: " + NO_ANSWER),
    "a null answer": ("jsonl", answered("null"), ":1: " + NO_ANSWER),
    "a true answer": ("jsonl", answered("true"), ":1: " + NO_ANSWER),
    "an infinite answer": ("jsonl", answered("Infinity"), ":1: " + NO_ANSWER),
    "two answers": ("jsonl", answered('["4", "5"]'), r":1: found a list of 2 in column 'answer': \['4', '5'\].* one,"),
    "a list of none": ("jsonl", answered("[]"), ":1: found a list of 0 in column 'answer'.*, wanted one, as text"),
    "an object": ("jsonl", answered('{"a": 4}'), r":1: found an object in column 'answer': \{'a': 4\}.*, wanted one"),
    "a gold that no box can hold": ("jsonl", answered('"1}{"'), ":1: found gold '1}{' that grades as wrong"),
    "a second id": ("jsonl", GOOD.replace("{", '{"id": "a", ') * 2, r":2: found id 'a' as in .*:1, wanted unique ids"),
    "not UTF-8": ("jsonl", GOOD.encode() + b'{"problem": "\xff"}\n', ":2: found byte 0xff, wanted UTF-8 text"),
    "a broken list": ("json", f'[\n{GOOD.strip()},\n{{"problem": }}\n]', ":3: found broken JSON"),
    "an object alone": ("json", GOOD, r".*found a JSON dict, wanted a JSON list of objects; rename .* to \.jsonl"),
    "a missing field": ("csv", "problem,answer\np,1\nq\n", ":3: found another number of fields, wanted 2 fields"),
    "a name twice": ("csv", "problem,answer, Answer\np,1,2\n", ":1: found two columns 'answer', wanted each name once"),
    "an open quote": ("csv", 'problem,answer\np,"1\n', r":\d: found broken CSV"),
    "no Parquet": ("parquet", "PAR1 and nothing else", ": found a broken file"),
    "an unknown kind": ("txt", "p", r".*found extension '\.txt', wanted one of \.jsonl, \.json, \.csv, \.parquet"),
}


@pytest.mark.parametrize("case", sorted(BAD))
def test_bad_data_gives_one_clear_message(tmp_path, case):
    extension, content, message = BAD[case]
    path = tmp_path / f"x.{extension}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match=rf"x\.{extension}{message}") as caught:
        load_tasks("math", str(path), "train")
    assert "\n" not in str(caught.value)


def test_a_field_of_csv_may_be_as_long_as_its_file(tmp_path):
    path, limit = tmp_path / "x.csv", csv.field_size_limit()
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("problem", "answer"), ("x" * 200_000, "4")])
    [task] = load_tasks("math", str(path), "train")
    assert task.prompt == "x" * 200_000
    path.write_text(f'problem,answer\n"{"x" * 200_000},4\n')
    with pytest.raises(DataError, match=r"x\.csv:\d: found broken CSV"):
        load_tasks("math", str(path), "train")
    assert csv.field_size_limit() == limit  # other readers of the process keep theirs


def test_folder_without_the_split_names_those_found(tmp_path):
    with pytest.raises(DataError, match="found splits: no data files, wanted split 'train'"):
        load_tasks("math", str(tmp_path), "train")
    write(tmp_path / "dev.jsonl", [SAMPLES["marft"][0]])
    with pytest.raises(DataError, match="found splits: dev, wanted split 'train'; name one"):
        load_tasks("math", str(tmp_path), "train")
    write(tmp_path / "dev.csv", [SAMPLES["marft"][0]])
    with pytest.raises(DataError, match=r"found dev\.csv, dev\.jsonl, wanted one file of split 'dev'"):
        load_tasks("math", str(tmp_path), "dev")


NAMES_NOTHING = r'data: found .*, wanted "embedded", "hub:OWNER/NAME" or a path'


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        *((("math", data), NAMES_NOTHING) for data in (None, 3, "", [{"problem": "p", "answer": "1"}])),
        (("math", "none/nothing.jsonl"), r"nothing\.jsonl: found no such file or folder, wanted \"embedded\""),
        (("maths",), "found kind 'maths', wanted one of math, gsm8k, aime, cmath"),
        (("math", "embedded:maths"), "found set 'maths', wanted one of aime, cmath, codeforces, gsm8k"),
        (("math", "embedded", "dev"), "found split 'dev', wanted one of train, test"),
    ],
)
def test_data_kind_and_split_that_there_are_not(arguments, message):
    with pytest.raises(DataError, match=message):
        load_tasks(*arguments)


@pytest.mark.parametrize("answer", ["1000", "-1", "1/2", "１２", "12 apples"])
def test_aime_wants_whole_numbers_below_a_thousand(tmp_path, answer):
    path = write(tmp_path / "x.jsonl", [{"problem": "p", "answer": answer}])
    with pytest.raises(DataError, match=r"wanted a whole number 0\.\.999; load it as kind math"):
        load_tasks("aime", str(path), "train")


@pytest.mark.parametrize(
    ("extension", "content", "prompt"),
    [
        (".csv", "\ufeffproblem,answer\r\np,1\r\n", "p"),  # as Windows writes it, with a byte order mark
        (".jsonl", '{"problem": "one\u2028two", "answer": "1"}\n', "one\u2028two"),  # this separator ends no row
    ],
)
def test_other_systems_files_load(tmp_path, extension, content, prompt):
    path = tmp_path / f"x{extension}"
    path.write_bytes(content.encode())
    (task,) = load_tasks("math", str(path), "train")
    assert (task.prompt, task.answer) == (prompt, "1")


def test_an_error_keeps_its_parts_through_pickle():
    error = DataError("x.jsonl:3", "nothing", "an answer", "fix it")
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error) == "x.jsonl:3: found nothing, wanted an answer; fix it"
    assert copy.where == "x.jsonl:3"
    assert isinstance(copy, ValueError)


def test_a_path_is_a_path_object_too(tmp_path):
    sums = tmp_path / "sums.jsonl"
    sums.write_text('{"question": "1 + 1?", "answer": "2"}\n')
    assert load_tasks("math", sums) == load_tasks("math", str(sums))
    assert len(load_tasks("math", tmp_path / "sums.jsonl", "test")) == 1
    seen = []

    def load(data, split):
        seen.append(data)
        return MathTasks("sums", [Task("1", "1 + 1?", "2", split)])

    TaskEnvironment("own/sums_solo-v0", load, "solo")(data=sums)
    assert seen == [str(sums)]  # loaders of a task get text
    with pytest.raises(DataError, match="description"):
        load_problems("codeforces", sums)  # read, but no programming problem
