"""Sampling parameters: exact shares, exact log-probs, no token of probability zero."""

import numpy as np
import pytest
import torch

from marft_agents.generation.sampling import SamplingParams
from marft_agents.generation.token_sampling import choose, draw, support_ids
from marft_agents.setting_fields import SettingsError
from tests.helpers.naive import support_mask

LOGITS = torch.tensor([[2.0, 1.0, 0.0, -1.0, -30.0]])


def sampled_probabilities(sampling):
    scaled = LOGITS[0] / sampling.temperature
    keep = torch.ones(5, dtype=torch.bool)
    order = scaled.argsort(descending=True)
    if sampling.top_k:
        keep[order[sampling.top_k :]] = False
    if sampling.top_p < 1:
        kept = [i for i in order.tolist() if keep[i]]
        shares = scaled[kept].softmax(0)
        mass = 0.0
        for i, share in zip(kept, shares.tolist(), strict=True):
            if mass >= sampling.top_p:
                keep[i] = False
            mass += share
    return scaled.masked_fill(~keep, -torch.inf).softmax(0)


def test_by_default_the_plain_distribution_is_sampled():
    sampling = SamplingParams()
    assert (sampling.temperature, sampling.top_k, sampling.top_p, sampling.max_new_tokens) == (1, 0, 1, 64)
    assert not sampling.greedy
    assert not sampling.restricts_support


SAMPLINGS = [
    SamplingParams(),
    SamplingParams(temperature=0.5),
    SamplingParams(temperature=2.0, top_k=3),
    SamplingParams(top_p=0.8),
    SamplingParams(temperature=1.5, top_k=4, top_p=0.7),
]


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_shares_are_those_of_the_distribution(sampling):
    wanted = sampled_probabilities(sampling)
    grid = (torch.arange(20_000, dtype=torch.float64) + 0.5) / 20_000  # every uniform number once: no chance left
    tokens, logprobs, support = choose(LOGITS.expand(20_000, -1), grid, sampling)
    shares = torch.bincount(tokens, minlength=5) / 20_000
    assert (shares - wanted).abs().max() < 2e-4
    assert (logprobs - wanted.log()[tokens]).abs().max() < 1e-5
    assert (support is None) == (not sampling.restricts_support)
    if support is not None:
        assert support[0][support[0] >= 0].tolist() == wanted.nonzero()[:, 0].tolist()


def test_greedy_takes_the_most_likely_and_records_the_plain_distribution():
    tokens, logprobs, support = choose(LOGITS, torch.tensor([0.99], dtype=torch.float64), SamplingParams(temperature=0))
    assert tokens.item() == 0
    assert logprobs.item() == pytest.approx(LOGITS.log_softmax(-1)[0, 0].item())
    assert support is None


def test_no_draw_ever_hits_a_token_of_probability_zero():
    logits = torch.full((1, 1000), -torch.inf)
    logits[0, 300:302] = 0.0
    extremes = torch.tensor([0.0, 0.5, 1 - 2**-53], dtype=torch.float64)
    assert draw(logits.exp().expand(3, -1), extremes).tolist() == [300, 301, 301]


def test_rounding_of_a_large_vocabulary_stays_inside():
    logits = torch.randn(4, 49_152, generator=torch.Generator().manual_seed(0))
    tokens = draw(logits.exp(), torch.full((4,), 1 - 2**-53, dtype=torch.float64))
    assert (tokens < 49_152).all()


@pytest.mark.parametrize("vocabulary", [3, 256, 257, 1000])
def test_a_draw_inverts_the_cumulative_distribution(vocabulary):
    generator = torch.Generator().manual_seed(vocabulary)
    weights = torch.rand(2000, vocabulary, generator=generator, dtype=torch.float64)
    weights[:, vocabulary // 2 :: 3] = 0
    uniforms = torch.rand(2000, generator=generator, dtype=torch.float64)
    plain = (weights.cumsum(-1) <= uniforms[:, None] * weights.sum(-1, keepdim=True)).sum(-1)
    assert (draw(weights, uniforms) == plain).float().mean() > 0.999


def test_an_unlikely_token_has_its_exact_logprob():
    """Far below the most likely: where a quotient of float32 weights would be denormal or zero, it cannot be drawn."""
    logits = torch.tensor([[0.0, -60.0, -80.0]])
    for sampling in (SamplingParams(temperature=1e-9), SamplingParams()):
        tokens, logprobs, _ = choose(logits, torch.tensor([1 - 2**-53], dtype=torch.float64), sampling)
        wanted = (logits / sampling.temperature).log_softmax(-1)[0, tokens]
        assert torch.allclose(logprobs, wanted, atol=1e-6)


def test_support_keeps_the_token_that_crosses_the_mass():
    logits = torch.tensor([[0.5, 0.3, 0.2]]).log()
    assert support_ids(logits, SamplingParams(top_p=0.6)).tolist() == [[0, 1]]
    assert support_ids(logits, SamplingParams(top_p=0.01)).tolist() == [[0]]


def test_top_p_is_a_share_of_what_top_k_left():
    logits = torch.tensor([[0.2, 0.1, 0.4, 0.3]]).log()
    # of the two most likely the first has 4/7 > 0.5 by itself; of the whole vocabulary it would have 0.4
    assert support_ids(logits, SamplingParams(top_k=2, top_p=0.5)).tolist() == [[2, -1]]
    assert support_ids(logits, SamplingParams(top_k=2, top_p=0.6)).tolist() == [[2, 3]]


@pytest.mark.parametrize("nucleus", [3, 40, 299])  # smaller than all nuclei, than some, than none
@pytest.mark.parametrize(
    "sampling", [SamplingParams(top_k=7), SamplingParams(top_p=0.9), SamplingParams(top_k=9, top_p=0.5)]
)
def test_support_is_that_of_the_ordered_vocabulary(monkeypatch, sampling, nucleus):
    monkeypatch.setattr("marft_agents.generation.token_sampling.NUCLEUS", nucleus)
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(50, 300, generator=generator) * torch.linspace(0.1, 6, 50)[:, None]
    for row, wanted in zip(support_ids(logits, sampling), support_mask(logits, sampling), strict=True):
        assert row[row >= 0].tolist() == wanted.nonzero()[:, 0].tolist()


@pytest.mark.parametrize(
    "wrong", [{"temperature": -1}, {"top_k": -1}, {"top_p": 0}, {"top_p": 1.5}, {"max_new_tokens": 0}]
)
def test_parameters_out_of_range_name_the_knob(wrong):
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        SamplingParams(**wrong)


def test_numpy_generators_are_the_only_randomness():
    state = torch.random.get_rng_state()
    choose(LOGITS, torch.as_tensor(np.random.default_rng(0).random(1)), SamplingParams())
    assert torch.equal(state, torch.random.get_rng_state())
