"""Multi-session recall: the oracle solves it, nobody without memory beats chance, and the store does as it is told."""

from __future__ import annotations

import random
import re
import sys
from collections import Counter, defaultdict
from functools import partial
from itertools import pairwise

import pytest

import marft_envs
from baselines.experiment.gold_answers import oracle_of
from marft_envs import Episode, replay
from marft_envs.records.replay import rebuild
from marft_envs.tasks.recall import SIZES, Entry, Fact, Memory, RecallSize, RecallTask, RecallTasks, Store, draw
from marft_envs.tasks.recall.store import OPERATIONS, Command
from marft_envs.tasks.recall.wording import Sentences, Terse
from marft_envs.testing import check_environment

TEAMS = ("solo", "duo", "trio", "quartet")
ONE_BLOCK = 12  # tasks: whole blocks of every size


def new_game(team="trio", **keywords):
    return marft_envs.make(f"marft/recall_{team}-v0", **{"split": "test", **keywords})


def play(env, index, say):
    """Play a task with `say(agent, observation)`; return the record."""
    env.reset(seed=index, options={"index": index})
    while not any(env.terminations.values()) and not any(env.truncations.values()):
        env.step(say(env.agent_selection, env.observe(env.agent_selection)))
    return env.unwrapped.episode()


def solved(env, count, say=None):
    oracle = oracle_of(env)
    said = say or (lambda agent, seen: oracle(env.unwrapped, agent, seen))
    return sum(play(env, index, said).success for index in range(count)) / count


# ------------------------------------------------------------------ the score of the oracle, and chance


@pytest.mark.parametrize("team", TEAMS)
@pytest.mark.parametrize("size", SIZES)
def test_the_oracle_solves_every_size_with_every_team(team, size):
    env = new_game(team, size=size)
    assert solved(env, ONE_BLOCK) == 1.0
    record = env.unwrapped.episode()
    assert [turn.fault for turn in record.turns] == [""] * len(record.turns)
    assert {event["status"] for outcome in record.outcomes for event in outcome.events} == {"ok"}
    assert record.outcomes[-1].detail["stored"]
    assert record.outcomes[-1].detail["found"]
    assert len(record.outcomes) == SIZES[size].sessions + 2


@pytest.mark.parametrize("size", ["tiny", "small"])
def test_without_memory_no_policy_beats_chance_and_each_has_it_exactly(size):
    """The best answers to what the answering agent sees, over the whole split."""
    env = new_game(size=size, memory="none")
    answers = defaultdict(Counter)
    for index in range(len(env.unwrapped.tasks)):
        env.reset(seed=0, options={"index": index})
        assert env.agent_selection == "answerer_0"
        answers[env.observe("answerer_0")][env.unwrapped.task.answer] += 1
    best = sum(max(counts.values()) for counts in answers.values()) / len(env.unwrapped.tasks)
    assert best == pytest.approx(1 / SIZES[size].values)
    rng = random.Random(0)
    said = {seen: rng.choice(sorted(counts)) for seen, counts in answers.items()}
    assert solved(env, len(env.unwrapped.tasks), lambda agent, seen: said[seen]) == pytest.approx(
        1 / SIZES[size].values
    )


@pytest.mark.parametrize("team", TEAMS)
def test_agents_that_keep_nothing_are_at_chance(team):
    """The readers are perfect, the writer writes nothing: by playing."""
    env = new_game(team, size="tiny")
    oracle = oracle_of(env)

    def say(agent, seen):
        return "d" if "value" in seen.messages[-1]["content"] else oracle(env.unwrapped, agent, seen)

    assert solved(env, 60, say) == pytest.approx(1 / 3)
    assert solved(env, 60, lambda agent, seen: "0") == pytest.approx(1 / 3)


