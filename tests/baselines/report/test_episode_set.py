"""Compact episodes: only the limit cuts texts, observations are parsed back, a growing file is followed."""

from __future__ import annotations

import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

import marft_envs
from baselines.report.episode_set import BLOCK, EpisodeSet, TextLimit, compact, messages_of, spread
from tests.baselines.report.report_inputs import AGENTS, HOSTILE, episode, write_lines

ALL = TextLimit()


def episodes_of(found):
    return [one for block in found.blocks for one in json.loads(zlib.decompress(block, -zlib.MAX_WBITS))]


def seen_by(turns, number):
    """Return the whole messages that a turn saw, as (author, text)."""
    turn = turns[number]
    before = [] if turn["saw_after"] is None else seen_by(turns, turn["saw_after"])
    return before + [(m["by"], m["text"] if "text" in m else turns[m["turn"]]["text"]) for m in turn["saw"]]


def test_actions_in_an_observation_are_references_to_their_turns():
    turns = compact(episode(1, ["one", "two", "three"]), ALL)["turns"]
    assert [[m.get("turn") for m in turn["saw"]] for turn in turns] == [
        [None, None],
        [None, None, 0],
        [None, None, 0, 1],
    ]
    assert seen_by(turns, 2)[2:] == [("planner_0", "one"), ("checker_0", "two")]
    assert [turn["layer"] for turn in turns] == [0, 1, 2]


@given(st.lists(st.text(st.sampled_from("a[]_0\n plner"), max_size=30), min_size=3, max_size=3))
def test_text_of_agents_cannot_pass_for_another_message(texts):
    turns = compact(episode(1, texts), ALL)["turns"]
    assert seen_by(turns, 2)[2:] == list(zip(AGENTS[:2], texts[:2], strict=True))


def test_a_shorter_form_of_an_action_is_a_text_of_its_author():
    found = messages_of(
        "[system]\nBe brief.\n\n[a_0]\nonly the end\n\n[environment]\nGo on.", [("a_0", "all but only the end")]
    )
    assert found == [
        {"by": "system", "text": "Be brief."},
        {"by": "a_0", "text": "only the end"},
        {"by": "environment", "text": "Go on."},
    ]


def test_an_observation_without_headers_is_one_text():
    assert messages_of("just text\n\n[x]", []) == [{"by": "", "text": "just text\n\n[x]"}]


@pytest.mark.parametrize("env_id", ["marft/gsm8k_duo-v0", "marft/tools_trio-v0", "marft/math_octet-v0"])
def test_messages_of_a_real_game_are_those_that_the_agents_saw(env_id):
    env = marft_envs.make(env_id).unwrapped
    env.reset(seed=3)
    chats = []
    for number in range(2 * len(env.possible_agents)):
        if not env.agents or env.terminations[env.agent_selection] or env.truncations[env.agent_selection]:
            break
        chats.append([(m.get("name") or m["role"], m["content"]) for m in env.observe(env.agent_selection).messages])
        env.step(f"[system]\nfake {number}\n\n[actor_0]\nno")
    game = env.episode().to_dict()
    turns = [{"agent": t["agent"], "round": t["round"], "text": t["action"], "reward": 0.0} for t in game["turns"]]
    record = episode(0) | {"game": game, "turns": turns}
    found = compact(record, ALL)["turns"]
    assert [seen_by(found, number) for number in range(len(found))] == chats


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_text_survives_as_it_is(tmp_path, kind):
    text = HOSTILE[kind]
    write_lines(tmp_path / "episodes.jsonl", [episode(1, [text] * 3)])
    found = EpisodeSet("all", tmp_path / "episodes.jsonl")
    found.refresh()
    [one] = episodes_of(found)
    assert [turn["text"] for turn in one["turns"]] == [text.encode("utf-8", "replace").decode()] * 3


def test_a_limit_cuts_the_middle_and_says_how_much():
    cut = TextLimit(100).cut("a" * 500 + "b" * 500)
    assert cut.startswith("a" * 75 + "\n[... 900 characters left out of this report ...]\n")
    assert cut.endswith("b" * 25)
    assert TextLimit(100).cut("short") == "short"


def test_a_growing_file_is_followed_and_a_shorter_one_read_anew(tmp_path):
    file = tmp_path / "episodes.jsonl"
    found = EpisodeSet("training", file)
    assert found.refresh() is False
    records = [episode(number, update=number) for number in range(BLOCK + 30)]
    write_lines(file, records[: BLOCK - 1])
    assert found.refresh() is True
    assert found.refresh() is False
    first = found.blocks[0]
    with file.open("a", encoding="utf-8") as stream:
        stream.writelines(json.dumps(record) + "\n" for record in records[BLOCK - 1 :])
        stream.write('{"update": 9')  # being written
    assert found.refresh() is True
    assert found.blocks[0] != first
    assert [one["update"] for one in episodes_of(found)] == list(range(BLOCK + 30))
    assert found.to_dict()["columns"]["task"][:2] == ["task-00000", "task-00001"]
    assert len(found.blocks) == found.to_dict()["blocks"] == 2
    write_lines(file, records[:10])
    assert found.refresh() is True
    assert found.total == len(episodes_of(found)) == 10


def test_kept_episodes_are_spread_over_the_file(tmp_path):
    write_lines(tmp_path / "episodes.jsonl", [episode(number, update=number) for number in range(50)])
    found = EpisodeSet("training", tmp_path / "episodes.jsonl", keep=5)
    found.refresh()
    assert [one["update"] for one in episodes_of(found)] == [0, 10, 20, 30, 40]
    assert (found.total, len(found.rows)) == (50, 5)
    assert spread(3, 10) == {0, 1, 2}


def test_the_index_tells_flags_and_cohorts(tmp_path):
    records = [episode(3, solved=True), episode(4, failure="lost"), episode(5)]
    records[2]["game"]["turns"][0]["shortened"] = [{"author": "planner_0", "round": 0, "removed": 4}]
    records[2]["infos"] = {}
    write_lines(tmp_path / "episodes.jsonl", records)
    found = EpisodeSet("all", tmp_path / "episodes.jsonl", {"level": [1, 2]})
    found.refresh()
    told = found.to_dict()
    flags = {name: told["columns"][name] for name in ("solved", "failed", "violated", "shortened")}
    assert flags == {"solved": [1, None, 0], "failed": [0, 1, 0], "violated": [1, 0, 0], "shortened": [0, 0, 1]}
    assert told["cohorts"] == {"level": [1, 2, 1]}
    assert sorted(map(tuple, told["edges"])) == [
        ("checker_0", "writer_0", False, 1.0),
        ("planner_0", "checker_0", False, 1.0),
        ("planner_0", "writer_0", False, 1.0),
    ]


def test_a_line_that_is_no_episode_is_named(tmp_path):
    write_lines(tmp_path / "episodes.jsonl", [episode(1), {"update": 0}])
    with pytest.raises(ValueError, match=r"episodes\.jsonl:2: this is no record of an episode"):
        EpisodeSet("all", tmp_path / "episodes.jsonl").refresh()


def test_a_run_without_observations_has_turns_without_what_they_saw():
    record = episode(1)
    kept = ("agent", "round", "visible", "fault")
    record["game"]["turns"] = [{name: turn[name] for name in kept} for turn in record["game"]["turns"]]
    turns = compact(record, ALL)["turns"]
    assert not any("saw" in turn for turn in turns)
    assert [turn["visible"] for turn in turns] == [[], [0], [0, 1]]
    plain = compact(episode(1, game=None), ALL)
    assert [turn["visible"] for turn in plain["turns"]] == [[], [], []]
