"""Tiny random models of published families, with chat templates and end tokens that behave as theirs do."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

SMALL = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}
EXPERTS = {"num_local_experts": 2, "num_experts_per_tok": 1}
VISION = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 14,
}

PHI_3 = (
    "{% for m in messages %}<|{{ m['role'] }}|>\n{{ m['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% else %}{{ eos_token }}{% endif %}"
)
PHI_3_MINI = PHI_3.replace("%}<|{{", "%}{% if m['role'] != 'system' %}<|{{", 1).replace(
    "<|end|>\n", "<|end|>\n{% endif %}"
)
PHI_4 = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}<|im_sep|>{{ m['content'] }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant<|im_sep|>{% endif %}"
)
CHATML = PHI_4.replace("<|im_sep|>", "\n").replace("<|im_end|>", "<|im_end|>\n")
LLAMA = (
    "{{ bos_token }}{% for m in messages %}<|start|>{{ m['role'] }}<|stop|>\n\n{{ m['content'] | trim }}<|eot|>"
    "{% endfor %}{% if add_generation_prompt %}<|start|>assistant<|stop|>\n\n{% endif %}"
)
GLM = (
    "[gMASK]<sop>{% for m in messages %}<|{{ m['role'] }}|>\n{{ m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
GEMMA = (
    "{{ bos_token }}{% for m in messages %}<start_of_turn>{{ 'model' if m['role'] == 'assistant' else m['role'] }}\n"
    "{{ m['content'] | trim }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
GEMMA_1 = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}" + GEMMA
)
MISTRAL = (
    "{{ bos_token }}{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{{ '[INST] ' + m['content'] + ' [/INST]' if m['role'] == 'user' else m['content'] + eos_token }}{% endfor %}"
)


@dataclass(frozen=True)
class Family:
    """A family of published models.

    Attributes:
        model: Name of its model class in transformers; with its own kind of configuration.
        template: Chat template.
        symbols: Special tokens; the first is the tokenizer's end-of-sequence token.
        ends: Symbols that end an action; the last one closes an answer.
        listed: Symbols that config.json and generation_config.json list as end-of-sequence.
        system: True if the template shows a system message.
        config: Further settings of the (text) configuration.
        parts: Settings of a configuration of several parts around the one for text; None: there is only text.
        refused: Part of the message with which it is refused; "": it plays.
    """

    model: str
    template: str
    symbols: tuple[str, ...]
    ends: tuple[str, ...]
    listed: tuple[str, ...] = ()
    system: bool = True
    config: dict = field(default_factory=dict)
    parts: dict | None = None
    refused: str = ""

    @property
    def closing(self):
        """Symbol that closes an answer in training."""
        return self.ends[-1]


def chat_tokenizer(symbols, template):
    """Return a byte-level tokenizer with special tokens, of which the first is that of the end of a sequence."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE(vocab={symbol: i for i, symbol in enumerate(alphabet)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(list(symbols))
    bos = next((symbol for symbol in symbols if symbol in ("<s>", "<bos>")), None)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token=symbols[0], bos_token=bos, pad_token=symbols[0], chat_template=template
    )


def save_family(family, folder):
    """Save a tiny random model of a family as its publishers do; return its folder."""
    tokenizer = chat_tokenizer(family.symbols, family.template)
    listed = tokenizer.convert_tokens_to_ids(list(family.listed)) or None
    special = {"pad_token_id": tokenizer.pad_token_id, "bos_token_id": tokenizer.bos_token_id, "eos_token_id": listed}
    text = SMALL | special | {"vocab_size": len(tokenizer)} | family.config
    kind = getattr(transformers, family.model)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        given = text if family.parts is None else {"text_config": text, **family.parts}
        model = kind(kind.config_class(**given))
    model.generation_config.eos_token_id = listed
    model.save_pretrained(Path(folder))
    tokenizer.save_pretrained(Path(folder))
    return str(folder)


_PHI = ("<|endoftext|>", "<|assistant|>", "<|system|>", "<|end|>", "<|user|>")
_GEMMA = ("<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>")
_LLAMA = ("<|end_of_text|>", "<s>", "<|start|>", "<|stop|>", "<|eom|>", "<|eot|>")
_LLAMA_ENDS = ("<|end_of_text|>", "<|eom|>", "<|eot|>")
_CHATML = ("<|im_end|>", "<|im_start|>", "<|endoftext|>")
_GLM = ("<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>")
_GLM_ENDS = ("<|endoftext|>", "<|observation|>", "<|user|>")