def test_a_store_that_only_grows_misses_what_changed():
    """In `tiny` the writer must tell new keys from known ones."""
    env = new_game(size="tiny")
    oracle = oracle_of(env)

    def always(letter):
        return lambda agent, seen: letter if agent == "writer_0" else oracle(env.unwrapped, agent, seen)

    adds, updates = solved(env, 120, always("a")), solved(env, 120, always("b"))
    assert updates == pytest.approx(1 / 3)
    assert 1 / 3 < adds < 0.9


@pytest.mark.parametrize(
    ("memory", "low", "high"),
    [("all", 1.0, 1.0), ("last:2", 0.25, 0.25), ("last:6", 0.4, 0.9), ("bm25:1", 0.3, 0.8), ("bm25:3", 0.9, 1.0)],
)
def test_fixed_policies_lie_between_chance_and_the_oracle(memory, low, high):
    env = new_game(memory=memory)
    assert low <= solved(env, 120) <= high
    assert [turn.agent for turn in env.unwrapped.episode().turns] == ["answerer_0"]


@pytest.mark.parametrize(
    ("memory", "agents"),
    [
        ({"write": "agents", "read": "bm25:2"}, ["writer_0"] * 4 + ["answerer_0"]),
        ({"write": "agents", "read": "all"}, ["writer_0"] * 4 + ["answerer_0"]),
        ({"write": "all", "read": "agents"}, ["query_0", "answerer_0"]),
        ({"write": "none"}, ["query_0", "answerer_0"]),
    ],
)
def test_one_part_may_be_fixed_and_its_rounds_are_left_out(memory, agents):
    env = new_game(memory=memory)
    assert (solved(env, ONE_BLOCK) > 0.9) == (memory["write"] != "none")
    assert [turn.agent for turn in env.unwrapped.episode().turns] == agents


# ------------------------------------------------------------------ distilling

DISTILLERS = {"solo": "keeper_0", "duo": "reader_0", "trio": "answerer_0", "quartet": "distiller_0"}
ALL_AGENTS = {"write": "agents", "read": "agents", "distil": "agents"}


@pytest.mark.parametrize("team", TEAMS)
@pytest.mark.parametrize("size", ["tiny", "small"])
def test_with_distil_the_oracle_solves_it_and_the_round_before_the_last_is_the_distillers(team, size):
    env = new_game(team, size=size, memory=ALL_AGENTS)
    assert solved(env, ONE_BLOCK) == 1.0
    record = env.unwrapped.episode()
    assert len(record.outcomes) == SIZES[size].sessions + 3
    assert record.turns[-2].agent == DISTILLERS[team]
    assert [outcome.detail["phase"] for outcome in record.outcomes[-3:-1]] == [3, 2]
    assert record.outcomes[-1].detail["distilled"]
    assert {event["status"] for outcome in record.outcomes for event in outcome.events} == {"ok"}


@pytest.mark.parametrize(
    "memory", [{**ALL_AGENTS, "write": "all"}, {"write": "all", "read": "bm25:3"}, {"read": "all"}]
)
@pytest.mark.parametrize("size", ["tiny", "small"])
def test_who_answers_sees_the_question_and_the_note_alone(size, memory):
    env = new_game("quartet", size=size, memory=memory | {"distil": "agents"})
    task, oracle = env.unwrapped.tasks[0], oracle_of(env)
    wrong = next(choice for choice in task.choices if choice != task.answer)
    said = f"note: {wrong}" if size == "small" else wrong
    record = play(env, 0, lambda agent, seen: said if agent == "distiller_0" else oracle(env.unwrapped, agent, seen))
    distiller, answerer = (turn.observation.messages[-1]["content"] for turn in record.turns[-2:])
    read = "Memory, oldest first:" if size == "small" else f" {task.key} {task.answer}"
    note = f"Note: {wrong}\n" if size == "small" else f"topic {task.key} ? heard {wrong}"
    assert (read in distiller, read in answerer) == (True, False)
    assert note in answerer
    assert record.turns[-1].action == wrong  # the answering agent has nothing else to go by
    assert record.outcomes[-1].detail == {"stored": True, "found": True, "distilled": False, "extracted": wrong}
    assert not record.success


