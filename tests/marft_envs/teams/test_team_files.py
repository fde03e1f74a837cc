from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import marft_envs
from marft_envs import Profile, Team, TeamError
from marft_envs.dependency import chain, full, schedule
from marft_envs.dependency.routed import read_route
from marft_envs.game.turn import Turn
from marft_envs.teams.team import LANGUAGES, PRESETS, as_team
from tests.helpers.toy_games import toy_team

SIZES = {"solo": 1, "duo": 2, "trio": 3, "quartet": 4, "sextet": 6, "octet": 8, "dozen": 12, "routed": 5}
PLAIN = {
    "name": "pair",
    "dependency": "chain",
    "profiles": [
        {"name": "reasoner_0", "system_prompt": "Think."},
        {"name": "actor_0", "system_prompt": "Answer.", "answers": True},
    ],
}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_playable(name: str, language: str):
    team = Team.preset(name, language)
    assert len(team.profiles) == SIZES[name]
    team.check()
    assert [profile.name for profile in team.profiles if profile.answers] == ["actor_0"]
    actor = team.profiles[-1]
    assert "\\boxed" in actor.system_prompt
    assert "\\boxed{5}" in actor.examples[0][1]
    assert all(profile.examples for profile in team.profiles)
    assert any("一" <= character <= "龥" for character in actor.system_prompt) == (language == "zh")
    for profile in team.profiles:  # a worked example looks like the game: who is seen is who speaks in it
        authors = [author for author, _ in profile.examples[0][0]]
        asked = {"actor_0": "arithmetic_0"}.get(profile.name, profile.name)
        said = Turn("orchestrator_0", 0, 0, (), "", f"-> {asked}", "")
        plan = team.dependency.plan(team.roster, 0, [said] if name == "routed" and len(authors) > 1 else [])
        assert authors == ["environment", *(agent for agent in plan.order if agent in plan.sees[profile.name])]


@pytest.mark.parametrize(
    ("name", "widths"), [("sextet", [1, 2, 1, 1, 1]), ("octet", [1, 3, 2, 1, 1]), ("dozen", [1, 6, 3, 1, 1])]
)
@pytest.mark.parametrize("family", ["math", "code"])
def test_larger_teams_have_layers_of_several(name, widths, family):
    team = Team.preset(name, family=family)
    assert [len(layer) for layer in team.dependency.plan(team.roster).layers] == widths


@pytest.mark.parametrize("family", ["math", "code", "tools"])
def test_the_orchestrator_of_the_routed_preset_names_three_specialists(family):
    team = Team.preset("routed", family=family)
    routes = [said for _, said in team.profiles[0].examples]
    specialists = [profile.name for profile in team.profiles[1:4]]
    assert team.dependency.answer_by == team.profiles[4].name == ("coder_0" if family == "code" else "actor_0")
    assert all(name in team.profiles[0].system_prompt for name in specialists)
    for route in routes:
        assert set(read_route(route).act) <= set(specialists)


def test_save_and_load(tmp_path: Path):
    team = Team.preset("octet")
    team.save(tmp_path / "team.json")
    assert Team.load(tmp_path / "team.json") == team == as_team(str(tmp_path / "team.json")) == as_team(team.to_dict())
    assert team.fingerprint == Team.load(tmp_path / "team.json").fingerprint
    assert team.fingerprint != Team.preset("octet", "zh").fingerprint
    assert os.listdir(tmp_path) == ["team.json"]
    (tmp_path / "marked.json").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "team.json").read_bytes())
    assert Team.load(tmp_path / "marked.json") == team


def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch):
    path = tmp_path / "team.json"
    Team.preset("solo").save(path)

    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(TeamError, match=r"team\.json: the team cannot be written .*No space left"):
        Team.preset("duo").save(path)
    assert os.listdir(tmp_path) == ["team.json"]
    assert Team.load(path) == Team.preset("solo")
    with pytest.raises(TeamError, match="cannot be written"):
        Team.preset("duo").save(tmp_path / "no" / "team.json")
    with pytest.raises(TeamError, match="cannot be written"):
        Team("odd", (Profile("actor_0", "\ud800", answers=True),)).save(path)
    assert os.listdir(tmp_path) == ["team.json"]


def test_a_saved_team_is_for_others_to_read_too(tmp_path: Path):
    (tmp_path / "plain").write_text("")
    Team.preset("solo").save(tmp_path / "team.json")
    assert (tmp_path / "team.json").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_preset_by_name_speaks_the_language_asked_for():
    assert as_team("duo", "zh") == Team.preset("duo", "zh")
    assert marft_envs.make("marft/cmath_solo-v0", team="duo").unwrapped.team == Team.preset("duo", "zh")
    with pytest.raises(TeamError, match="found 'dou', wanted a Team, the path of a file or one of solo, duo"):
        as_team("dou")


