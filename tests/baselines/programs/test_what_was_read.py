"""Edges, bounds and layers of a program, worked by hand."""

from __future__ import annotations

import numpy as np

from baselines.programs.chat_messages import Chat
from baselines.programs.what_was_read import ProgramTurn, bound_of, layers_of, reads_of
from marft_agents.trajectory import Action


def turn(agent, asked, delivered, *, prompt=(), said=(), text="", messages=(), calls=(), named=()):
    ids = np.asarray(said, np.int32)
    action = Action(text, np.asarray(prompt, np.int32), ids, np.zeros(len(ids), np.float32), True)
    chat = Chat.of([{"role": role, "content": content} for role, content in messages])
    return ProgramTurn(agent, chat, action, text, asked, delivered, f"id-{asked}", tuple(calls), frozenset(named))


LONG = list(range(100, 112))


def test_requests_that_were_open_at_one_moment_are_a_layer():
    chain = [turn("a", 0, 1), turn("b", 2, 3)]
    crossing = [turn("a", 0, 3), turn("b", 1, 4), turn("a", 2, 5)]
    straggler = [turn("b", 1, 2), turn("c", 3, 4), turn("a", 0, 5)]
    assert layers_of(chain) == [0, 1]
    assert layers_of(crossing) == [0, 0, 0]
    assert layers_of(straggler) == [0, 1, 0]
    assert [bound_of(turns) for turns in (chain, crossing, straggler)] == [[0, 1], [0, 0, 0], [0, 1, 0]]


def test_eight_new_tokens_are_an_edge_and_seven_are_none():
    for count, edges in ((8, [(0, "tokens")]), (7, [])):
        turns = [turn("a", 0, 1, prompt=[1, 2], said=LONG), turn("b", 2, 3, prompt=[1, *LONG[2 : 2 + count], 5])]
        assert reads_of(turns)[1] == edges


def test_tokens_that_the_task_or_an_earlier_turn_has_are_no_edge():
    of_the_task = [turn("a", 0, 1, prompt=LONG, said=LONG), turn("b", 2, 3, prompt=LONG)]
    assert reads_of(of_the_task)[1] == []
    again = [turn("a", 0, 1, said=LONG), turn("b", 2, 3, said=LONG), turn("c", 4, 5, prompt=LONG)]
    assert reads_of(again)[2] == [(0, "tokens")]


def test_nothing_is_read_before_it_was_delivered():
    turns = [turn("b", 1, 2, prompt=LONG), turn("a", 0, 3, said=LONG)]
    assert reads_of(turns) == [[], []]


def test_an_assistant_message_a_call_and_a_response_are_edges():
    first = turn("a", 0, 1, text="yes", calls=["call_1"])
    by_message = turn("b", 2, 3, messages=[("user", "?"), ("assistant", "yes"), ("user", "go on")])
    by_call = turn("b", 2, 3, named=["call_1"])
    by_response = turn("b", 2, 3, named=["id-0"])
    by_user = turn("b", 2, 3, messages=[("user", "yes")])
    evidence = [reads_of([first, reader])[1] for reader in (by_message, by_call, by_response, by_user)]
    assert evidence == [[(0, "message")], [(0, "tool call")], [(0, "response")], []]


def test_equal_answers_are_told_apart_by_their_agent_and_their_order():
    own = [turn("a", 0, 1, text="yes"), turn("b", 2, 3, text="yes")]
    reader = turn("a", 4, 5, messages=[("assistant", "yes")])
    assert reads_of([*own, reader])[2] == [(0, "message")]
    both = turn("c", 4, 5, messages=[("assistant", "yes"), ("assistant", "yes")])
    assert reads_of([*own, both])[2] == [(0, "message"), (1, "message")]
