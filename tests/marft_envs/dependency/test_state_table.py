"""Tables of conditions on the state of the game: which dependency a round takes."""

from __future__ import annotations

import json

import pytest

from baselines.cli.main import main
from marft_envs.dependency import DependencyError, Roster, as_dependency, by_state, chain, from_dict, full, schedule
from marft_envs.dependency.drawing import dot, mermaid, picture
from marft_envs.game.episode import Episode
from marft_envs.records.replay import replay
from tests.helpers.toy_games import play_out, toy_game, toy_team

TRIO = Roster(("a_0", "b_0", "c_0"), frozenset({"c_0"}))
ROUTED = {"kind": "routed", "by": "a_0", "answer_by": "c_0"}
TABLE = {
    "kind": "by_state",
    "rules": [
        {"when": {"round": ">= 2", "invalid": "> 1"}, "use": ROUTED},
        {"when": {"round": ">= 1"}, "use": "chain"},
    ],
    "default": {"kind": "independent", "delayed": "all"},
}


def edges_by_round(say, horizon=3, **table):
    game = toy_game("a_0", "b_0", "c_0", dependency=TABLE | table, horizon=horizon)
    game.reset(seed=0, options={"index": 0})
    play_out(game, say)
    return game, [plan.edges for plan in game.plans]


def test_the_first_row_whose_conditions_hold_is_used():
    game, edges = edges_by_round(lambda agent: "\\boxed{7}")  # wrong, and readable
    assert edges == [(), (("a_0", "b_0"), ("b_0", "c_0")), (("a_0", "b_0"), ("b_0", "c_0"))]
    assert game.infos["a_0"]["invalid"] == 0
    game, edges = edges_by_round(lambda agent: "no answer")
    assert edges[:2] == [(), (("a_0", "b_0"), ("b_0", "c_0"))]
    assert [turn.agent for turn in game.episode().turns if turn.round == 2] == ["a_0", "b_0", "c_0"]
    assert game.plans[2].opened_by == "a_0"  # two rounds without a readable answer


@pytest.mark.parametrize(
    ("condition", "rounds"),
    [("== 1", [1]), ("!= 1", [0, 2]), ("< 1", [0]), ("<= 1", [0, 1]), ("> 1", [2]), (">=1", [1, 2]), ("> 0.5", [1, 2])],
)
def test_comparisons(condition, rounds):
    _, edges = edges_by_round(lambda agent: "x", rules=[{"when": {"round": condition}, "use": "full"}])
    assert [number for number, found in enumerate(edges) if len(found) == 3] == rounds


@pytest.mark.parametrize("key", ["turn", "task_index", "success", "violation"])
def test_other_numbers_are_those_of_the_infos(key):
    wanted = {"turn": 3, "task_index": 0, "success": 0, "violation": 0}[key]
    rules = [{"when": {key: f"== {wanted}"}, "use": "full"}]
    game, edges = edges_by_round(lambda agent: "x", horizon=2, rules=rules)
    assert len(edges[1]) == 3
    assert game.infos["a_0"][key] == {"turn": 6}.get(key, wanted)


@pytest.mark.parametrize("number", ["1000000", "1234567", "0.00001", "-0.25", "2"])
def test_the_json_form_keeps_every_digit_of_a_number(number):
    table = by_state([{"when": {"transcript": f">= {number}"}, "use": "full"}], default="chain")
    assert table.to_dict()["rules"][0]["when"] == {"transcript": f">= {number}"}
    assert from_dict(table.to_dict()) == table


def test_a_table_has_a_json_form_and_its_episodes_replay():
    table = from_dict(TABLE)
    assert from_dict(json.loads(json.dumps(table.to_dict()))) == table
    game, _ = edges_by_round(lambda agent: "no answer")
    record = Episode.from_json(game.episode().to_json())
    fresh = toy_game("a_0", "b_0", "c_0", dependency=record.settings["dependency"], horizon=3)
    assert replay(fresh, record) == []


def test_a_table_may_be_a_step_of_a_schedule_and_hold_another_table():
    inner = by_state([{"when": {"invalid": ">= 1"}, "use": "full"}], default="chain")
    game = toy_game("a_0", "b_0", "c_0", dependency=schedule([chain(), inner]), horizon=2)
    game.reset(seed=0)
    assert len(play_out(game).plans[1].edges) == 3
    outer = by_state([{"when": {"round": ">= 1"}, "use": inner}], default="independent")
    game = toy_game("a_0", "b_0", "c_0", dependency=outer, horizon=2)
    game.reset(seed=0)
    assert len(play_out(game).plans[1].edges) == 3
    assert outer.plan(TRIO, 1) == chain().plan(TRIO)  # with nothing but the number of the round