@pytest.mark.parametrize(("size", "shown"), [("small", "Note: (empty)\n"), ("tiny", "? heard ?")])
def test_no_note_is_a_fault_and_shows_nothing(size, shown):
    env = new_game("quartet", size=size, memory=ALL_AGENTS)
    record = play(env, 0, lambda agent, seen: " " if size == "tiny" else "Gus lives in Lima.")
    assert shown in record.turns[-1].observation
    assert [dict(event) for event in record.outcomes[-2].events] == [
        {"kind": "distil", "agent": "distiller_0", "round": SIZES[size].sessions + 1, "status": "unreadable"}
    ]
    assert record.outcomes[-2].invalid


def test_without_distil_nothing_tells_of_it():
    env = new_game("quartet")
    assert env.unwrapped.settings["memory"] == {"write": "agents", "read": "agents"}
    assert solved(env, 1) == 1.0
    record = env.unwrapped.episode()
    assert "distiller_0" not in [turn.agent for turn in record.turns]
    assert "distilled" not in record.outcomes[-1].detail
    assert [outcome.detail.get("phase") for outcome in record.outcomes] == [0, 0, 0, 1, 2, None]


# ------------------------------------------------------------------ tasks


@pytest.mark.parametrize("size", SIZES)
def test_tasks_are_of_their_size_and_half_of_them_contradict_themselves(size):
    wanted, tasks = SIZES[size], draw(RecallSize.of(size), "test")
    assert len(tasks) == 240
    assert Counter(task.meta["contradicted"] for task in tasks) == {0: 120, 1: 120}
    for task in tasks:
        told = [(number, fact) for number, facts in enumerate(task.sessions) for fact in facts if fact.key == task.key]
        assert [len(facts) for facts in task.sessions] == [wanted.facts] * wanted.sessions
        assert (len(told) > 1) == bool(task.meta["contradicted"])
        assert task.answer == told[-1][1].value
        assert wanted.sessions - told[-1][0] == task.meta["distance"] >= wanted.distance
        assert len(task.choices) == wanted.values
        assert [fact.changed for _, fact in told] == [False] + [True] * (len(told) - 1)
        assert all(one.value != two.value for (_, one), (_, two) in pairwise(told))
        keys = {fact.key for facts in task.sessions for fact in facts}
        assert len(keys) <= wanted.capacity  # so that the oracle can hold all


def test_splits_share_no_conversation_and_drawing_is_a_pure_function():
    for size in ("small", "medium", "large"):
        train, test = (RecallTasks.load("embedded", split, size=size) for split in ("train", "test"))
        assert not {task.prompt for task in train} & {task.prompt for task in test}
        assert len({task.prompt for task in train}) == len(train) == 480
    assert draw(SIZES["small"], "test") == draw(SIZES["small"], "test")
    first = draw(SIZES["small"], "test")[0]  # a change of these would change results: then raise the version
    assert (first.key, first.answer, first.choices) == ("Gus city", "Lima", ("Lima", "Quito", "Rome", "Tunis"))
    env = new_game(size={"sessions": 6, "facts": 3, "distance": 3, "keys": 6, "capacity": 6})
    assert solved(env, ONE_BLOCK) == 1.0


def test_tasks_of_ones_own():
    sessions = (Fact("door code", "red"),), (Fact("door code", "green", changed=True),)
    task = RecallTask("door", "", "green", "train", sessions=sessions, key="door code", choices=("green", "red"))
    env = new_game(data=RecallTasks([task], memory={"read": "all"}))
    record = play(env, 0, {"writer_0": "add door code: green", "answerer_0": "It is GREEN now."}.get)
    assert [event["status"] for outcome in record.outcomes for event in outcome.events] == ["ok", "ok"]
    assert record.success
    assert "- door code: green" in record.turns[-1].observation
    assert "latest value of door code" in record.turns[-1].observation
    with pytest.raises(ValueError, match="needs sessions, and an answer among its choices"):
        RecallTasks([RecallTask("door", "", "blue", "train", sessions=sessions, choices=("green", "red"))])
    with pytest.raises(ValueError, match=r"tasks with \[1, 2\] sessions"):
        RecallTasks([task, RecallTask("b", "", "red", "train", sessions=sessions[:1], choices=("red",))])


