"""The training benchmark: one workload for all, honest figures, tables and JSON; contenders that need no other venv."""

import contextlib
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.machine import described, machine
from benchmarks.training import __main__ as command
from benchmarks.training import plan as benchmark_plan
from benchmarks.training.contender_process import Contender, Row
from benchmarks.training.meter import held_mb, measure, settle
from benchmarks.training.page import BEGIN, END, write_page
from benchmarks.training.plan import SMALL, Axis, Plan, Results, execute
from benchmarks.training.preparation import prepare
from benchmarks.training.report import per_agent, ratios, record, tables, typical
from benchmarks.training.worker import Service
from benchmarks.training.workload import END_TOKEN, Workload, answer_lengths, chain_team

SHAPE = replace(SMALL, agents=2, group_size=2, answer=6, cap=8)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return prepare("tiny", SHAPE, tmp_path_factory.mktemp("work") / "main.json")


@pytest.fixture(scope="module")
def work(path):
    return Workload.load(path)


def row(contender="ours", *, phase="update", workload="main", cpu=1.0, peak=100.0, repetition=0, threads=1):
    return Row(contender, phase, workload, threads, repetition, 4, 24, 2 * cpu, cpu, peak, 500.0)


# ---------------------------------------------------------------- the workload


def test_a_workload_is_what_was_asked_for(work):
    assert work.agents == ("reasoner_0", "actor_0")
    assert [(turn.episode, turn.agent) for turn in work.turns] == [(e, a) for a in work.agents for e in (0, 1)]
    assert all(turn.token_ids[-1] == END_TOKEN and END_TOKEN not in turn.token_ids[:-1] for turn in work.turns)
    assert all(len(turn.token_ids) <= SHAPE.cap and len(turn.logprobs) == len(turn.token_ids) for turn in work.turns)


def test_prompts_are_what_the_environment_shows(work):
    first, second = work.of("reasoner_0")
    assert first.prompt_ids == second.prompt_ids  # a group starts from one problem
    said = first.token_ids[:-1]
    actor = work.of("actor_0")[0]
    assert contains(actor.prompt_ids, said)  # it reads what the agent before it said
    assert not contains(work.of("actor_0")[1].prompt_ids, said)


def contains(tokens, part):
    return any(tokens[i : i + len(part)] == tuple(part) for i in range(len(tokens)))


def test_a_workload_is_the_same_each_time_and_survives_its_file(path, work, tmp_path):
    again = Workload.load(prepare("tiny", SHAPE, tmp_path / "main.json"))
    assert replace(again, model="") == replace(work, model="")
    assert Workload.load(path) == work
    other = Workload.load(prepare("tiny", replace(SHAPE, seed=1), tmp_path / "other.json"))
    assert other.turns != work.turns


def test_lengths_are_ragged_around_their_mean():
    lengths = answer_lengths(200, 64, 96, np.random.default_rng(0))
    assert abs(lengths.mean() - 64) < 1
    assert lengths.min() >= 8
    assert lengths.max() == 96
    assert len(set(lengths.tolist())) > 30


def test_teams_of_all_sizes_see_one_predecessor():
    rows = chain_team(4)["dependency"]["rows"]
    assert rows == [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]]
    assert [profile["answers"] for profile in chain_team(1)["profiles"]] == [True]
    assert len(chain_team(2, examples=3)["profiles"][0]["examples"]) == 3


def test_another_vocabulary_keeps_all_lengths(work):
    small = work.in_vocabulary(100)
    assert max(max(turn.prompt_ids + turn.token_ids) for turn in small.turns) < 100
    assert small.summary() == work.summary()


# ---------------------------------------------------------------- the same work for each contender


def test_our_update_trains_just_the_recorded_samples(work):
    from benchmarks.training.marft_grpo import load, trajectories

    recorded = {
        (number, turn.agent): (tuple(turn.action.prompt_ids), tuple(turn.action.token_ids))
        for number, episode in enumerate(trajectories(work))
        for turn in episode.turns
    }
    assert recorded == {(turn.episode, turn.agent): (turn.prompt_ids, turn.token_ids) for turn in work.turns}
    figures = load(work)["update"]()
    assert figures["first_pass_log_ratio_max"] < 1e-4  # the log-probs handed over are the model's own


def test_our_rollout_refuses_other_work(work):
    from benchmarks.training.marft_grpo import load

    load(work)["rollout"]()
    turn = work.turns[0]
    longer = work.with_turns([replace(turn, prompt_ids=(*turn.prompt_ids, 5)), *work.turns[1:]])
    with pytest.raises(RuntimeError, match="wanted"):
        load(longer)["rollout"]()