def row(**changes):
    return [{"when": {"round": ">= 2"}, "use": "chain"} | changes]


@pytest.mark.parametrize(
    ("rules", "default", "message"),
    [
        (row(), None, "give a `default`"),
        ("chain", "chain", "expected a list of rules or a function"),
        ([{"when": {"round": ">= 2"}}], "chain", r"rules\[0\]: found .* wanted .*when"),
        (row(then="full"), "chain", r"rules\[0\]: found"),
        (row(when={}), "chain", r"rules\[0\]: no condition"),
        (row(when={"rounds": ">= 2"}), "chain", r"rules\[0\].when: unknown number 'rounds'; did you mean round"),
        (row(when={"layer": "== 0"}), "chain", "unknown number 'layer'; there are round, turn"),
        (row(when={"round": "2"}), "chain", r"rules\[0\].when.round: found '2', wanted one of == != < <= > >="),
        (row(when={"round": ">= two"}), "chain", "found '>= two'"),
        (row(when={"round": 2}), "chain", "found 2, wanted"),
        (row(use="ring"), "chain", r"rules\[0\].use.kind: found 'ring'"),
        (row(), "ring", "default.kind: found 'ring'"),
        (lambda round, turns: chain(), "chain", "takes no default"),
    ],
)
def test_bad_tables_are_refused_when_they_are_made(rules, default, message):
    with pytest.raises(DependencyError, match=message):
        by_state(rules, default)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        ({"kind": "chain", "active": ["a_0", "b_0"]}, "if round >= 2: no agent that answers ever acts"),
        ({"kind": "matrix", "rows": [[0, 1, 0], [1, 0, 0], [0, 0, 0]]}, "if round >= 2: .* cycle: a_0"),
        ({"kind": "matrix", "rows": [[0, 1, 0], [0, 0, 0], [0, 0, 0]]}, "if round >= 2: .*reaches no agent"),
        ({"kind": "routed", "by": "a_0", "answer_by": "b_0"}, "if round >= 2: routed.answer_by: found 'b_0'"),
        ({"kind": "chain", "active": ["d_0"]}, "unknown agent 'd_0'"),
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_played_is_refused_before_the_first_round(use, message):
    with pytest.raises(DependencyError, match=message):
        toy_game("a_0", "b_0", "c_0", dependency={"kind": "by_state", "rules": row(use=use), "default": "chain"})
    with pytest.raises(DependencyError, match="by_state, default: "):
        as_dependency({"kind": "by_state", "rules": row(), "default": use}).check(TRIO, 1)
    with pytest.raises(DependencyError, match="needs the key 'default'"):
        from_dict({"kind": "by_state", "rules": row()})


def test_drawings_have_a_part_for_each_row(tmp_path):
    table = from_dict(TABLE)
    text = mermaid(table, TRIO)
    assert '  subgraph case_0["if round >= 2 and invalid > 1"]' in text
    assert "case_0_a_0 -.-> case_0_route{chosen by its action}" in text
    assert "    case_1_a_0 --> case_1_b_0" in text
    assert '  subgraph case_2["otherwise"]' in text
    assert text.count("subgraph case_") == 3 + sum(len(p) for p in (["l0"], ["l0", "l1", "l2"], ["l0"]))
    assert mermaid(full(), TRIO).startswith('flowchart LR\n  subgraph layer_0["layer 0"]\n    a_0["a_0"]\n  end')
    assert 'label="if round >= 1";' in dot(table, TRIO)
    assert '"case_1_b_0" -> "case_1_c_0";' in dot(table, TRIO)
    assert picture(table, TRIO, tmp_path / "table.png").stat().st_size > 1000


def test_marft_show_prints_the_table(tmp_path, capsys):
    team = toy_team("a_0", "b_0", "c_0", dependency=from_dict(TABLE))
    team.save(tmp_path / "team.json")
    assert main(["show", "marft/gsm8k_solo-v0", "--env-arg", f'team="{tmp_path / "team.json"}"', "--horizon", "3"]) == 0
    printed = capsys.readouterr().out
    assert '"when": {"round": ">= 2", "invalid": "> 1"}' in printed
    assert 'subgraph case_0["if round >= 2 and invalid > 1"]' in printed