# ------------------------------------------------------------------ rounds


def test_nobody_sees_an_earlier_session():
    env = new_game(split="train")
    shown = []

    def say(agent, seen):
        shown.append(str(seen))
        return f"add nothing: marker{len(shown)}" if agent == "writer_0" else "nothing"

    play(env, 1, say)
    for number, text in enumerate(shown):
        assert re.findall(r"Session (\d) of 4", text) == ([str(number + 1)] if number < 4 else [])
        for before in range(1, number + 1):  # the store: all of it for the writer, 3 results of a query
            assert (f"marker{before}" in text) == (number in (1, 2, 3) or (number == 5 and 1 < before < 5))
    assert [env.unwrapped.infos[agent]["phase"] for agent in env.possible_agents] == [2] * 3


def test_episodes_replay_and_records_rebuild_them():
    for memory in ("agents", "bm25:1", {"distil": "agents"}):
        env = new_game(memory=memory)
        oracle = oracle_of(env)
        record = play(env, 5, lambda agent, seen, env=env, oracle=oracle: oracle(env.unwrapped, agent, seen))
        record = Episode.from_json(record.to_json())
        assert replay(new_game(memory=memory), record) == []
        plain = record.to_dict()
        actions = [turn.action for turn in record.turns]
        rebuilt = rebuild(
            new_game(memory=memory), seed=5, task_id=record.task_id, actions=actions, outcomes=plain["outcomes"]
        )
        assert [turn.observation for turn in rebuilt.turns] == [turn.observation for turn in record.turns]


DISTILLED = {"memory": {"distil": "agents"}}


@pytest.mark.parametrize(
    "keywords",
    [
        {"size": "tiny"},
        {"team": "quartet", **DISTILLED},
        *(
            pytest.param(one, marks=pytest.mark.long)
            for one in ({}, {"memory": "all"}, {"dependency": "chain"}, DISTILLED)
        ),
    ],
)
def test_it_conforms(keywords):
    report = check_environment(partial(new_game, **keywords), cycles=10, thorough=False)
    left_out = {"random text wins nothing"} if keywords.get("size") == "tiny" else set()
    assert [str(check) for check in report.checks if check.passed is False and check.name not in left_out] == []


def test_two_writers_of_one_round_both_write():
    env = new_game(size="tiny", dependency="independent")
    record = play(env, 0, lambda agent, seen: "a")
    assert [event["agent"] for event in record.outcomes[0].events] == list(env.possible_agents)
    assert [event["status"] for event in record.outcomes[0].events] == ["ok", "ok", "full"]


# ------------------------------------------------------------------ store and actions


def test_the_store_adds_updates_deletes_and_is_bounded():
    store = Store(2)
    for command, status in [
        (("add", "Ann city", "Rome"), "ok"),
        (("update", "Ben city", "Oslo"), "unknown"),
        (("add", "Ben city", "Oslo"), "ok"),
        (("add", "Cleo city", "Lima"), "full"),
        (("keep",), "ok"),
        (("update", "ann CITY", "Lima"), "ok"),
        (("delete", "Ben city"), "ok"),
        (("delete", "Ben city"), "unknown"),
    ]:
        assert store.apply(Command(*command)) == status, command
    assert [entry.text for entry in store.entries] == ["ann CITY: Lima"]