def test_hf_generates_the_wanted_lengths(work):
    from benchmarks.training.hf_generate import generate, lora_model

    turns = work.of("actor_0")
    found = generate(lora_model(work.model).eval(), turns)
    answers = found[:, max(len(turn.prompt_ids) for turn in turns) :]
    for turn, answer in zip(turns, answers.tolist(), strict=True):
        assert answer.index(END_TOKEN) == len(turn.token_ids) - 1


def test_the_reference_scores_the_same_answers_as_ours(work):
    from benchmarks.training.marft_reference import Reference

    team = Reference(work)
    team.score()
    for place, agent in enumerate(work.agents):
        for turn in work.of(agent):
            assert float(team.old[turn.episode, place]) == pytest.approx(sum(turn.logprobs), abs=1e-3)
    before = [p.detach().clone() for p in team.models[0].parameters() if p.requires_grad]
    team.update()
    after = [p for p in team.models[0].parameters() if p.requires_grad]
    assert any(not old.equal(new) for old, new in zip(before, after, strict=True))


def test_rivals_are_handed_the_same_samples(work):
    from benchmarks.training.comlrl_magrpo import advantages
    from benchmarks.training.trl_grpo import given_rewards, recorded

    found = recorded(work, ["actor_0 0", "actor_0 0"], None)
    assert found["prompt_ids"] == [list(turn.prompt_ids) for turn in work.of("actor_0")]
    assert found["completion_ids"] == [list(turn.token_ids) for turn in work.of("actor_0")]
    assert given_rewards(found["given"], prompts=[]) == list(work.rewards)
    with pytest.raises(RuntimeError, match="TRL asked for 3 samples"):
        recorded(work, ["actor_0 0"] * 3, None)
    assert sorted(advantages(work)) == pytest.approx([-1.0, 1.0], abs=1e-3)


# ---------------------------------------------------------------- figures


def test_the_peak_of_memory_is_that_of_the_work():
    if held_mb("VmHWM") is None:
        pytest.skip("this system tells no peak of memory")
    settle()
    resting = held_mb()
    assert measure(lambda: {"sum": float(np.ones(20_000_000).sum())}, resting).peak_mb > 150
    small = measure(lambda: None, resting)
    assert small.peak_mb < 50
    assert small.extra == {}


def test_the_median_repetition_counts_with_the_highest_peak():
    repetitions = [
        row(cpu=3.0, peak=10.0),
        row(cpu=2.0, peak=20.0, repetition=1),
        row(cpu=7.0, peak=30.0, repetition=2),
    ]
    (found,) = typical(repetitions)
    assert (found.cpu_s, found.peak_mb) == (3.0, 30.0)


def test_ratios_are_theirs_over_ours_and_memory_is_ours_over_theirs():
    made = list(ratios([row(cpu=2.0, peak=30.0), row("trl", cpu=7.0, peak=100.0)]))
    speed, memory = made
    assert (speed.cpu, speed.wall, speed.met) == (3.5, 3.5, True)
    assert (memory.cpu, memory.met) == (0.3, False)
    assert not list(ratios([row(), row("trl", workload="team-2")]))


def test_the_ratio_of_several_repetitions_is_the_median_of_those_taken_in_turn_with_its_spread():
    ours = [row(cpu=cpu, peak=None, repetition=n) for n, cpu in enumerate((1.0, 2.0, 4.0))]
    theirs = [row("trl", cpu=cpu, peak=None, repetition=n) for n, cpu in enumerate((5.0, 6.0, 8.0))]
    (speed,) = ratios([*ours, *theirs])
    assert (speed.repetitions, speed.cpu, speed.low, speed.high) == (3, 3.0, 2.0, 5.0)
    assert speed.met is True


def test_work_that_only_the_other_needs_is_added_to_its_time():
    measured = [row("ours-marft", cpu=2.0), row("reference", cpu=8.0), row("reference", phase="score", cpu=4.0)]
    found = {ratio.what: ratio.cpu for ratio in ratios(measured)}
    assert found["from play to new weights, against the reference flow"] == 6.0
    assert found["update: speed against the reference's update alone"] == 4.0


def test_cost_per_agent_compares_larger_teams_with_a_duo():
    rows = [row(workload="team-1"), row(workload="team-2", cpu=2.0), row(workload="team-8", cpu=12.0)]
    (found,) = per_agent(rows, {1: "team-1", 2: "team-2", 8: "team-8"})
    assert found.cpu == 1.5
    assert found.met is False
    larger = row(workload="team-32", cpu=64.0)
    assert [ratio.met for ratio in per_agent([*rows, larger], {2: "team-2", 8: "team-8", 32: "team-32"})] == [
        False,
        None,
    ]
    assert list(per_agent(rows, {1: "team-1"})) == []


# ---------------------------------------------------------------- a whole run


