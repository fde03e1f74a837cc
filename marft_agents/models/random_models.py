"""Random, untrained Llama models by name: `tiny` for tests of any text, `tiny-words` for probe games.

They need no download, and their weights are the same every time. `tiny` has two layers and a byte tokenizer of 260
tokens. `tiny-words` has one layer and a word-level tokenizer of 24 tokens: it learns games of few words from rewards
alone, where exploring bytes would take too long. `tiny-words:WORD WORD ...` is the same model with words of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# ChatML without roles: what a text means has to be learned anyway
_WORDS_ONLY = (
    "{% for message in messages %}<|im_start|> {{ message['content'] }} <|im_end|> {% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>{% endif %}"
)
_SPECIAL_WORDS = ("<unk>", "<|im_start|>", "<|im_end|>")
WORDS = (*"01234", *"abcdefghijk", "digit", "topic", "value", "heard", "?")
LINEAR_LAYERS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


@dataclass(frozen=True)
class RandomModel:
    """Recipe of a random Llama.

    Attributes:
        config: Returns its transformers configuration.
        tokenizer: Returns its tokenizer.
        lora_targets: Linear layers that get an adapter unless the settings name others.
        head_std: Standard deviation of the head's weights: how peaked the untrained policy is. None: that of the
            configuration.
    """

    config: Callable[[], Any]
    tokenizer: Callable[[], Any]
    lora_targets: tuple[str, ...]
    head_std: float | None = None

    def model(self, seed: int = 0) -> Any:
        """Return the model; the weights are a function of the seed alone."""
        import torch
        from transformers import LlamaForCausalLM

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = LlamaForCausalLM(self.config())
            if self.head_std is not None:
                torch.nn.init.normal_(model.lm_head.weight, std=self.head_std)
        return model


def word_level(
    words: Sequence[str] = WORDS, *, hidden: int = 64, layers: int = 1, head_std: float = 0.15, positions: int = 512
) -> RandomModel:
    """Return the recipe of a random Llama whose tokens are words between blanks; pad = eos, as in SmolLM2.

    Args:
        words: Its words; all others are one unknown token.
        hidden: Width of the model, a multiple of 4.
        layers: Number of transformer blocks.
        head_std: Standard deviation of the weights of the head.
        positions: Context window in tokens.
    """
    symbols = [*_SPECIAL_WORDS, *words]

    def config() -> Any:
        from transformers import LlamaConfig

        return LlamaConfig(
            vocab_size=len(symbols),
            hidden_size=hidden,
            intermediate_size=2 * hidden,
            num_hidden_layers=layers,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=positions,
            tie_word_embeddings=False,
            initializer_range=hidden**-0.5,
            bos_token_id=None,
            eos_token_id=2,
            pad_token_id=2,
        )

    return RandomModel(config, lambda: _word_tokenizer(symbols), LINEAR_LAYERS, head_std)


def _word_tokenizer(symbols: Sequence[str]) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.WordLevel({word: i for i, word in enumerate(symbols)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.add_special_tokens(list(_SPECIAL_WORDS))
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        unk_token="<unk>",
        eos_token="<|im_end|>",
        pad_token="<|im_end|>",
        chat_template=_WORDS_ONLY,
    )


def byte_tokenizer() -> Any:
    """Return a byte-level ChatML tokenizer of 260 tokens: 256 bytes, <|im_start|>, <|im_end|>, <|pad|>, <|unk|>."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {symbol: i for i, symbol in enumerate(alphabet)}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<|im_start|>", "<|im_end|>", "<|pad|>", "<|unk|>"])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token="<|im_end|>",
        pad_token="<|pad|>",
        unk_token="<|unk|>",
        chat_template=_CHATML,
    )


def _tiny_config() -> Any:
    from transformers import LlamaConfig

    return LlamaConfig(
        vocab_size=260,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        bos_token_id=None,
        eos_token_id=257,
        pad_token_id=258,
    )


RANDOM_MODELS: Mapping[str, RandomModel] = {
    # Its logits are at most about 0.6: adapters on q_proj and v_proj alone would leave it nearly uniform.
    "tiny": RandomModel(_tiny_config, byte_tokenizer, (*LINEAR_LAYERS, "lm_head")),
    "tiny-words": word_level(),
}
OWN_WORDS = "tiny-words:"


def random_model(name: str) -> RandomModel | None:
    """Return the recipe of a random model by its name; None for any other name.

    Args:
        name: A key of `RANDOM_MODELS`, or "tiny-words:" with words between blanks.
    """
    if not name.startswith(OWN_WORDS):
        return RANDOM_MODELS.get(name)
    words = dict.fromkeys(name.removeprefix(OWN_WORDS).split())
    return word_level([word for word in words if word not in _SPECIAL_WORDS], positions=4096)