def test_a_query_returns_the_entries_that_share_most_words():
    store = Store(9, [Entry(f"{name} {what}", value) for name, what, value in ENTRIES])
    assert [entry.value for entry in store.search("query ann city", 3)] == ["Rome", "Lima"]
    assert [entry.value for entry in store.search("ANN city", 1)] == ["Lima"]  # the newest
    assert [entry.value for entry in store.search("tea?", 3)] == ["tea"]
    assert store.search("Zoe", 3) == store.search("", 3) == []


ENTRIES = [("Ann", "city", "Rome"), ("Ben", "city", "Oslo"), ("Ann", "drink", "tea"), ("Ann", "city", "Lima")]


@pytest.mark.parametrize(
    ("action", "wanted"),
    [
        ("add Ann city: Rome", [Command("add", "Ann city", "Rome")]),
        ("ADD Ann city : Rome \n\nkeep", [Command("add", "Ann city", "Rome"), Command("keep", "", "")]),
        ("delete Ann city", [Command("delete", "Ann city", "")]),
        ("keep it all", [Command("keep", "it all", "")]),
        ("add Ann city", [None]),
        ("I will add Ann city: Rome", [None]),
        ("", [None]),
    ],
)
def test_commands_are_read_line_by_line(action, wanted):
    assert Sentences().commands(action, ()) == wanted


def test_an_answer_must_name_exactly_one_choice():
    task = draw(SIZES["small"], "test")[0]
    one, two, *_ = task.choices
    read = Sentences().answer
    assert read(f"It was {one.upper()}!", task) == one
    assert read(f"{one} or {two}", task) is None
    assert read("no idea", task) is None


def test_terse_actions_are_read_by_their_first_character():
    task = draw(SIZES["tiny"], "test")[0]
    terse = Terse()
    read = [terse.commands(letter, task.sessions[0])[0].operation for letter in "abcde"]
    assert read == [*OPERATIONS, "add"]
    assert [terse.query(text, task) for text in ("a", "b", "c", " ")] == ["a", "b", "a", ""]
    assert [terse.answer(text, task) for text in ("0", "4", "")] == ["0", "1", None]
    assert terse.commands(" ", task.sessions[0]) == [None]


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"memory": "bm25"}, "memory: found 'bm25', wanted agents, none"),
        ({"memory": "last:0"}, "memory: found 'last:0'"),
        ({"memory": {"write": "bm25:2"}}, "memory: found"),
        ({"memory": {"wrote": "all"}}, "memory: found"),
        ({"memory": 3}, "memory: found 3"),
        ({"memory": {"distil": "all"}}, "memory: found {'distil': 'all'}, wanted agents, none"),
        ({"memory": {"distil": True}}, "memory: found {'distil': True}"),
        ({"memory": {"distil": "agents"}, "horizon": 6}, "horizon: found 6, wanted at least 7"),
        ({"size": "huge"}, "size: found 'huge', wanted tiny, small"),
        ({"size": {"session": 3}}, "size: found 'session'"),
        ({"size": {"sessions": 2, "distance": 2}}, "size.sessions: found 2, wanted a whole number from 3"),
        ({"size": {"facts": 4}}, "size.facts: found 4, wanted a whole number from 1 to 3"),
        ({"size": {"values": 7}}, "size.values: found 7"),
        ({"split": "dev"}, "found split 'dev', wanted one of train, test"),
        ({"data": "embedded:stories"}, "the tasks are drawn"),
        ({"horizon": 3}, "horizon: found 3, wanted at least 6"),
        ({"size": "large", "horizon": 17}, "horizon: found 17, wanted at least 18"),
    ],
)
def test_bad_input_is_refused_with_what_is_wanted(keywords, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        new_game(**keywords)


def test_without_its_library_bm25_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(ImportError, match=r"pip install .*\[memory\]'"):
        Memory.of("bm25:2")
    assert Memory.of("all") == Memory("all", "all")


def test_other_presets_of_teams_are_refused():
    with pytest.raises(marft_envs.TeamError, match="no preset team 'octet' for 'recall'"):
        marft_envs.make("marft/recall_duo-v0", team="octet")
