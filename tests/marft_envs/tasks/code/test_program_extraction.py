"""Which text of an answer is the program."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marft_envs.tasks.code.program import MAX_PROGRAM_CHARS, Program, extract_program

PY, CPP = "print(1)\n", "#include <cstdio>\nint main() {}\n"

TABLE = [
    (f"```python\n{PY}```", PY, "python"),
    (f"Text\n```cpp\n{CPP}```\nmore text", CPP, "c++"),
    *[
        (f"```{tag}\n{PY}```", PY, "python")
        for tag in ("py", "Python", "python3", "Py3", "{.python}", "python title=a.py")
    ],
    *[(f"```{tag}\n{CPP}```", CPP, "c++") for tag in ("c++", "C++", "cc", "cpp17", "c++20", "C++17")],
    (f"```python\nold\n```\nNo, better:\n```python\n{PY}```", PY, "python"),
    (f"```cpp\n{CPP}```\nor\n```python\n{PY}```", PY, "python"),
    (f"```python\n{PY}```\nIt prints:\n```\n1\n```", PY, "python"),
    (f"```python\n{PY}```\nNot:\n```\nimport x\n```", PY, "python"),  # a tag says more than looks
    (f"```python\n{PY}```\nIt prints:\n```text\nimport x\n```", PY, "python"),
    (f"```python\n{PY}```\n```java\nclass A {{}}\n```\n```json\n{{}}\n```", PY, "python"),
    (f"```\n{CPP}```", CPP, "c++"),
    (f"```\n{PY}```", PY, "python"),
    ("```\nn = int(input())\n```", "n = int(input())\n", "python"),
    ("```\n1 2 3\n```", None, None),
    (f"```python\n{PY}", PY, "python"),  # cut before its end
    (f"```python\nnever closed\n```python\n{PY}```", PY, "python"),
    (f"````python\n{PY}````", PY, "python"),
    (f"~~~python\n{PY}~~~", PY, "python"),
    ("````python\ns = '''\n```\n'''\n````", "s = '''\n```\n'''\n", "python"),
    ("1. So:\n   ```python\n   if 1:\n       print(1)\n   ```", "if 1:\n    print(1)\n", "python"),
    (f"```python\r\n{PY.strip()}\r\n```\r\n", PY, "python"),
    ("```python\n\n```", None, None),
    ("```python```", None, None),
    (PY, None, None),
    ("", None, None),
    ("```", None, None),
    ("```python\n" + "x" * (MAX_PROGRAM_CHARS + 1) + "\n```", None, None),
]


@pytest.mark.parametrize(("answer", "source", "language"), TABLE)
def test_the_last_block_in_a_language_asked_for_is_the_program(answer, source, language):
    assert extract_program(answer) == (None if source is None else Program(source, language))


def test_other_languages_than_asked_for_are_passed_over():
    answer = f"```python\n{PY}```\n```cpp\n{CPP}```"
    assert extract_program(answer, ["python"]) == Program(PY, "python")
    assert extract_program(answer, ["c++"]) == Program(CPP, "c++")
    assert extract_program(f"```cpp\n{CPP}```", ["python"]) is None


HOSTILE = {
    "fences": "```\n" * 250_000,
    "tagged": "```python\n" * 100_000,
    "backticks": "`" * 1_000_000,
    "blanks": "```" + " " * 1_000_000,
    "tag": "```" + "a" * 1_000_000,
    "many spaces": "   ```python   " * 70_000,
    "no end": "```python\n" + "a = input(\n" * 100_000,
    "one line": "```\n" + "x, " * 330_000,
    "commas": "```\nfor " + "x," * 500_000,
    "tildes": "~~~`" * 250_000,
}


@pytest.mark.parametrize("answer", HOSTILE.values(), ids=HOSTILE)
def test_a_megabyte_of_anything_is_read_at_once(answer):
    started = time.process_time()
    extract_program(answer)
    assert time.process_time() - started < 8.0  # quadratic work would take hours


@given(st.text(alphabet="`~\n apythonc+{}.\r\t#", max_size=300))
@settings(deadline=None)
def test_no_text_raises(answer):
    found = extract_program(answer)
    assert found is None or (found.source.strip() and found.language in ("python", "c++"))
