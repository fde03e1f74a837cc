"""Programs play episodes: what they ask is recorded as it was sampled, and what goes wrong is a failed episode."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from baselines.experiment.environments import factory
from baselines.programs import ENVIRONMENT
from marft_agents.policies.policy import text_action
from marft_agents.policies.scripted import ScriptedPolicy
from marft_agents.rollouts.rollout import collect
from marft_agents.trajectory import EpisodeStart
from tests.helpers import talking_program

PROGRAM = f"{sys.executable} -I -S {talking_program.__file__}"
AGENTS = ["planner", "coder"]
ECHO = ScriptedPolicy(lambda agent, observation: f"{agent} heard: {observation.split(chr(10), 1)[1][:40]}")


@pytest.fixture(scope="module")
def team():
    from marft_agents.generation.sampling import SamplingParams
    from marft_agents.models.base_settings import LoraSettings
    from marft_agents.policies.team_building import build_team

    return build_team(AGENTS, {"*": "tiny"}, lora=LoraSettings(), sampling=SamplingParams(max_new_tokens=6))


@pytest.fixture
def play(tmp_path):
    """Return a function that plays lines with a policy; the host is closed at the end."""
    hosts = []

    def run(*lines, policy=ECHO, seed=0, program=PROGRAM, num_envs=64, agents=AGENTS, starts=None, **settings):
        file = tmp_path / f"data-{len(hosts)}.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        keywords = {"program": program, "agents": agents, "data": str(file), **settings}
        make_env = factory(ENVIRONMENT, keywords)
        hosts.append(make_env().unwrapped.programs)
        starts = starts or [EpisodeStart(i, i, i, {"index": i}) for i in range(len(lines))]
        return collect(make_env, policy, starts, seed=seed, num_envs=num_envs, patience=math.inf)

    yield run
    for host in hosts:
        host.close()


def line(*steps, reward=1.0, **more):
    return {"steps": list(steps), "reward": reward, **more}


def seen_in(file):
    return [json.loads(one) for one in Path(file).read_text().splitlines()]


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"


# ------------------------------------------------------------------ what is recorded


def test_every_answer_is_a_turn_with_the_tokens_that_were_sampled(play, team, tmp_path):
    out = tmp_path / "seen"
    [found] = play(line(["planner", "plan it"], ["coder", "do: ..."], write=str(out)), policy=team)
    assert found.failure is None
    assert [(turn.agent, turn.round, turn.reward) for turn in found.turns] == [("planner", 0, 0.0), ("coder", 1, 1.0)]
    [record] = seen_in(out)
    for turn, answer in zip(found.turns, record["seen"], strict=True):
        action = turn.action
        assert answer["choices"][0]["message"]["content"] == action.text
        assert answer["usage"]["completion_tokens"] == len(action.token_ids) == len(action.logprobs)
        assert answer["usage"]["prompt_tokens"] == len(action.prompt_ids)
        assert np.array_equal(team.encode(turn.agent, found_observation(found, turn)), action.prompt_ids)


def found_observation(trajectory, turn):
    place = trajectory.turns.index(turn)
    text = trajectory.game["turns"][place]["observation"].partition("\n")[2]
    return text


def test_log_probs_are_returned_for_the_sampled_ids(play, team, tmp_path):
    out = tmp_path / "seen"
    body = {"model": "coder", "messages": [{"role": "user", "content": "x"}], "logprobs": True, "max_tokens": 5}
    [found] = play(line({"raw": body}, write=str(out)), policy=team)
    [turn] = found.turns
    told = seen_in(out)[0]["seen"][0]["choices"][0]["logprobs"]["content"]
    assert [one["token"] for one in told] == [f"token_id:{token}" for token in turn.action.token_ids]
    assert np.allclose([one["logprob"] for one in told], turn.action.logprobs)
    assert len(told) == 5


def test_a_deterministic_program_repeats_exactly_and_its_agents_have_random_numbers_of_their_own(play, team):
    lines = [line(["planner", "a"], ["planner", "a"], ["coder", "a"])] * 2
    first, again, alone = (play(*lines, policy=team, num_envs=k, program_episodes=0) for k in (2, 2, 1))
    texts = [[turn.action.text for turn in episode.turns] for episode in first]
    assert texts == [[turn.action.text for turn in episode.turns] for episode in alone]
    for one, other in zip(first, again, strict=True):
        for turn, repeated in zip(one.turns, other.turns, strict=True):
            assert np.array_equal(turn.action.logprobs, repeated.action.logprobs)
    assert len({text for episode in texts for text in episode}) == 6


def test_an_episode_without_a_task_draws_one_from_its_seed(play):
    lines = [line(["planner", str(k)]) for k in range(5)]
    starts = [EpisodeStart(k, k, k) for k in range(6)]
    drawn = [episode.game["task_id"] for episode in play(*lines, starts=starts, program_episodes=0)]
    assert drawn == [episode.game["task_id"] for episode in play(*lines, starts=starts, num_envs=1, program_episodes=0)]
    assert len(set(drawn)) > 1


def test_rewards_of_single_agents(play):
    [found] = play({"steps": [["planner", "a"], ["coder", "b"]], "rewards": {"planner": 1, "coder": 0.5}})
    assert found.return_of("planner") == 1
    assert found.return_of("coder") == 0.5
    assert found.team_return == 0.75


def test_a_posted_reward_counts_where_the_last_line_has_none(play):
    post = {"raw": {"reward": 0.25}, "path": "/reward"}
    [found] = play({"steps": [["planner", "a"], post]})
    assert (found.failure, found.team_return) == (None, 0.25)


# ------------------------------------------------------------------ what is read, and when


def test_edges_bounds_and_layers_are_recorded_as_they_happened(play):
    at_once = {"at_once": [["planner", "one"], ["coder", "two"]]}
    policy = MeetingPolicy(2)
    [found] = play(line(at_once, ["coder", "three"]), policy=policy)
    turns = found.game["turns"]
    assert [(turn["round"], turn["delivered_before"]) for turn in turns] == [(0, 0), (0, 0), (1, 2)]
    assert all(turn["reads"] == [] for turn in turns)


class MeetingPolicy:
    """Answers the first requests when so many have met."""

    def __init__(self, size):
        self.size = size

    def open_session(self):
        return _Meeting(self.size)

    def act(self, requests):
        return [text_action("said") for _ in requests]


class _Meeting:
    def __init__(self, size):
        self.size, self.waiting, self.count = size, [], 0

    def act(self, requests):
        return [text_action("said") for _ in requests]

    def submit(self, requests):
        numbers = list(range(self.count, self.count + len(requests)))
        self.count += len(requests)
        self.waiting += numbers
        return numbers

    def advance(self):
        if self.count < self.size:
            time.sleep(0.001)
            return []
        ended, self.waiting = self.waiting, []
        return [(number, text_action("said")) for number in ended]

    def close(self):
        pass


# ------------------------------------------------------------------ a command that plays many episodes, and a function


@pytest.mark.parametrize(("episodes", "processes"), [(1, 4), (2, 2), (0, 1)])
def test_a_process_plays_so_many_episodes(play, tmp_path, episodes, processes):
    out = tmp_path / "seen"
    found = play(*[line(["planner", "a"], write=str(out))] * 4, num_envs=1, program_episodes=episodes)
    assert [one.failure for one in found] == [None] * 4
    assert len({record["pid"] for record in seen_in(out)}) == processes


def test_a_process_that_plays_many_episodes_may_print_other_lines(play):
    lines = [line({"print": "loading ..."}, ["planner", "a"], reward=k) for k in range(2)]
    assert [one.team_return for one in play(*lines, num_envs=1, program_episodes=0)] == [0, 1]


def test_a_function_plays_and_returns_the_reward(play, tmp_path, monkeypatch):
    (tmp_path / "my_agents.py").write_text(
        "import json, os, urllib.request\n"
        "def play(task):\n"
        "    print('noise')\n"
        "    body = {'model': 'coder', 'messages': [{'role': 'user', 'content': task['say']}]}\n"
        "    key = os.environ['OPENAI_API_KEY']\n"
        "    headers = {'Content-Type': 'application/json', 'Authorization': 'Bearer ' + key}\n"
        "    url = os.environ['OPENAI_BASE_URL'] + '/chat/completions'\n"
        "    request = urllib.request.Request(url, json.dumps(body).encode(), headers)\n"
        "    return len(json.load(urllib.request.urlopen(request))['choices'])\n"
    )
    found = play({"say": "a"}, {"say": "b"}, program="my_agents:play", program_folder=str(tmp_path), num_envs=1)
    assert [(one.failure, one.team_return) for one in found] == [(None, 1), (None, 1)]


# ------------------------------------------------------------------ failures


@pytest.mark.parametrize(
    ("episode", "settings", "cause"),
    [
        (line(["planner", "a"], {"exit": 3}), {}, "ended with exit code 3; standard error: ...out of order"),
        ({"steps": [["planner", "a"]]}, {}, "ended without a reward"),
        (line(["planner", "a"], {"flood": 5000}), {"program_output": 2000}, "wrote more than 2000 bytes"),
        (line(["planner", "a"], {"sleep": 60}), {"program_seconds": 0.5}, "did not end in 0.5 s of its own"),
        (line(*[["planner", "a"]] * 4), {"program_requests": 3}, "more than 3 requests"),
        (line(), {}, "asked no agent"),
        (line(["planner", "a"], reward="much"), {}, "reward: found 'much'"),
        (
            {"steps": [["planner", "a"]], "rewards": {"boss": 1}},
            {},
            "rewards: found 'boss', wanted an object of planner",
        ),
    ],
)
def test_a_program_that_misbehaves_is_a_failed_episode_with_its_cause(play, episode, settings, cause):
    [found] = play(episode, **settings)
    assert found.failure is not None
    assert cause in found.failure
    assert found.team_return == 0


def test_tokens_of_an_episode_are_limited(play, team):
    [found] = play(line(*[["planner", "a"]] * 9), policy=team, program_tokens=80)
    assert "more than 80 tokens" in found.failure


def test_a_failing_episode_leaves_the_others_alone(play):
    lines = [line(["planner", "a"]), line({"exit": 1}), line(["coder", "b"])]
    for episodes in (1, 0):
        found = play(*lines, program_episodes=episodes)
        assert [one.failure is None for one in found] == [True, False, True]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the process group alone is ended")
@pytest.mark.parametrize("last", [{"print": ""}, {"exit": 1}, {"sleep": 60}])
def test_nothing_is_left_of_a_program_that_detaches_a_child(play, tmp_path, last):
    file = tmp_path / "child"
    code = f"import os, time; open({str(file)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    [_] = play(line(["planner", "a"], {"fork": code, "until": str(file)}, last), program_seconds=2.0)
    assert not alive(int(file.read_text()))


def test_closing_ends_the_processes_that_wait_for_episodes(tmp_path):
    out, file = tmp_path / "seen", tmp_path / "data.jsonl"
    file.write_text(json.dumps(line(["planner", "a"], write=str(out))))
    keywords = {"program": PROGRAM, "agents": AGENTS, "data": str(file), "program_episodes": 0}
    env = factory(ENVIRONMENT, keywords)()
    collect(lambda: env, ECHO, [EpisodeStart(0, 0, 0)], seed=0)
    [record] = seen_in(out)
    assert alive(record["pid"])
    env.unwrapped.programs.close()
    assert not alive(record["pid"])
