"""Recorded tokens: their text, log-probs and advantages are those of the update, and only asked-for runs have them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from marft_agents.learning.learner import Learner
from marft_agents.learning.settings import LearnerSettings
from marft_agents.runs.run_folder import RunFolder
from marft_agents.runs.schedule import TrainingSchedule
from marft_agents.runs.token_records import TokenRecorder, pieces_of
from marft_agents.runs.trainer import Trainer
from marft_envs import make
from tests.helpers.fakes import CopyDigit, word_team
from tests.helpers.naive import BRIEF_CRITIC


def decode(ids):
    return bytes(ids).decode("utf-8", "replace")


@pytest.mark.parametrize(
    ("text", "pieces"),
    [("ab", ["a", "b"]), ("é!", ["", "é", "!"]), ("√", ["", "", "√"]), ("🙂a", ["", "", "", "🙂", "a"]), ("", [])],
)
def test_the_last_token_of_a_character_has_its_text(text, pieces):
    assert list(pieces_of(list(text.encode()), decode)) == pieces


def test_bytes_that_never_make_a_character_are_given_up():
    found = list(pieces_of([0xE2, 0x88, 0x41, 0xFF], decode))
    assert len(found) == 4
    assert "".join(found) == decode([0xE2, 0x88, 0x41, 0xFF])


def trained(folder, level="action", **schedule):
    team = word_team(["speaker_0", "actor_0"])
    learner = Learner(
        team, LearnerSettings(policy_lr=1e-2, critic_lr=1e-2, level=level, **BRIEF_CRITIC), seed=4, total_updates=2
    )
    records = RunFolder(folder, {})
    batches = []
    plan = TrainingSchedule(updates=2, groups=3, group_size=2, **schedule)
    trainer = Trainer(CopyDigit, team, learner, plan, folder=records)
    asked = learner.on_advantages

    def keep(batch):
        batches.append(batch)
        if asked is not None:
            asked(batch)

    learner.on_advantages = keep
    trainer.run()
    records.close()
    lines = (folder / "episodes.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines], batches, team


@pytest.mark.parametrize("level", ["action", "token"])
def test_records_hold_the_advantages_of_the_update_token_by_token(tmp_path, level):
    episodes, batches, _ = trained(tmp_path, level, record_tokens=True)
    found = [turn["sampled"] for episode in episodes for turn in episode["turns"]]
    for sampled, turn in zip(found, (turn for episode in episodes for turn in episode["turns"]), strict=True):
        assert len(sampled["pieces"]) == len(sampled["logprobs"]) == turn["tokens"]
        assert sum(sampled["logprobs"]) == pytest.approx(turn["logprob"], abs=1e-3)
        assert len(sampled["advantages"]) == (1 if level == "action" else turn["tokens"])
    recorded = [value for sampled in found for value in sampled["advantages"]]
    np.testing.assert_allclose(recorded, np.concatenate([batch.advantages for batch in batches]), atol=1e-4)


def test_a_run_that_does_not_ask_records_no_tokens(tmp_path):
    episodes, _, _ = trained(tmp_path)
    assert not any("sampled" in turn for episode in episodes for turn in episode["turns"])


def test_recording_does_not_change_what_is_learned(tmp_path):
    weights = []
    for name, asked in (("plain", False), ("recorded", True)):
        _, _, team = trained(tmp_path / name, record_tokens=asked)
        weights.append([value.detach().numpy() for base in team.bases for value in base.parameters("actor_0").values()])
    for one, other in zip(*weights, strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_untrained_trajectory_has_tokens_without_advantages(tmp_path):
    team = word_team(["speaker_0", "actor_0"])
    from marft_agents.rollouts.rollout import collect
    from marft_agents.trajectory import EpisodeStart

    [trajectory] = collect(CopyDigit, team, [EpisodeStart(0, 0, 0)], seed=0)
    assert [turn["advantages"] for turn in TokenRecorder(team).record(trajectory)] == [[], []]


def test_whole_records_hold_what_each_agent_saw(tmp_path):
    from marft_agents.generation.sampling import SamplingParams
    from marft_agents.models.base_settings import LoraSettings
    from marft_agents.policies.team_building import build_team

    env = lambda: make("marft/gsm8k_duo-v0", data="embedded:stories", split="train")  # noqa: E731
    sampling = SamplingParams(max_new_tokens=3)
    team = build_team(env().possible_agents, {"*": "tiny"}, lora=LoraSettings(), sampling=sampling, seed=0)
    learner = Learner(team, LearnerSettings(), total_updates=1)
    records = RunFolder(tmp_path, {})
    Trainer(
        env, team, learner, TrainingSchedule(updates=1, groups=1, group_size=2, record_tokens=True), folder=records
    ).run()
    records.close()
    episode = json.loads((tmp_path / "episodes.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert episode["game"]["turns"][0]["observation"].startswith("[system]\n")
