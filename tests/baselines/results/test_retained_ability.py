"""`marft eval --retain`: likelihoods by hand, an untouched adapter keeps all, a disturbed one loses."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
import torch

import envs_data
from baselines.cli.main import main
from baselines.results.retained_ability import Retained, retained, table
from marft_agents.generation.sampling import SamplingParams
from marft_agents.models.base_settings import LoraSettings
from marft_agents.policies.team_building import build_team
from marft_agents.runs.retained_ability import Ability, Question, abilities, log_likelihoods

AGENTS = ["reasoner_0", "actor_0"]
MODEL = ["--model", "tiny"]
EVAL = ["eval", "--env", "marft/gsm8k_duo-v0", "--data", "embedded:stories", "--max-new-tokens", "2", "--limit", "1"]


@pytest.fixture
def team():
    return build_team(AGENTS, {"*": "tiny"}, lora=LoraSettings(), sampling=SamplingParams(), seed=0)


def disturb(team, agent, size):
    local = team.local_agent(agent)
    generator = torch.Generator().manual_seed(0)
    for value in local.base.parameters(local.adapter).values():
        value.data += size * torch.randn(value.shape, generator=generator)


def test_a_likelihood_is_the_sum_of_the_log_probs_of_its_tokens(team):
    """Against one plain pass for each row: padding and batches change nothing."""
    base = team.local_agent("actor_0").base
    disturb(team, "actor_0", 0.5)
    rows = [([5, 9, 200, 7], 1), ([65] * 30, 20), ([1, 2], 1)]
    for adapter in (None, team.local_agent("actor_0").adapter):
        wanted = []
        for ids, start in rows:
            with base.active_adapter(adapter), torch.no_grad():
                logits = base.peft(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
            wanted.append(sum(float(logits[place - 1, ids[place]]) for place in range(start, len(ids))))
        assert log_likelihoods(base, adapter, rows) == pytest.approx(wanted, abs=1e-4)
    with pytest.raises(ValueError, match="a text of 1 tokens"):
        log_likelihoods(base, None, [([5], 1)])


def test_an_adapter_that_was_not_trained_keeps_everything_and_each_is_measured_alone(team):
    disturb(team, "actor_0", 0.3)
    found = retained(team)
    assert list(found) == AGENTS
    kept, lost = found.values()
    assert kept.perplexity_before == kept.perplexity_after == lost.perplexity_before
    assert tuple(kept.perplexity_ratio) == (1.0, 1.0, 1.0)
    assert kept.answers_before == kept.answers_after
    assert kept.answers_change.mean == 0.0
    assert lost.perplexity_ratio.low > 1.0
    assert lost.perplexity_ratio.mean == pytest.approx(lost.perplexity_after / lost.perplexity_before)
    assert table(found).row_count == 2


def test_a_question_is_right_where_its_answer_is_likeliest_and_a_tie_is_wrong(team):
    base = team.local_agent("actor_0").base
    disturb(team, "actor_0", 0.5)
    rows = [(base.tokenizer.encode(f"Question: ?\nAnswer: {choice}"), len("Question: ?\nAnswer:")) for choice in "ab"]
    first, second = log_likelihoods(base, "actor_0", rows)
    likeliest, other = ("a", "b") if first > second else ("b", "a")
    questions = [Question("?", ("a", "b"), answer) for answer in (likeliest, other)]
    questions.append(Question("?", ("a", "a"), "a"))
    _, found = abilities(team, ["ab"], questions)["actor_0"]
    assert found.right.tolist() == [1.0, 0.0, 0.0]


def test_ratio_and_change_by_hand():
    before = Ability(np.log([4.0, 9.0]), np.array([1.0, 1.0, 0.0, 1.0]))
    after = Ability(np.log([8.0, 18.0]), np.array([1.0, 0.0, 0.0, 1.0]))
    found = Retained.of(before, after)
    assert found.perplexity_before == pytest.approx(6.0)
    assert found.perplexity_after == pytest.approx(12.0)
    assert found.perplexity_ratio.mean == pytest.approx(2.0)
    assert found.answers_change.mean == -0.25
    assert found.answers_change.low < -0.25 < found.answers_change.high
    assert found.to_dict()["answers_before"] == 0.75


def test_the_set_is_general_and_balanced():
    rows = envs_data.rows("retain", "test")
    assert len(rows) == len(envs_data.attachment("retain", "sentences")) == 40
    places = [row["choices"].index(row["answer"]) for row in rows]
    assert [places.count(place) for place in range(4)] == [10] * 4
    assert all(len(set(row["choices"])) == 4 for row in rows)


def test_the_command_prints_a_table_and_writes_the_numbers(tmp_path, capsys):
    assert main([*EVAL, *MODEL, "--retain", "--out", str(tmp_path / "kept")]) == 0
    assert re.search(r"retained +┃ perplexity +┃ ratio \[95 %\]", capsys.readouterr().out)
    record = json.loads((tmp_path / "kept" / "evaluation.json").read_text())["retained"]
    assert list(record) == AGENTS
    assert record["actor_0"]["perplexity_ratio_95"] == [1.0, 1.0]
    assert math.isfinite(record["actor_0"]["perplexity_before"])
    again = ["eval", "--config", str(tmp_path / "kept" / "evaluation.json"), "--out", str(tmp_path / "again")]
    assert main(again) == 0
    assert json.loads((tmp_path / "again" / "evaluation.json").read_text())["retained"] == record


def test_what_cannot_be_measured_is_refused_before_anything_is_played(tmp_path, capsys):
    out = ["--out", str(tmp_path / "out")]
    assert main([*EVAL, *MODEL, "--retain", "--endpoint", "http://localhost:1/v1", *out]) == 1
    assert "leave out --retain, of models that run here" in capsys.readouterr().err
    frozen = ["--model", "frozen:tiny"]
    assert main([*EVAL, *frozen, "--retain", *out]) == 1
    assert "no agent of the team has an adapter" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
