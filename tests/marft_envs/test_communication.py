from __future__ import annotations

import pytest

from marft_envs.communication import Communication, form_of


def test_forms():
    texts = ["first", "second"]
    assert form_of("full")(texts) == ["first", "second"]
    assert form_of("last")(texts) == [None, "second"]
    assert form_of("tail:3")(texts) == ["rst", "ond"]
    assert form_of("none")(texts) == [None, None]
    for name in ("full", "last", "tail:3", "none"):
        assert form_of(name)([]) == []


@pytest.mark.parametrize("name", ["tail", "tail:", "tail:0", "tail:-1", "tail:²", "all", ""])
def test_unknown_forms_are_refused(name):
    with pytest.raises(ValueError, match="wanted 'full'"):
        form_of(name)


def test_edges_override_the_default_and_round_trip():
    spec = {"default": "last", "a_0 -> b_0": "none"}
    communication = Communication.of(spec, ("a_0", "b_0"))
    assert communication.carry("a_0", "b_0", ["x"]) == [None]
    assert communication.carry("b_0", "a_0", ["x"]) == ["x"]
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
