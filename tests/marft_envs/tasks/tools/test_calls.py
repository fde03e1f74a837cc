"""Reading calls: what models emit, what they get wrong, what an attacker writes."""

from __future__ import annotations

import contextlib
import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marft_envs.tasks.tools.calls import MAX_CALLS, MAX_CHARS, Call, CallError, read_calls

ONE = Call("f", {"a": 1})
TWO = [ONE, Call("g", {"b": "x"})]
F, G = '{"name": "f", "arguments": {"a": 1}}', '{"name": "g", "arguments": {"b": "x"}}'


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        # Qwen, Hermes
        (f"<tool_call>\n{F}\n</tool_call>", [ONE]),
        (f"I will.\n<tool_call>{F}</tool_call> and <tool_call>\n{G}\n</tool_call> then wait.", TWO),
        (f"<tool_call>[{F}, {G}]</tool_call>", TWO),
        (f"<think>\nMaybe <tool_call>{G}</tool_call>\n</think>\n<tool_call>{F}</tool_call>", [ONE]),
        # OpenAI, Llama
        (F, [ONE]),
        (f"[{F}, {G}]", TWO),
        (f"{F}\n{G}", TWO),
        (f"{F}; {G}", TWO),
        (f"I look it up.\n{F}\n", [ONE]),
        (f"Here:\n```json\n{F}\n```\nDone.", [ONE]),
        (f"```json\n{F}\n```\nand\n```\n{G}\n```", TWO),
        (f"```json\n{F}", [ONE]),
        (json.dumps(json.loads(f"[{F}, {G}]"), indent=2), TWO),
        ('{"name": "f", "parameters": {"a": 1}}', [ONE]),
        ('{"type": "function", "id": "c1", "name": "f", "arguments": "{\\"a\\": 1}"}', [ONE]),
        ('{"tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{\\"a\\":1}"}}]}', [ONE]),
        ('{"role": "assistant", "content": null, "tool_calls": [{"function": ' + F + "}]}", [ONE]),
        ('[{"type": "function", "function": ' + F + "}]", [ONE]),
        ('{"name": "f", "arguments": ""}', [Call("f")]),
        ('{"name": "f", "arguments": null}', [Call("f")]),
        ('{"name": "f", "arguments": "null"}', [Call("f")]),
        ('{"name": "f", "parameters": null}', [Call("f")]),
        (f'<tool_call>{{"name": "f"}}</tool_call><tool_call>{F}</tool_call>', [Call("f"), ONE]),
        ('{"tool_calls": [{"id": "1", "function": {"name": "f"}}, {"id": "2", "function": ' + F + "}]}",
         [Call("f"), ONE]),
        ('{"name": "f", "arguments": {"s": "a\\ud800"}}', [Call("f", {"s": "a\ufffd"})]),
        # Python
        ("f(a=1)", [ONE]),
        ('[f(a=1), g(b="x")]', TWO),
        ('f(a=1), g(b="x")', TWO),
        ("f(a=1)\ng(b='x')", TWO),
        ("I look it up.\n  f(a=1)", [ONE]),
        ("```python\nf(a=1)\n```", [ONE]),
        ("```tool_code\n[f(a=1)]\n```", [ONE]),
        ('g("x", 2)', [Call("g", {}, ("x", 2))]),
        ("api.f.g()", [Call("api.f.g")]),
        (
            "f(a=[1, -2.5, (True, None)], b={'k': {'l': 'm'}}, c=false, d=null)",
            [Call("f", {"a": [1, -2.5, [True, None]], "b": {"k": {"l": "m"}}, "c": False, "d": None})],
        ),
        ('f(a="\\d")', [Call("f", {"a": "\\d"})]),
    ],
)  # fmt: skip
def test_what_models_emit(text: str, calls: list[Call]):
    assert read_calls(text) == calls


