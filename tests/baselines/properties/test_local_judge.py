"""A local policy as the judge of answers, in any thread."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from marft_agents.generation.sampling import SamplingParams
from marft_agents.models.base_settings import LoraSettings
from marft_agents.policies.policy import completion
from marft_agents.policies.scripted import ScriptedPolicy
from marft_agents.policies.team_building import build_team
from marft_envs.game.task import JudgeFailure, Task
from marft_envs.graders import ModelGrader

TASK = Task("t", "What is 6 * 7?", "42", "test")


def judging(agent: str, asked: str) -> str:
    assert agent == "judge_0"
    system, question = (message["content"] for message in asked.messages)
    assert "You grade answers" in system
    return '{"score": 1}' if "<<<answer>>>\n42\n" in question else '{"score": 0, "reason": "no"}'


def test_a_policy_judges_what_it_is_asked():
    grader = ModelGrader(completion(ScriptedPolicy(judging), "judge_0"))
    assert (grader("42", TASK).value, grader("41", TASK).value) == (1.0, 0.0)


def test_a_language_model_replies_alike_in_all_threads_and_its_babble_is_our_failure():
    team = build_team(["judge_0"], {"*": "tiny"}, lora=LoraSettings(), sampling=SamplingParams(max_new_tokens=8))
    complete = completion(team, "judge_0")
    asked = [[{"role": "user", "content": str(number % 2)}] for number in range(6)]
    with ThreadPoolExecutor(3) as pool:
        replies = list(pool.map(complete, asked))
    assert replies[:2] * 3 == replies
    with pytest.raises(JudgeFailure, match="gave no score of task 't'"):
        ModelGrader(complete)("42", TASK)
