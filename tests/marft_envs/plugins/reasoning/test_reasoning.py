"""reasoning-gym: gold answers score 1, equal seeds give equal problems, hostile answers score 0, other files none."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import partial

import pytest

import marft_envs
from baselines.experiment.gold_answers import OracleView, oracle_of
from envs_data import packages
from envs_data.packages import PackageError
from marft_envs.game.task import JudgeFailure, UnknownTaskError
from marft_envs.plugins.reasoning import GENERATORS, client
from marft_envs.plugins.reasoning.tasks import FILES, LARGE_FILES, PACKAGE, ReasoningTasks, read_answer
from marft_envs.plugins.reasoning.worker import is_arithmetic
from marft_envs.testing import check_environment
from tests.helpers.copied_package import copied_package, flip_byte
from tests.helpers.toy_games import play_through

COIN = {"generator": "coin_flip", "seed": 0, "size": 4, "config": "{}", "index": 0}


@pytest.fixture(autouse=True, scope="module")
def _end_worker():
    yield
    client.close()


def test_the_gold_answer_of_every_generator_scores_one():
    lost = []
    for place, generator in enumerate(GENERATORS):
        team = ("solo", "duo")[place % 2]
        env = marft_envs.make(f"marft/reasoning_{generator}_{team}-v0", size=2)
        oracle = oracle_of(env)
        env.reset(seed=0, options={"index": 1})
        record = play_through(env, lambda agent, seen, env=env, oracle=oracle: oracle(env.unwrapped, agent, seen))
        if not (record.success and record.terminated and record.rewards == (1.0,)):
            lost.append((generator, record.outcomes))
    assert len(GENERATORS) == 100
    assert lost == []


def test_every_generator_is_registered_with_three_teams():
    for generator in GENERATORS:
        for team in ("solo", "duo", "trio"):
            assert marft_envs.spec(f"marft/reasoning_{generator}_{team}-v0").plugin == "reasoning-gym"


@pytest.mark.parametrize("name", ["marft/reasoning_chain_sum_duo-v0", "marft/reasoning_list_functions_trio-v0"])
def test_the_environments_conform(name):
    report = check_environment(partial(marft_envs.make, name, size=4), cycles=10)
    assert report.passed, str(report)


def test_equal_seeds_give_equal_problems_in_every_process():
    """Generators iterate over sets of strings and draw from global generators."""
    names = ("isomorphic_strings", "ransom_note", "list_functions", "pool_matrix")
    program = (
        "from marft_envs.plugins.reasoning.tasks import ReasoningTasks\n"
        f"for name in {names!r}:\n"
        "    tasks = ReasoningTasks(name, size=4)\n"
        "    print(repr([(tasks[i].prompt, tasks[i].answer) for i in (1, 0)]))\n"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    for name, printed in zip(names, done.stdout.splitlines(), strict=True):
        tasks = ReasoningTasks(name, size=4)
        assert printed == repr([(tasks[i].prompt, tasks[i].answer) for i in (1, 0)]), name


def test_splits_have_other_problems_and_ids():
    train, test = (ReasoningTasks("chain_sum", split, size=20) for split in ("train", "test"))
    assert not {task.prompt for task in map(train.__getitem__, range(20))} & {test[i].prompt for i in range(20)}
    assert test.index(test[3].id) == 3
    with pytest.raises(UnknownTaskError, match="train-3"):
        test.index(train[3].id)


def test_seed_and_settings_choose_the_problems():
    tasks, shifted = ReasoningTasks("chain_sum", size=4), ReasoningTasks("chain_sum", size=4, seed=1)
    assert shifted[0] == tasks[1]
    long = ReasoningTasks("chain_sum", size=4, config={"min_terms": 9, "max_terms": 9})
    assert long[0].prompt.count("+") + long[0].prompt.count("-") >= 8
    env = marft_envs.make("marft/reasoning_chain_sum_solo-v0", size=4, seed=1, split="test")
    assert env.unwrapped.settings["problems"]["seed"] == 2**31 + 1


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"split": "dev"}, "found the split 'dev', wanted one of train, test"),
        ({"size": 0}, "found size 0 and seed 0, wanted size >= 1"),
        ({"seed": 2**31}, "wanted size >= 1, seed >= 0 and a sum <= 2147483648"),
        ({"config": {"terms": 3}}, "reasoning-gym, chain_sum, config .*unexpected keyword argument 'terms'"),
        ({"data": "my.jsonl"}, "found data='my.jsonl', wanted 'embedded': the problems are generated"),
    ],
)
def test_bad_keywords_are_refused(keywords, message):
    with pytest.raises(ValueError, match=message):
        marft_envs.make("marft/reasoning_chain_sum_solo-v0", **keywords)


@pytest.mark.parametrize(
    ("action", "answer"),
    [
        ("<answer>1</answer> or <answer> 2\n3 </answer>", "2\n3"),
        (r"\boxed{4}", "4"),
        (r"\boxed{4} <answer>5</answer>", "5"),
        ("</answer>", None),
        ("<answer>5", None),
        ("<answer>" * 2000, None),
    ],
)
def test_the_last_marked_answer_counts(action, answer):
    assert read_answer(action) == answer


def test_a_wrong_answer_gets_the_scorers_partial_reward_and_no_success():
    env = marft_envs.make("marft/reasoning_puzzle24_duo-v0", size=2)
    env.reset(seed=0, options={"index": 0})
    record = play_through(env, lambda agent, seen: "<answer>1 + 1</answer>")
    assert record.rewards == (0.01,)
    assert not record.success
    env.reset(seed=0, options={"index": 0})
    assert play_through(env, lambda agent, seen: "I do not know.").outcomes[0].invalid


def test_an_oracle_view_plays_the_marked_gold_answer():
    env = OracleView(marft_envs.make("marft/reasoning_maze_duo-v0", size=2), ["actor_0"])
    env.reset(seed=0, options={"index": 0})
    assert play_through(env, lambda agent, seen: str(seen)).success


def test_majorities_vote_on_the_marked_answer():
    tasks = ReasoningTasks("gcd", size=2)
    said = [tasks.judge(tasks[0], text, round=0, last_round=True) for text in ("<answer>7</answer>", "7")]
    assert tasks.vote(said[:1]) == "7"
    assert tasks.vote([said[1]]) is None


# ------------------------------------------------------------ another version


def test_a_changed_byte_is_refused_until_it_is_restored(tmp_path, monkeypatch):
    copy = copied_package(PACKAGE, tmp_path, monkeypatch)
    told = (
        rf"reasoning-gym 0\.1\.25 in {copy}: found files with SHA-256 \w{{64}}, wanted \w{{64}}: .*"
        r"pip install --force-reinstall --no-deps reasoning-gym==0\.1\.25$"
    )
    for name, generator in (
        ("algorithmic/word_ladder.py", "gcd"),
        ("data/words.csv", "word_ladder"),
        ("data/anagrams.jsonl", "group_anagrams"),
        ("data/codeio.jsonl.gz", "codeio"),
    ):
        before = flip_byte(copy / name)
        with pytest.raises(PackageError, match=told):
            ReasoningTasks(generator)
        (copy / name).write_bytes(before)
    for generator in ("gcd", *LARGE_FILES):
        assert len(ReasoningTasks(generator)) == 500


def test_every_data_file_that_a_generator_reads_is_checked():
    data = PACKAGE.folder / "data"
    large = {file.partition("/")[2] for file, _ in LARGE_FILES.values()}
    small = {path.name for pattern in FILES for path in PACKAGE.folder.glob(pattern) if path.parent == data}
    assert {path.name for path in data.glob("*.*")} - large - small == {"codeio-hq.jsonl.gz"}, "no generator reads it"
    sources = {path.stem: path.read_text(encoding="utf-8") for path in PACKAGE.folder.rglob("*.py")}
    readers = {stem for stem, source in sources.items() if any(name in source for name in {*large, "codeio-hq"})}
    assert readers == {"codeio", "figlet_fonts", "group_anagrams"}


def test_the_check_is_fast_and_made_once():
    spent = []
    for _ in range(3):
        packages._check.cache_clear()
        start = time.process_time()
        ReasoningTasks("group_anagrams")
        spent.append(time.process_time() - start)
    assert min(spent) < 0.05
    ReasoningTasks("figlet_font")
    ReasoningTasks("gcd")
    assert packages._check.cache_info().misses == 2, "the code and the anagrams"


# ------------------------------------------------------------- hostile answers


@pytest.mark.parametrize("generator", ["n_queens", "spiral_matrix", "countdown", "simple_integration"])
def test_an_answer_is_never_run(generator, tmp_path):
    made = tmp_path / "made"
    for code in (f"open({str(made)!r}, 'w')", f"__import__('pathlib').Path({str(made)!r}).touch()", "9**9**9**9"):
        assert client.score({**COIN, "generator": generator}, code) == 0
    assert not made.exists()


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("6*(98 - 54) - 34 - 66", True),
        ("-exp(x)*sin(x) + 2*x**3/3 + C", True),
        ("sqrt(x)*log(2*x)", True),
        ("9**9**9", False),
        ("x**(10**10)", False),
        ("9**(99*99*99)", False),
        ("9**(1/0.001)", False),
        ("x**(1/2)", True),
        ("exp(exp(exp(9.0)))", False),
        ("1e999", False),
        ("9" * 30, False),
        ("f(x)", False),
        ("x.diff", False),
        ("(lambda: 1)()", False),
        ("'a'", False),
        ("abc", False),
        ("1 +", False),
        ("+".join("x" * 200), False),
    ],
)
def test_only_bounded_arithmetic_reaches_sympy(text, fits):
    assert is_arithmetic(text, powers=True, symbols=True) == fits


def test_without_powers_and_symbols_only_the_four_operations_remain():
    assert is_arithmetic("(1 + 2) * 3 / 4", powers=False, symbols=False)
    assert not is_arithmetic("2**3", powers=False, symbols=False)
    assert not is_arithmetic("x", powers=False, symbols=False)


def test_scorers_that_accept_wrong_answers_are_repaired():
    assert client.score(COIN, client.problem(COIN)[1]) == 1
    assert client.score(COIN, "0") == 0, "a prefix of the gold answer"
    halting = {**COIN, "generator": "game_of_life_halting"}
    wrong = {"True": "False", "False": "True"}[client.problem(halting)[1]]
    assert client.score(halting, wrong) == 0
    assert client.score({**COIN, "generator": "complex_arithmetic"}, "nan + nani") == 0


def test_a_worker_that_dies_of_an_answer_is_replaced(monkeypatch):
    client.problem(COIN)
    process = client._owner.process

    def die(process, request):
        process.kill()
        raise client.WorkerDiedError("the worker ended")

    exchange = client._exchange
    monkeypatch.setattr(client, "_exchange", die)
    assert client.score(COIN, "0.5") is None
    with pytest.raises(JudgeFailure, match="coin_flip: the worker ended while it generated"):
        client.problem(COIN)
    monkeypatch.setattr(client, "_exchange", exchange)
    assert process.poll() is not None
    assert client.score(COIN, "7") == 0