@pytest.mark.parametrize("said", [F, f"<tool_call>{F}</tool_call>", 'f(a=1, b="x")'])
@pytest.mark.parametrize("route", ["-> solver_0, actor_0", '{"act": ["actor_0"], "see": {"actor_0": []}}'])
def test_a_route_below_the_calls_is_no_part_of_them(said: str, route: str):
    assert [one.name for one in read_calls(f"{said}\n{route}\n")] == ["f"]
    assert [one.name for one in read_calls(f"{route}\n{said}")] == ["f"]
    assert read_calls('f(a="""\n-> b""")') == [Call("f", {"a": "\n-> b"})]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The order is on its way.",
        "The answer is \\boxed{7}.",
        '{"status": "open", "name": "Ann"}',
        "[1, 2, 3]",
        "order(s) that were lost",
        "f(x) = 3 holds (see above)",
        "I would use get_order(order_id=3), but may not.",
        '```json\n{"name": "Ann"}\n```',
        "```text\nf(a=1)\n```",
        f"<think>\n{F}\n</think>\nNothing to do.",
        "a -> b, c",
    ],
)
def test_text_without_a_call(text: str):
    assert read_calls(text) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"<tool_call>{F}", "not closed"),
        (f"{F}</tool_call>", "not opened"),
        ("<tool_call>f(a=1)</tool_call>", "JSON of a call cannot be read: Expecting value at 'f(a=1)'"),
        ("<tool_call></tool_call>", "found 0 JSON values"),
        (f"<tool_call>{F}{G}</tool_call>", "found 2 JSON values"),
        ("<tool_call>7</tool_call>", "found 7 for a call"),
        ('<tool_call>{"arguments": {}}</tool_call>', "needs a 'name'"),
        ('<tool_call>{"name": "f", "arguments": 0}</tool_call>', "f: 'arguments' must be an object, found 0"),
        ('{"name": "f", "arguments": [1]}', "f: 'arguments' must be an object, found [1]"),
        ('{"name": 7, "arguments": {}}', "needs a 'name' that is a string, found 7"),
        ('{"name": "f", "arguments": {}, "why": 1}', "f: unknown key 'why'"),
        ('{"name": "f", "arguments": {"a": 1, "a": 2}}', "a key is given twice"),
        ('{"name": "f", "arguments": {"a": NaN}}', "holds NaN"),
        ('{"name": "f", "arguments": {"a": 1e999}}', "too large"),
        ('{"name": "f", "arguments": {"a": ' + "9" * 5000 + "}}", "too long"),
        ('{"name": "f", "arguments": {"a": ' + "[" * 20 + "]" * 20 + "}}", "deeper than 16"),
        ('{"name": "f", "arguments": ' + '{"a":' * 5000, "cannot be read"),
        ('{"name": "f", "arguments": {"a": 1}', "cannot be read"),
        ('{"name": "f", "arguments": "{a: 1}"}', "cannot be read"),
        ("```json\n" + F[:-1], "cannot be read"),
        (f"{F}\nNow I wait.", "cannot be read: Expecting value at 'Now I wait.'"),
        ("f(a=1", "cannot be read in line 1"),
        ("f(a=open('x'))", "must be a literal, found Call"),
        ("f(a=b)", "must be a literal, found Name"),
        ("f(a=1+1)", "must be a literal, found BinOp"),
        ("f(a=f'{x}')", "must be a literal, found JoinedStr"),
        ("f(a=b'x')", "must be a literal, found Constant"),
        ("f(a={1: 2})", "must be different strings"),
        ("f(a={**b})", "must be"),
        ("f(a=--1)", "must be"),
        ("f(**x)", "by its own name"),
        ("f(*x)", "must be a literal, found Starred"),
        ("f(a=1)(b=2)", "must be a name, found Call"),
        ("f(a=1)\nimport os", "found Import"),
        ("f(a=1)\n'done'", "found Constant among the calls"),
        ("[f(a=1), 2]", "found Constant among the calls"),
        ("f(a=" + "[" * 18 + "]" * 18 + ")", "deeper than 16"),
        ("f(a=" + "(" * 5000 + ")", "cannot be read"),
        ("f(a=" + "-" * 20000 + "1)", ""),
        ("a" + ".a" * 9000 + "(b=1)", ""),
        ("f(a=1)\n" * (MAX_CALLS + 1), f"{MAX_CALLS + 1} calls at once; make at most {MAX_CALLS}"),
        ("f(a='" + "x" * MAX_CHARS + "')", f"say at most {MAX_CHARS}"),
    ],
)  # fmt: skip
def test_what_begins_like_a_call_and_is_none(text: str, message: str):
    with pytest.raises(CallError) as raised:
        read_calls(text)
    assert message in str(raised.value)
    assert len(str(raised.value)) < 300


def test_formats_can_be_chosen():
    assert read_calls("f(a=1)", formats=("tags", "json")) == []
    assert read_calls(f"<tool_call>{F}</tool_call>", formats=("python",)) == []


def test_nothing_is_evaluated(tmp_path):
    target = tmp_path / "made"
    for text in (
        f"f(a=open({str(target)!r}, 'w'))",
        f"[open({str(target)!r}, 'w')]",
        f"open({str(target)!r}, 'w').x()",
    ):
        try:
            read_calls(text)
        except CallError:
            continue
    assert not target.exists()


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.dictionaries(st.text(), PLAIN, max_size=3))
def test_what_is_written_is_read(arguments: dict[str, object]):
    text = json.dumps({"name": "f", "arguments": arguments})
    for form in (text, f"<tool_call>{text}</tool_call>", f"```json\n{text}\n```"):
        if not any(mark in json.dumps(arguments) for mark in ("<tool_call>", "```", "</think>")):  # these mean more
            assert read_calls(form) == [Call("f", arguments)]


@settings(deadline=None)
@given(st.dictionaries(st.from_regex(r"a_[a-z]{1,5}", fullmatch=True), PLAIN, min_size=1, max_size=3))
def test_python_literals_are_read(arguments: dict[str, object]):
    text = f"f({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"
    assert read_calls(text, formats=("python",)) == [Call("f", arguments)]


@settings(deadline=None)
@given(st.text() | st.text(alphabet='{}[]()",:=->fa1 _`\n<>/toolcall') | st.text(alphabet="f(a=1)[]\n,'"))
def test_any_text_gives_calls_or_an_error_for_the_model(text: str):
    with contextlib.suppress(CallError):
        assert all(call.name for call in read_calls(text))


def test_hostile_text_is_read_in_bounded_time():
    half = MAX_CHARS // 2
    hostile = [
        "\n" * MAX_CHARS, " " * MAX_CHARS, "[\n" * half, "{" * MAX_CHARS, "[" * MAX_CHARS, "f(" * half, "(" * MAX_CHARS,
        "<tool_call>" * 5000, "<tool_call>" * 2900 + "</tool_call>" * 2900, "```json\n" * 8000, "``` \n" * 13000,
        '"arguments":' * 5000, '{"arguments":' * 5000, '{"name":"f","arguments":' + "1," * half, "1," * half,
        "f(a=" + "1," * (half - 10) + ")", "a." * half + "(", "f(" + " " * (MAX_CHARS - 10), "f(a=1)\n" * 9000,
        "</think>" * 8000, "f(a='" + "\\" * (MAX_CHARS - 20) + "')", "-" * half + "f(a=1)", "f(a=1" + "0" * 60000 + ")",
    ]  # fmt: skip
    for text in hostile:
        start = time.process_time()
        with contextlib.suppress(CallError):
            read_calls(text[:MAX_CHARS])
        assert time.process_time() - start < 6, text[:20]
