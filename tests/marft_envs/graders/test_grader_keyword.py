"""`make(..., grader=...)`: names, functions, endpoints and models; trajectories; budget, cache, and bad input."""

from __future__ import annotations

import copy
import json
import pickle
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import marft_envs
from marft_envs.game.task import JudgeFailure, Task, TaskList
from marft_envs.graders import BudgetSpentError, GraderError, GraderSettings, MeteredGrader, Score
from marft_envs.tasks.worlds import play, script

STORIES = {"data": "embedded:stories"}
LOOKUP = {"data": "embedded:lookup"}
OWN = "tests.marft_envs.graders.own_grader"  # a module of functions that grade


class Server(ThreadingHTTPServer):
    """Grades each question with `grade(question)`; as a model too."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked, self.grade, self.url = [], lambda asked: {"score": 1}, f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(asked | {"key": self.headers.get("X-Key")})
        grade = self.server.grade(asked)
        if self.path.endswith("/chat/completions"):
            message = {"role": "assistant", "content": json.dumps(grade)}
            usage = {"prompt_tokens": 90, "completion_tokens": 10, "total_tokens": 100}
            grade = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "usage": usage,
                     "choices": [{"index": 0, "finish_reason": "stop", "message": message}]}  # fmt: skip
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(grade).encode())

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def answered(*answers, task="gsm8k", team="solo", index=0, **keywords):
    """Return the game after these actions."""
    env = marft_envs.make(f"marft/{task}_{team}-v0", **keywords).unwrapped
    env.reset(seed=0, options={"index": index})
    for answer in answers:
        env.step(answer)
    return env


def gold_of(index=0):
    return marft_envs.make("marft/gsm8k_solo-v0", **STORIES).unwrapped.tasks[index].answer


# ----------------------------------------------------------- names and functions


@pytest.mark.parametrize("name", ["text", "number"])
def test_a_grader_by_name_reads_the_last_box_or_the_whole_answer(name):
    gold = gold_of()
    for answer, right in ((f"so \\boxed{{{gold}}}", True), (gold, True), ("\\boxed{none}", False)):
        env = answered(answer, grader=name, **STORIES)
        assert env.episode().success == right
        assert env.episode().terminated
    assert env.settings["grader"] == {"kind": name}


def test_a_function_grades():
    gold = gold_of()
    env = answered(gold[0] + "9", grader=f"{OWN}:first_letter", **STORIES)
    assert env.episode().success
    assert not answered("x", grader=f"{OWN}:first_letter", **STORIES).episode().success
    how = {"kind": f"{OWN}:two_turns", "trajectory": True}
    assert answered("a", "b", team="duo", grader=how, **STORIES).episode().success
    assert not answered("a", grader=how, **STORIES).episode().success


def test_graded_prompts_pay_the_score_as_prompts_do():
    prompts = TaskList.from_prompts(["Say x."], lambda prompt, answer: 0.0)
    env = answered("x", grader="tests.marft_envs.graders.own_grader:half", data=prompts)
    assert (env.settings["reward"], env.rewards["actor_0"]) == ("outcome", 0.5)
    env = answered("x", grader="tests.marft_envs.graders.own_grader:half", **STORIES)
    assert (env.settings["reward"], env.rewards["actor_0"]) == ("success", 0.0)


@pytest.mark.parametrize(
    ("function", "cause"),
    [("broken", "on task .*: RuntimeError: no such thing"), ("not_a_number", "ValueError: a score is nan")],
)
def test_a_function_that_raises_or_gives_no_number_fails_its_episode_with_the_cause(function, cause):
    with pytest.raises(JudgeFailure, match=cause):
        answered("x", grader=f"{OWN}:{function}", **STORIES)
    with marft_envs.make_vec("marft/gsm8k_solo-v0", 2, grader=f"{OWN}:{function}", **STORIES) as games:
        games.reset(seeds=0)
        games.step({0: "x", 1: "x"}, wait="all")
        assert ["JudgeFailure: grader " in one.failure for one in games.ended] == [True, True]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("txt", "found 'txt', wanted text, number, .*did you mean text"),
        ("no_such_module:f", "no_such_module cannot be imported"),
        (f"{OWN}:nothing", "own_grader has no nothing; wanted a function of answer and task"),
        ("endpoint:ftp://x", "grader.url: found 'ftp://x', wanted an address"),
        ("model:http://x/v1", "grader.model: the name of the model is missing"),
        ({"mode": "confirm"}, "the key 'kind' is missing"),
        ({"kind": "text", "treshold": 1}, "unknown key 'treshold'; did you mean threshold"),
        ({"kind": "text", "threshold": 2}, "grader.threshold: found 2, wanted a number of more than 0 and at most 1"),
        ({"kind": "text", "threshold": float("nan")}, "grader.threshold"),
        ({"kind": "text", "mode": "confirms"}, "grader.mode: found 'confirms', wanted replace or confirm"),
        ({"kind": "text", "calls": 0}, "grader.calls: found 0, wanted a whole number of at least 1"),
        ({"kind": "text", "trajectory": True}, "the grader 'text' reads the answer alone"),
        ({"kind": "text", "trajectory": "yes"}, "grader.trajectory: found 'yes', wanted true or false"),
        ({"kind": "endpoint", "url": "http://x", "headers_env": {"A": "NOT_SET"}}, "variable NOT_SET is not set"),
        ("nowhere.toml", "nowhere.toml cannot be read: No such file"),
    ],
)
def test_a_grader_that_cannot_be_used_is_refused_at_the_start(how, message):
    with pytest.raises(GraderError, match=message):
        marft_envs.make("marft/gsm8k_solo-v0", grader=how, **STORIES)


def test_settings_come_from_a_file_and_have_a_json_form(tmp_path, monkeypatch):
    file = tmp_path / "luck.toml"
    file.write_text(
        'kind = "endpoint"\nurl = "http://x/g"\nmode = "confirm"\ntrajectory = true\n[headers_env]\n"X-Key" = "G"\n'
    )
    how = GraderSettings.of(str(file))
    assert how.to_dict() == {"kind": "endpoint", "url": "http://x/g", "mode": "confirm", "trajectory": True,
                             "headers_env": {"X-Key": "G"}}  # fmt: skip
    assert GraderSettings.of(how.to_dict()) == how
    file.write_text("kind = ")
    with pytest.raises(GraderError, match=r"luck\.toml is no TOML"):
        GraderSettings.of(file)


# ------------------------------------------------------------------ trajectories


def test_an_endpoint_sees_the_whole_trajectory_and_confirms_what_was_solved(server, monkeypatch):
    monkeypatch.setenv("GRADER_KEY", "secret")
    how = {"kind": "endpoint", "url": server.url, "mode": "confirm", "trajectory": True, "retries": 0,
           "headers_env": {"X-Key": "GRADER_KEY"}}  # fmt: skip
    env = marft_envs.make("marft/tools_duo-v0", grader=how, **LOOKUP)
    for score, success in ((1, True), (0.25, False)):
        server.grade = lambda asked, score=score: {"score": score, "reason": "luck"}
        env.reset(seed=0, options={"index": int(success)})
        record = play(env, script(env))
        assert (record.success, record.terminated) == (success, True)
        assert record.outcomes[-1].detail["score"] == score
        assert "luck" not in record.outcomes[-1].verdict
    (_, asked) = server.asked
    assert asked["key"] == "secret"
    assert [turn["agent"] for turn in asked["trajectory"]] == [turn.agent for turn in record.turns]
    event = asked["trajectory"][0]["events"][0]
    assert (event["name"], event["status"]) == ("read_price", "ok")
    assert "secret" not in json.dumps(env.unwrapped.settings)
    env.reset(seed=0, options={"index": 0})
    env.step("finish()") if env.agent_selection == "writer_0" else env.step("hand_off(to='writer_0')")
    env.step("finish()")
    assert not env.unwrapped.episode().success
    assert len(server.asked) == 2, "what is not solved is not asked about"


def test_a_world_that_a_grader_replaces_is_graded_once_at_its_end(server):
    server.grade = lambda asked: {"score": 0.5}
    how = {"kind": "endpoint", "url": server.url, "threshold": 0.5}
    env = answered("read_price(ware='x')", "finish()", task="tools", grader=how, reward="outcome", **LOOKUP)
    assert env.episode().rewards == (0.0, 0.5)
    assert env.episode().success
    assert len(server.asked) == 1


def test_a_round_without_an_answer_is_not_graded(server):
    how = f"endpoint:{server.url}"
    env = answered("a", "\\boxed{1}", team="duo", grader=how, **STORIES)
    assert [asked["answer"] for asked in server.asked] == ["\\boxed{1}"]
    assert env.episode().success
    silent = {"kind": "routed", "by": "reasoner_0"}
    assert answered("-> actor_0", "x", team="duo", dependency=silent, grader=how, **STORIES).episode().success


def test_several_rounds_are_graded_each_and_still_say_which_round_it_is():
    env = answered("x", grader="text", horizon=2, **STORIES)
    assert not env.episode().terminated
    assert "Round 2 of 2." in env.observe("actor_0")
    env.step(gold_of())
    assert env.episode().success


def test_a_model_judges_the_trajectory(server):
    how = {"kind": "model", "url": f"{server.url}/v1", "model": "m", "trajectory": True, "tokens": 150}
    assert answered("first", "second", team="duo", grader=how, **STORIES).episode().success
    asked = server.asked[0]["messages"][1]["content"]
    assert asked.index("<<<transcript>>>") < asked.index("first") < asked.index("<<<answer>>>")
    assert "right by luck" in asked


# -------------------------------------------------------------- budget and cache

TASKS = [Task(f"t{n}", "?", "1", "test") for n in range(4)]


class Counting:
    """Grader that counts its questions; tokens each."""

    def __init__(self, tokens=None):
        self.asked, self.tokens = [], tokens

    def __call__(self, answer, task, /):
        self.asked.append((task.id, answer))
        return Score(0.5, "half", self.tokens)


def test_the_same_question_is_asked_once_also_from_many_threads():
    slow, begun = threading.Event(), threading.Barrier(8)

    def grade(answer, task):
        slow.wait(0.05)
        counting(answer, task)
        return Score(1.0)

    counting = Counting()
    metered = MeteredGrader(grade, calls=1)

    def ask():
        begun.wait()
        metered("a", TASKS[0])

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counting.asked == [("t0", "a")]


@pytest.mark.parametrize(("budget", "tokens"), [({"calls": 2}, None), ({"tokens": 20}, 10)])
def test_a_budget_ends_with_its_cause(budget, tokens):
    metered = MeteredGrader(Counting(tokens), **budget)
    for task in TASKS[:2]:
        metered("a", task)
    with pytest.raises(BudgetSpentError, match=r"budget of \d+ (calls|tokens) is used up"):
        metered("a", TASKS[2])
    assert metered("a", TASKS[0]).value == 0.5, "what is known costs nothing"


def test_grades_are_kept_in_a_file_and_count_as_spent(tmp_path):
    path = tmp_path / "run" / "grades.jsonl"
    first = MeteredGrader(Counting(10), calls=2, identity="x")
    first.keep(path)
    first("a", TASKS[0])
    path.write_text(path.read_text() + '{"key": "cut')
    again = MeteredGrader(Counting(10), calls=2, identity="x")
    again.keep(path)
    assert (again.calls_made, again.tokens_spent) == (1, 10)
    assert again("a", TASKS[0]) == Score(0.5, "half")
    assert again.grader.asked == []
    again("b", TASKS[0])
    with pytest.raises(BudgetSpentError):
        again("c", TASKS[0])
    other = MeteredGrader(Counting(), identity="another rubric")
    other.keep(path)
    other("a", TASKS[0])
    assert other.grader.asked == [("t0", "a")]


def test_when_the_budget_is_spent_the_own_grade_counts_if_that_is_wanted(server):
    server.grade = lambda asked: {"score": 0}
    how = {"kind": "endpoint", "url": server.url, "calls": 1}
    gold = f"\\boxed{{{gold_of()}}}"
    env = answered(gold, grader=how | {"when_spent": "own"}, **STORIES)
    assert not env.episode().success
    for answer, right in ((f"x {gold}", True), ("\\boxed{none}", False)):
        env.reset(seed=0, options={"index": 0})
        env.step(answer)
        assert env.episode().success == right
    env = answered(gold, grader=how, **STORIES)
    env.reset(seed=0, options={"index": 0})
    with pytest.raises(BudgetSpentError):
        env.step("another answer")
    assert len(server.asked) == 2


def test_games_share_the_budget_and_can_be_pickled(server):
    env = marft_envs.make("marft/gsm8k_solo-v0", grader={"kind": "endpoint", "url": server.url, "calls": 1}, **STORIES)
    games = [copy.deepcopy(env) for _ in range(2)]
    for game in games:
        game.reset(seed=0)
    games[0].step("a")
    with pytest.raises(BudgetSpentError):
        games[1].step("b")
    clone = pickle.loads(pickle.dumps(env))
    clone.reset(seed=0)
    clone.step("a")  # its grade came along
    assert clone.unwrapped.episode().success


def test_graded_environments_conform():
    from marft_envs.testing import check_environment

    report = check_environment(lambda **more: marft_envs.make("marft/gsm8k_duo-v0", grader="text", **STORIES, **more))
    assert report.passed, str(report)