class Here(Contender):
    """A contender in this process: starting one of its own takes seconds."""

    def __init__(self, name, threads, folder):
        self.name, self.threads, self.versions, self.refused = name, threads, {}, ""
        self._phases, self._loaded, self._resting = [], None, None
        self._service = Service(name)

    def __exit__(self, *raised):
        pass

    def _ask(self, question):
        return json.loads(json.dumps(self._service.answer(question)))


@contextlib.contextmanager
def prepared_here(model, folder, threads):
    yield SimpleNamespace(workload=lambda name, shape: prepare(model, shape, folder / f"{name}.json"))


@pytest.mark.parametrize("processes", ["one", pytest.param("many", marks=pytest.mark.slow)])
def test_a_whole_run_with_the_tiny_model(tmp_path, monkeypatch, processes):
    if processes == "one":
        monkeypatch.setattr(benchmark_plan, "Contender", Here)
        monkeypatch.setattr(benchmark_plan, "Preparation", prepared_here)
    plan = Plan(
        SHAPE,
        rounds={1: 1},
        axes=(Axis("vocabulary", {n: replace(SHAPE, vocabulary=n) for n in (300, 400)}, ("ours",), ("update",)),),
    )
    told = []
    results = execute(plan, ["ours", "reference"], "tiny", tmp_path, told.append)
    found = {(one.workload, one.contender, one.phase) for one in results.rows}
    assert found == {
        ("main", "ours", "update"),
        ("main", "ours", "rollout"),
        ("main", "reference", "score"),
        ("main", "reference", "update"),
        ("vocabulary-300", "ours", "update"),
        ("vocabulary-400", "ours", "update"),
    }
    assert len(told) == 2 + len(results.rows)  # the interpreters, and each measurement
    assert results.versions["ours"]["torch"] == results.versions["reference"]["torch"]
    again = execute(plan, ["ours", "reference"], "tiny", tmp_path, told.append)
    assert again.rows == results.rows  # nothing is measured twice
    with pytest.raises(ValueError, match="another plan"):
        execute(replace(plan, rounds={1: 2}), ["ours"], "tiny", tmp_path, told.append)
    facts = json.loads(json.dumps(record(results, 60.0))) | {"command": "command", "machine": machine()}
    assert facts["workloads"]["main"]["samples"] == 4
    assert len(facts["rows"]) == 6
    page = tmp_path / "page.md"
    page.write_text(f"# Before\n\n{BEGIN}\nold\n{END}\n\nAfter.\n", encoding="utf-8")
    write_page(page, results, facts)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# Before\n")
    assert text.endswith("\n\nAfter.\n")
    assert "old" not in text
    assert "Growth with vocabulary" in text
    assert page.with_suffix(".png").stat().st_size > 5_000


@pytest.mark.long
def test_a_contender_that_refuses_is_reported(tmp_path, path):
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps(json.loads(path.read_text()) | {"model": str(tmp_path)}))
    with Contender("hf", 1, tmp_path) as contender:
        assert contender.load(broken) == []
        assert "Error" in contender.refused
        assert contender.run("update") is None  # there is no such phase: its process ends
        assert "ended with exit code 1" in contender.refused
        assert contender.load(path) == []


def test_tables_of_nothing_are_empty():
    assert [lines for _, _, lines in tables(Results())] == [[], []]


def test_unknown_contenders_are_refused(capsys):
    with pytest.raises(SystemExit):
        command.main(["--contenders", "ours,magic"])
    assert "found magic" in capsys.readouterr().err


def test_bfloat16_is_refused_where_it_would_be_emulated(tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark_plan, "multiplies_bfloat16", lambda: False)
    monkeypatch.setattr(benchmark_plan, "Preparation", prepared_here)
    results = execute(Plan(SHAPE), ["ours-bf16"], "tiny", tmp_path, print)
    assert "would be emulated" in results.refused["ours-bf16"]
    assert results.rows == []


def test_contenders_in_bfloat16_update(path):
    service = Service("ours-marft-bf16")
    assert service.answer({"load": str(path)})["phases"] == ["update"]
    assert service.answer({"run": "update"})["cpu_s"] > 0


def test_a_machine_is_described_by_what_its_figures_depend_on(monkeypatch):
    monkeypatch.setenv("LD_PRELOAD", "/usr/lib/libother.so /usr/lib/x/libtcmalloc_minimal.so.4")
    monkeypatch.setenv("THP_MEM_ALLOC_ENABLE", "1")
    assert "libtcmalloc_minimal huge pages" in described(machine())
    monkeypatch.delenv("LD_PRELOAD")
    monkeypatch.delenv("THP_MEM_ALLOC_ENABLE")
    assert machine()["allocator"] == ""
    found = machine(products=True)
    assert found["gflops"]["float32"] > 0.1
    assert f"{found['gflops']['float32']:g} GFLOP/s" in described(found)
    assert described({"cores": 2, "system": "Linux"}) == "unknown processor, 2 cores, Linux"
