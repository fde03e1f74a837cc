"""`marft check --program` tells what an episode did, and programs draw *D* as it happened."""

from __future__ import annotations

import numpy as np
import pytest

from baselines import Experiment
from baselines.cli.program_check import told
from baselines.report.episode_set import TextLimit, compact, edges_of
from marft_agents.setting_fields import SettingsError
from marft_agents.trajectory import Action, SampledTurn, Trajectory

NO_IDS = np.zeros(0, np.int32)
ACTION = Action("said", NO_IDS, NO_IDS, np.zeros(0, np.float32), True)


def game(*turns):
    records = []
    for agent, layer, reads, bound in turns:
        records.append(
            {
                "agent": agent,
                "round": layer,
                "visible": [],
                "reads": reads,
                "delivered_before": bound,
                "observation": "",
            }
        )
    return {"kind": "program", "task_id": "t", "turns": records, "outcomes": [], "terms": {}}


TURNS = (("planner", 0, [], 0), ("planner", 0, [], 0), ("coder", 1, [[0, "tokens"]], 2))


def test_the_check_tells_what_was_read_and_who_was_never_asked():
    turns = tuple(SampledTurn(agent, ACTION, 0.0, layer) for agent, layer, _, _ in TURNS)
    played = Trajectory(0, 0, turns, True, False, game=game(*TURNS), step_seconds=1.5)
    lines = list(told(played, ["planner", "coder", "critic"]))
    assert lines[0] == "3 answers in 1.5 s, in 2 layers"
    assert "coder: layer 1; prompt 0 tokens, answer 0; read 1 (tokens); asked after 2" in lines[3]
    assert lines[4:] == ["never asked: critic", "reward 0"]


def test_the_report_keeps_edges_with_their_evidence_and_the_bound():
    turn = {"round": 0, "text": "said", "reward": 0.0}
    record = {
        **{"update": 0, "group": 0, "seed": 0, "return": 1.0, "terminated": True, "failure": None, "infos": {}},
        "turns": [{**turn, "agent": agent, "round": layer} for agent, layer, _, _ in TURNS],
        "game": game(*TURNS),
    }
    turns = compact(record, TextLimit())["turns"]
    assert [(one["visible"], one["evidence"], one["bound"]) for one in turns] == [
        ([], [], 0),
        ([], [], 0),
        ([0], ["tokens"], 2),
    ]
    assert edges_of(turns) == {("planner", "coder", False)}


def test_credit_along_reads_is_refused_where_nobody_records_them():
    with pytest.raises(SettingsError, match="marft/math_duo-v0 is no agent program"):
        Experiment("marft/math_duo-v0", models={"*": "tiny"}, chain_links="reads").check()