def broken(**changes):
    return {**PLAIN, **changes}


def second(**changes):
    profile = {**PLAIN["profiles"][1], **changes}
    return broken(profiles=[PLAIN["profiles"][0], {key: value for key, value in profile.items() if value != "-"}])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "found list, wanted an object"),
        (broken(profiles=[]), "found no agents"),
        ({"name": "x"}, "the key 'profiles' is missing"),
        (broken(profils=[]), "unknown key 'profils'; did you mean profiles"),
        (broken(profiles={}), "wanted list"),
        (broken(name=3), "name: found 3"),
        (broken(language="fr"), "language 'fr'"),
        (broken(dependency="ring"), "dependency.kind: found 'ring'"),
        (broken(dependency={"kind": "matrix", "rows": [[0, 1], [1, 0]]}), "cycle: reasoner_0 -> actor_0"),
        (broken(dependency={"kind": "routed", "by": "boss_0"}), "boss_0"),
        (second(system_prompt="-"), r"profiles\[1\]: the key 'system_prompt' is missing"),
        (second(name="reasoner_0"), "two agents are called 'reasoner_0'"),
        (second(name="Actor"), r"profiles\[1\].name: agent id 'Actor'"),
        (second(name=1), r"profiles\[1\].name: found 1"),
        (second(answer=True), r"profiles\[1\]: unknown key 'answer'; did you mean answers"),
        (second(answers="yes"), r"profiles\[1\].answers: found 'yes' \(str\), wanted bool"),
        (second(answers=False), "no agent that answers"),
        (second(examples=[{"user": "x"}]), r"profiles\[1\].examples\[0\]: the key 'assistant' is missing"),
        (second(examples=[{"user": [["a"]], "assistant": "x"}]), r"examples\[0\].user: found \['a'\]"),
        (second(examples=[{"user": 1, "assistant": "x"}]), "wanted list"),
        (second(tools=[1]), r"tools\[0\]"),
    ],
)  # fmt: skip
def test_a_broken_file_gives_one_message_with_file_and_key(tmp_path: Path, value, message):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    with pytest.raises(TeamError, match=message) as caught:
        Team.load(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("text", "message"), [("{", "no JSON"), ("[" * 100_000, "no JSON"), ("\udcff", "read")])
def test_no_json(tmp_path: Path, text: str, message: str):
    path = tmp_path / "mine.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(TeamError, match=message):
        Team.load(path)
    with pytest.raises(TeamError, match=r"other\.json: the team cannot be read"):
        Team.load(tmp_path / "other.json")


def test_other_things_are_no_teams():
    with pytest.raises(TeamError, match="expected a Team"):
        as_team(3)
    with pytest.raises(TeamError, match="no preset team 'nonet'"):
        Team.preset("nonet")
    assert as_team("duo") == Team.preset("duo")


def test_a_team_that_answers_in_a_later_round_can_be_saved(tmp_path: Path):
    talk = schedule([chain(active=("a_0",), delayed="all"), chain(active=("b_0",))])
    toy_team("a_0", "b_0", dependency=talk).save(tmp_path / "team.json")
    team = Team.load(tmp_path / "team.json")
    with pytest.raises(ValueError, match="ever acts"):
        team.check(horizon=1)


def test_opening_of_a_profile():
    profile = Profile("a_0", "Be good.", examples=(("1+1?", "2"),), private="The safe is open.\ud800")
    roles = [(message.role, message.name) for message in profile.opening]
    assert roles == [("system", ""), ("user", "environment"), ("assistant", "a_0")]
    assert profile.opening[0].content == "Be good.\n\nThe safe is open.\ufffd"
    assert Profile("a_0", "").opening == ()


def test_teams_differ_by_dependency():
    assert toy_team("a_0", "b_0").fingerprint != toy_team("a_0", "b_0", dependency=full()).fingerprint


def test_a_team_in_python_takes_the_dependency_that_its_file_takes():
    plain = Team.from_dict(PLAIN)
    for given in ("chain", {"kind": "chain"}, chain()):
        team = Team("pair", plain.profiles, dependency=given)
        assert team == plain
        assert team.fingerprint == plain.fingerprint
    env = marft_envs.make("marft/math_duo-v0", team=Team("pair", plain.profiles, dependency="full"))
    assert env.unwrapped.dependency == full()
    with pytest.raises(TeamError, match=r"team 'pair': dependency.kind: found 'chian'.*did you mean chain"):
        Team("pair", plain.profiles, dependency="chian")
    with pytest.raises(TeamError, match=r"team 'pair': dependency: expected a Dependency.*got int"):
        Team("pair", plain.profiles, dependency=3)
