"""Models of the GPU benchmark: random weights in the shapes of published models, and one pretrained model.

Random weights need no download. A shape has the widths, depth and vocabulary of the published model, and therefore its
cost. Random weights practically never sample the end token, so all actions reach the length limit.
"""

from __future__ import annotations

import itertools
import string
from dataclasses import dataclass
from typing import Any

import torch

from marft_agents.models.pretrained import Pretrained, dtype_on, load
from marft_agents.models.random_models import byte_tokenizer


@dataclass(frozen=True)
class Shape:
    """Shape of a model to measure.

    Attributes:
        name: Name of the published model.
        width: Hidden size; 0 for a pretrained model that `pretrained.load` knows by this name.
        inner: Width of the feed-forward layers.
        layers: Number of transformer blocks.
        heads: Number of query heads per block.
        kv_heads: Number of key-value heads per block.
        vocabulary: Number of tokens in the vocabulary.
    """

    name: str
    width: int = 0
    inner: int = 0
    layers: int = 0
    heads: int = 0
    kv_heads: int = 0
    vocabulary: int = 151_936

    def build(self, device: torch.device, dtype: torch.dtype | None = None) -> Pretrained:
        """Return the frozen model with its tokenizer on a device; `dtype` defaults to bfloat16 on CUDA."""
        if not self.width:
            return load(self.name, device=device, dtype=dtype)
        tokenizer = shaped_tokenizer(self.vocabulary)
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []), device:
            torch.manual_seed(0)
            model = self.model(tokenizer, dtype or dtype_on(device))
        model.requires_grad_(False)
        return Pretrained(self.name, "", model.eval(), tokenizer)

    def model(self, tokenizer: Any, dtype: torch.dtype) -> Any:
        """Return a model of this shape with random weights: Qwen2 with tied embeddings, as in Qwen2.5's config.json."""
        from transformers import AutoModelForCausalLM, Qwen2Config

        config = Qwen2Config(
            vocab_size=self.vocabulary,
            hidden_size=self.width,
            intermediate_size=self.inner,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.kv_heads,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
        return AutoModelForCausalLM.from_config(config, dtype=dtype)


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("smollm2-135m"),
        Shape("qwen2.5-0.5b", 896, 4864, 24, 14, 2),
        Shape("qwen2.5-3b", 2048, 11008, 36, 16, 2),
        Shape("tiny", 32, 64, 2, 4, 2, vocabulary=1000),  # to test the benchmark on any machine
    )
}


def shaped_tokenizer(vocabulary: int) -> Any:
    """Return a byte tokenizer with ChatML control tokens, padded to a given vocabulary size.

    Text is encoded as bytes. Words of three characters fill the vocabulary between the bytes and the control tokens;
    encoding never produces them, sampling does.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    plain = byte_tokenizer()
    marks = ["<|im_start|>", "<|im_end|>", "<|pad|>", "<|unk|>"]
    words = map("".join, itertools.product(string.ascii_letters + string.digits, repeat=3))
    symbols = [*sorted(pre_tokenizers.ByteLevel.alphabet())]
    symbols += itertools.islice(words, vocabulary - len(symbols) - len(marks))
    backend = Tokenizer(models.BPE(vocab={symbol: i for i, symbol in enumerate(symbols)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(marks)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token=plain.eos_token,
        pad_token=plain.pad_token,
        unk_token=plain.unk_token,
        chat_template=plain.chat_template,
    )
