"""Supervised fine-tuning: the plain gradient of each agent's own tokens, the tokens of rollouts, an exact resume."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from marft_agents.generation.sampling import SamplingParams
from marft_agents.learning.divergence_error import DivergenceError
from marft_agents.learning.settings import LearnerSettings
from marft_agents.learning.supervised import SupervisedLearner, demonstration
from marft_agents.models.chat_template import end_of_turn_id
from marft_agents.models.random_models import byte_tokenizer
from marft_agents.policies.policy import FunctionPolicy
from marft_agents.runs import checkpoint
from marft_agents.runs.evaluation import evaluate
from marft_agents.runs.run_folder import RunFolder, read_metrics
from marft_agents.runs.supervised_trainer import SupervisedSettings, SupervisedTrainer
from tests.helpers.fakes import CopyDigit, word_model, word_team
from tests.helpers.naive import DESCENT, adapters, assert_stepped_along, logprobs, moved, play
from tests.helpers.run_outcome import outcome

MARKET = ("buyer_0", "seller_0")
WARM = SamplingParams(temperature=0.7, max_new_tokens=4)
STEEPEST = LearnerSettings(**{key: value for key, value in DESCENT.items() if key != "trace_decay"}, micro_batch=3)


def demonstrated(team, agent, pairs):
    return [demonstration(team, agent, seen, said) for seen, said in pairs]


def lessons(team):
    buyer = [("digit 1", "a"), ("digit 2 heard a", "b 2"), ("digit 2 heard b", "0"), ("digit 4", "a b 3")]
    return {"buyer_0": demonstrated(team, "buyer_0", buyer), "seller_0": demonstrated(team, "seller_0", buyer[:2])}


def test_demonstrations_have_the_tokens_that_rollouts_record():
    """The same prompt ids for the same observation, the same action ids for the same text, the end token included."""
    team = word_team(MARKET, sampling=WARM, stir=0.3)
    asked = []

    def act(requests):
        actions = team.act(requests)
        asked.extend(zip(requests, actions, strict=True))
        return actions

    play(team, policy=FunctionPolicy(act), episodes=8)
    special = {0, 1}  # <unk> and <|im_start|> are not text
    plain = [(request, action) for request, action in asked if not special & set(action.token_ids.tolist())]
    assert len(plain) > 10
    assert {action.stopped for _, action in plain} == {True, False}
    for request, action in plain:
        made = demonstration(team, request.agent, request.observation, action.text, ended=action.stopped)
        assert made.prompt_ids.tolist() == action.prompt_ids.tolist()
        assert made.token_ids.tolist() == action.token_ids.tolist()
        assert (made.text, made.stopped, made.exact) == (action.text, action.stopped, False)


def test_an_action_without_tokens_cannot_be_shown():
    with pytest.raises(ValueError, match="buyer_0: an action that is empty and did not end has no tokens"):
        demonstration(word_team(MARKET), "buyer_0", "digit 1", "", ended=False)


def test_a_step_follows_the_plain_gradient_of_the_mean_nll_of_own_tokens():
    team = word_team(MARKET, sampling=WARM, stir=0.3)
    wanted, fits = {}, {}
    for policy, actions in lessons(team).items():
        base = team.local_agent(policy).base
        scored = torch.cat([logprobs(base, policy, action, WARM)[0] for action in actions])
        tensors = base.parameters(policy)
        gradients = torch.autograd.grad(-scored.mean(), list(tensors.values()))
        wanted[policy] = dict(zip(tensors, gradients, strict=True))
        fits[policy] = -scored.mean().item()
    before = adapters(team)
    metrics = SupervisedLearner(team, STEEPEST).imitate(lessons(team))
    after = adapters(team)
    for policy in MARKET:
        assert_stepped_along(before[policy], after[policy], wanted[policy])
        assert metrics[f"{policy}/nll"] == pytest.approx(fits[policy], rel=1e-4)


def test_an_agent_without_turns_keeps_every_byte():
    team = word_team(MARKET, sampling=WARM, stir=0.3)
    before = adapters(team)
    learner = SupervisedLearner(team, STEEPEST)
    metrics = learner.imitate({"buyer_0": lessons(team)["buyer_0"], "seller_0": []})
    assert moved(before, adapters(team)) == {"buyer_0"}
    assert not any(name.startswith("seller_0") for name in metrics)
    assert learner.updates == 1


def test_token_accuracy_is_the_share_of_most_likely_tokens():
    team = word_team(MARKET, sampling=WARM, stir=0.5)
    actions = lessons(team)["buyer_0"]
    base, hits = team.local_agent("buyer_0").base, []
    for action in actions:
        ids = torch.as_tensor(np.concatenate([action.prompt_ids, action.token_ids]), dtype=torch.long)[None]
        with base.active_adapter("buyer_0"):
            likeliest = base.peft(input_ids=ids).logits[0, len(action.prompt_ids) - 1 : -1].argmax(-1)
        hits += (likeliest.numpy() == action.token_ids).tolist()
    found = SupervisedLearner(team, STEEPEST).measure({"buyer_0": actions, "seller_0": []})
    assert list(found) == ["buyer_0"]
    assert found["buyer_0"].token_accuracy == pytest.approx(np.mean(hits))


def test_a_loss_that_is_not_finite_stops_the_run():
    team = word_team(MARKET, sampling=WARM)
    next(iter(team.local_agent("buyer_0").base.parameters("buyer_0").values())).data[:] = torch.nan
    with pytest.raises(DivergenceError, match="'buyer_0': the loss is nan: lower policy_lr"):
        SupervisedLearner(team, STEEPEST).imitate(lessons(team))


def test_special_tokens_of_a_text_are_no_tokens_of_the_action():
    team = word_team(MARKET)
    assert demonstration(team, "buyer_0", "digit", "a <|im_end|> b").token_ids.tolist().count(2) == 1


def test_the_end_token_is_that_of_the_chat_template():
    tokenizer = byte_tokenizer()
    assert end_of_turn_id(tokenizer) == tokenizer.convert_tokens_to_ids("<|im_end|>")
    words = word_model().tokenizer
    assert end_of_turn_id(words) == 2
    tokenizer.eos_token = "<|pad|>"  # a base model's own end token differs from the template's
    assert end_of_turn_id(tokenizer) == tokenizer.convert_tokens_to_ids("<|im_end|>")
    tokenizer.chat_template = "{{ messages[-1]['content'] }}"
    assert end_of_turn_id(tokenizer) == tokenizer.convert_tokens_to_ids("<|pad|>")


# ------------------------------------------------------------------ runs

SETTINGS = SupervisedSettings(epochs=15, batch_size=2, policy_lr=0.01, seed=3)


def copying(team):
    """Demonstrations that win `CopyDigit`: the speaker says the digit, the actor repeats it."""
    return {
        "speaker_0": [demonstrated(team, "speaker_0", [(f"digit {n}", str(n))]) for n in range(3)],
        "actor_0": [demonstrated(team, "actor_0", [(f"heard {n}", str(n))]) for n in range(3)],
    }


def fit(folder, settings=SETTINGS, steps=None):
    team = word_team(CopyDigit.speakers, sampling=SamplingParams(max_new_tokens=2))
    train = copying(team)
    total = settings.epochs * settings.steps_per_epoch(train)
    learner = SupervisedLearner(team, settings.learner, seed=settings.seed, total_updates=total)
    done = checkpoint.load(folder, team, learner) if checkpoint.latest(folder / "checkpoints") else 0
    records = RunFolder(folder, {}, resume_at=done)
    trainer = SupervisedTrainer(team, learner, settings, train, {"actor_0": train["actor_0"][:1]}, folder=records)
    while learner.updates < (steps or trainer.updates):
        trainer.step()
    records.close()
    return team


def test_a_team_learns_what_it_is_shown(tmp_path):
    team = fit(tmp_path / "run")
    greedy = team.under(SamplingParams(temperature=0.0, max_new_tokens=2))
    played = evaluate(CopyDigit, greedy, [{"seed": seed} for seed in range(12)])
    assert played.accuracy.mean == 1.0
    history = read_metrics(tmp_path / "run")
    assert history[-1]["actor_0/held_out_nll"] < 0.1 < history[0]["actor_0/held_out_before_nll"]
    assert history[-1]["actor_0/held_out_token_accuracy"] == 1.0
    assert "actor_0/held_out_nll" not in history[0], "measured once an epoch"
    reloaded = word_team(CopyDigit.speakers, sampling=SamplingParams(max_new_tokens=2))
    checkpoint.load_adapters(tmp_path / "run", reloaded)
    assert not moved(adapters(team), adapters(reloaded))


def test_k_steps_and_the_rest_are_all_steps(tmp_path):
    short = SupervisedSettings(epochs=2, batch_size=2, policy_lr=0.05, seed=3)
    fit(tmp_path / "whole", short)
    fit(tmp_path / "parts", short, steps=1)
    fit(tmp_path / "parts", short, steps=3)
    fit(tmp_path / "parts", short)
    assert outcome(tmp_path / "whole") == outcome(tmp_path / "parts")


def test_every_turn_is_used_once_per_epoch():
    team = word_team(MARKET)
    episodes = [[(f"digit {n}", "a"), (f"digit {n} heard a", "b")] for n in range(3)]
    train = {
        "buyer_0": [demonstrated(team, "buyer_0", pairs) for pairs in episodes],
        "seller_0": [demonstrated(team, "seller_0", episodes[0])],
    }
    settings = SupervisedSettings(epochs=2, batch_size=2, seed=1)
    trainer = SupervisedTrainer(team, SupervisedLearner(team, settings.learner), settings, train, {})
    assert (trainer.per_epoch, trainer.updates) == (3, 6)
    epochs = [[trainer.batch(update) for update in range(start, start + 3)] for start in (0, 3)]
    for epoch in epochs:
        for policy, own in train.items():
            used = [id(action) for batch in epoch for action in batch[policy]]
            assert sorted(used) == sorted(id(action) for actions in own for action in actions)
            assert max(len(batch[policy]) for batch in epoch) <= 2
    shared = [{id(a) for a in batch["buyer_0"]} for epoch in epochs for batch in epoch]
    assert all({id(a) for a in own} in shared for own in train["buyer_0"]), "turns of an episode share a pass"
    orders = [[[id(a) for a in batch["buyer_0"]] for batch in epoch] for epoch in epochs]
    assert orders[0] != orders[1]
