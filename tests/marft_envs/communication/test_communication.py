from __future__ import annotations

import pytest

from marft_envs.communication import Communication, Utterance, form_of


def test_forms():
    texts = [Utterance("first"), Utterance("second")]
    assert form_of("full")(texts) == ["first", "second"]
    assert form_of("last")(texts) == [None, "second"]
    assert form_of("tail:3")(texts) == ["rst", "ond"]
    assert form_of("none")(texts) == [None, None]
    for name in ("full", "last", "record", "summary", "tail:3", "none"):
        assert form_of(name)([]) == []


@pytest.mark.parametrize("name", ["tail", "tail:", "tail:0", "tail:-1", "tail:²", "all", ""])
def test_unknown_forms_are_refused(name):
    with pytest.raises(ValueError, match="wanted 'full'"):
        form_of(name)


def test_edges_override_the_default_and_round_trip():
    spec = {"default": "last", "a_0 -> b_0": "none"}
    communication = Communication.of(spec, ("a_0", "b_0"))
    assert communication.carry("a_0", "b_0", [Utterance("x")]) == [None]
    assert communication.carry("b_0", "a_0", [Utterance("x")]) == ["x"]
    assert Communication.of(communication.to_json(), ("a_0", "b_0")) == communication
    assert Communication.of(communication, ("a_0", "b_0")) == communication
    assert not communication.is_full
    assert Communication.of("full", ()).is_full


@pytest.mark.parametrize("key", ["a_0", "a_0->x_0", "a_0->b_0->a_0", ""])
def test_strange_edges_are_refused(key):
    with pytest.raises(ValueError, match="a_0, b_0"):
        Communication.of({key: "full"}, ("a_0", "b_0"))


@pytest.mark.parametrize("spec", [None, ["full"], 3, {"default": 5}, {5: "full"}])
def test_what_is_no_form_is_refused(spec):
    with pytest.raises(ValueError, match=r"communication.*: found .*, wanted"):
        Communication.of(spec, ("a_0", "b_0"))


CALLS = (
    {"kind": "call", "agent": "a_0", "name": "look", "arguments": {"id": "W3"}, "status": "ok"},
    {"kind": "call", "agent": "a_0", "name": "put", "arguments": {"n": [1]}, "status": "ok", "changed": [["x.n", [1]]]},
    {"kind": "hand_off", "agent": "a_0", "to": "b_0", "message": "it is 1"},
)
MANY = tuple(CALLS[0] | {"arguments": {"text": "x" * 150}} for _ in range(8))


@pytest.mark.parametrize(
    ("action", "events", "wanted"),
    [
        ("Long thought.\nlook(id='W3')", (), 'did: look(id="W3")'),
        (
            "Long thought.",
            CALLS,
            'did: look(id="W3") -> ok; put(n=[1]) -> ok; hand_off(to="b_0", message="it is 1")\nchanged: x.n = [1]',
        ),
        ("Long thought.", CALLS[2:], 'did: hand_off(to="b_0", message="it is 1")'),
        ("so \\boxed{3}, no: \\boxed{4}", (), "answer: 4"),
        ('<tool_call>{"name": </tool_call>', (), "did: a call that cannot be read"),
        ("first line\nlast line\n", (), "said: last line"),
        ("", (), ""),
    ],
)
def test_the_record_holds_what_was_done_and_not_the_prose(action, events, wanted):
    assert form_of("record")([Utterance(action, events)]) == [wanted]


def test_many_calls_do_not_cut_away_the_hand_off_beside_them():
    (text,) = form_of("record")([Utterance("x", (*MANY, CALLS[2]))])
    assert text.endswith('…; hand_off(to="b_0", message="it is 1")')


def test_a_record_is_bounded():
    (text,) = form_of("record")([Utterance("x" * 10**5)])
    assert len(text) < 1000
    (text,) = form_of("record")([Utterance(f"put(text='{'y' * 5000}')")])
    assert len(text) < 1000


@pytest.mark.parametrize(
    ("action", "wanted"),
    [
        ("a\n\nb", "b"),
        ("a\nSummary: b\n\nc", "Summary: b\n\nc"),
        ("summary: a\nSummary : b", "Summary : b"),
        ("想法\n小结：五", "小结：五"),
        ("no summary: here", "no summary: here"),
        ("", ""),
    ],
)
def test_the_summary_is_the_end_that_its_author_wrote(action, wanted):
    assert form_of("summary")([Utterance(action)]) == [wanted]
