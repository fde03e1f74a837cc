"""Small models with adapters that matter, and the passes that generation runs on them."""

import torch
from transformers import MistralConfig, MistralForCausalLM

from marft_agents.generation import continuous_batching, decode_step
from marft_agents.models.adapted_base import AdaptedBase
from marft_agents.models.base_settings import LoraSettings
from marft_agents.models.pretrained import Pretrained
from marft_agents.models.random_models import byte_tokenizer
from marft_agents.models.tree_attention import run

SHAPE = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}


def adapted(pretrained, lora=None):
    """Return a base with the adapters a_0 and b_0, whose weights are random."""
    base = AdaptedBase(pretrained, ["a_0", "b_0"], lora or LoraSettings(), seed=0)
    stir(base)
    return base


def stir(base):
    """Give all adapters random weights: B starts at zero, so that new ones change nothing."""
    generator = torch.Generator().manual_seed(1)
    for name in base.adapters:
        for tensor in base.parameters(name).values():
            tensor.data = 0.3 * torch.randn(tensor.shape, generator=generator)


def windowed_model():
    """Return a model whose layers look back only five tokens."""
    torch.manual_seed(0)
    config = MistralConfig(vocab_size=259, num_key_value_heads=2, sliding_window=5, **SHAPE)
    model = MistralForCausalLM(config).eval().requires_grad_(False)
    return Pretrained("windowed", "", model, byte_tokenizer())


def watch_passes(monkeypatch, seen):
    """Call `seen(tokens, seen_by)` before every pass of generation."""

    def watched(trunk, tokens, positions, seen_by):
        seen(tokens, seen_by)
        return run(trunk, tokens, positions, seen_by)

    for module in (continuous_batching, decode_step):
        monkeypatch.setattr(module, "run", watched)