FAMILIES = {
    "phi-3.5": Family("Phi3ForCausalLM", PHI_3, _PHI, ("<|endoftext|>", "<|end|>"), ("<|endoftext|>", "<|end|>")),
    "phi-3-mini": Family("Phi3ForCausalLM", PHI_3_MINI, _PHI, ("<|endoftext|>", "<|end|>"), system=False),
    "phi-4": Family(
        "Phi3ForCausalLM",
        PHI_4,
        ("<|endoftext|>", "<|im_start|>", "<|im_sep|>", "<|im_end|>"),
        ("<|endoftext|>", "<|im_end|>"),
        ("<|endoftext|>",),
    ),
    "llama-3": Family("LlamaForCausalLM", LLAMA, _LLAMA, _LLAMA_ENDS, _LLAMA_ENDS),
    "llama-4": Family("Llama4ForCausalLM", LLAMA, _LLAMA, _LLAMA_ENDS, _LLAMA_ENDS),
    "glm-4": Family("Glm4ForCausalLM", GLM, _GLM, _GLM_ENDS, _GLM_ENDS),
    "gemma-1": Family("GemmaForCausalLM", GEMMA_1, _GEMMA, ("<eos>", "<end_of_turn>"), ("<eos>",), system=False),
    "gemma-2": Family(
        "Gemma2ForCausalLM", GEMMA_1, _GEMMA, ("<eos>", "<end_of_turn>"), ("<eos>",), system=False, refused="softcap"
    ),
    "gemma-3": Family("Gemma3ForCausalLM", GEMMA, _GEMMA, ("<eos>", "<end_of_turn>"), ("<eos>", "<end_of_turn>")),
    "gemma-3 with vision": Family(
        "Gemma3ForConditionalGeneration",
        GEMMA,
        (*_GEMMA, "<image>", "<boi>", "<eoi>"),
        ("<eos>", "<end_of_turn>"),
        ("<eos>", "<end_of_turn>"),
        parts={"vision_config": VISION, "mm_tokens_per_image": 4, "image_token_index": 260},
    ),
    "gemma-4": Family(
        "Gemma4ForConditionalGeneration",
        GEMMA,
        _GEMMA,
        ("<eos>", "<end_of_turn>"),
        ("<eos>", "<end_of_turn>"),
        config={"vocab_size_per_layer_input": 260, "hidden_size_per_layer_input": 8, "sliding_window": 64},
        parts={"vision_config": VISION},
    ),
    "llama-4 with vision": Family(
        "Llama4ForConditionalGeneration",
        LLAMA,
        _LLAMA,
        _LLAMA_ENDS,
        _LLAMA_ENDS,
        parts={"vision_config": VISION | {"num_hidden_layers": 1, "vision_output_dim": 16}},
    ),
    "mistral-0.1": Family("MistralForCausalLM", MISTRAL, ("</s>", "<s>"), ("</s>",), ("</s>",), system=False),
    "mixtral": Family(
        "MixtralForCausalLM", MISTRAL, ("</s>", "<s>"), ("</s>",), ("</s>",), system=False, config=EXPERTS
    ),
    "mistral-3": Family(
        "Mistral3ForConditionalGeneration", CHATML, _CHATML, ("<|im_end|>",), parts={"vision_config": VISION}
    ),
    "qwen-2.5": Family("Qwen2ForCausalLM", CHATML, _CHATML, ("<|endoftext|>", "<|im_end|>"), _CHATML[::2]),
    "qwen-3": Family("Qwen3ForCausalLM", CHATML, _CHATML, ("<|endoftext|>", "<|im_end|>"), _CHATML[::2]),
    "qwen-3-moe": Family(
        "Qwen3MoeForCausalLM",
        CHATML,
        _CHATML,
        ("<|im_end|>",),
        config={"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 8},
    ),
    "qwen-2.5 with vision": Family(
        "Qwen2_5_VLForConditionalGeneration",
        CHATML,
        _CHATML,
        ("<|im_end|>",),
        parts={"vision_config": VISION | {"depth": 1, "num_heads": 2, "out_hidden_size": 32}},
        refused="has several parts, and transformers has no language model of its part for text alone",
    ),
    "smollm-3": Family("SmolLM3ForCausalLM", CHATML, _CHATML, ("<|im_end|>",)),
    "olmo-2": Family("Olmo2ForCausalLM", CHATML, _CHATML, ("<|im_end|>",)),
    "granite": Family(
        "GraniteForCausalLM",
        CHATML,
        _CHATML,
        ("<|im_end|>",),
        config={"logits_scaling": 8.0},
        refused="scales its logits",
    ),
    "gpt-oss": Family("GptOssForCausalLM", CHATML, _CHATML, ("<|im_end|>",), config=EXPERTS, refused="s_aux"),
}
