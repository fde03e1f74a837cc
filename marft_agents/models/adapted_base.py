"""A frozen base model that carries the LoRA adapters of several agents.

N agents on one base cost one base in memory. Only the adapters (float32) are trained.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from marft_agents.models.chat_template import end_token_ids
from marft_agents.models.gated_mlp import keep_less
from marft_agents.models.pretrained import ModelError, Pretrained
from marft_agents.models.tree_attention import install
from marft_agents.setting_fields import check_knobs, knob
from marft_agents.trajectory import Action, IntArray

AUTO = ("auto",)  # LoRA targets that suit the model


@dataclass(frozen=True)
class LoraSettings:
    """Shape of the adapters (LoRA, arXiv 2106.09685)."""

    rank: int = knob(8, "r of the low-rank update", lambda value: value >= 1, ">= 1")
    alpha: int = knob(16, "the update is scaled by alpha / rank", lambda value: value > 0, "> 0")
    targets: tuple[str, ...] = knob(
        AUTO,
        "linear layers that get an adapter; auto: q_proj and v_proj, of `tiny` all of them and the head",
        lambda value: len(value) > 0,
        "at least one name",
    )

    def __post_init__(self) -> None:
        check_knobs(self)


class AdaptedBase:
    """One frozen base model that carries the LoRA adapters of several agents.

    PEFT makes attribute names of its adapters' names, and some of its functions look for them inside longer names. So
    it gets names of its own, whatever the agents are called.

    Args:
        pretrained: the base; it is changed in place (adapters are injected).
        adapters: names of the adapters to create, any text.
        lora: their shape.
        seed: of their initial values; B starts at zero, so the first policy is the base itself.

    Raises:
        ModelError: the base has no linear layer of the wanted names.
    """

    def __init__(self, pretrained: Pretrained, adapters: Sequence[str], lora: LoraSettings, *, seed: int) -> None:
        from peft import LoraConfig, get_peft_model

        self._peft_names = {adapter: f"adapter_{i:04d}" for i, adapter in enumerate(adapters)}
        install(pretrained.model)
        keep_less(pretrained.model)
        self.name = pretrained.name
        self.tokenizer = pretrained.tokenizer
        self.device = pretrained.model.device
        self.end_ids = end_token_ids(self.tokenizer)
        targets = pretrained.lora_targets if lora.targets == AUTO else lora.targets
        _check_targets(pretrained, targets)

        def config() -> Any:
            return LoraConfig(
                r=lora.rank,
                lora_alpha=lora.alpha,
                target_modules=list(targets),
                lora_dropout=0.0,
                task_type="CAUSAL_LM",
            )

        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            torch.manual_seed(seed)  # peft draws the initial A from the global generator
            warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers by an attribute's old name
            self.peft = get_peft_model(pretrained.model, config(), adapter_name=self._peft_names[adapters[0]])
            for adapter in adapters[1:]:
                self.peft.add_adapter(self._peft_names[adapter], config())
        for settings in self.peft.peft_config.values():
            settings.base_model_name_or_path = pretrained.published or pretrained.name
            settings.target_modules = sorted(settings.target_modules)  # of a set, each process would save its own order
        self.peft.eval()  # no dropout: the law that is trained is the law that was sampled
        self.adapters = tuple(adapters)
        self.trunk: Any = getattr(pretrained.model, pretrained.model.base_model_prefix)
        self.head: Any = pretrained.model.get_output_embeddings()

    @property
    def hidden_size(self) -> int:
        """Width d of the trunk."""
        return int(self.peft.config.hidden_size)

    @property
    def dtype(self) -> torch.dtype:
        """Type of the frozen weights."""
        found: torch.dtype = next(self.trunk.parameters()).dtype
        return found

    def repeats(self, action: Action) -> bool:
        """Return whether scoring says of an action what was recorded, to float error.

        It does not of another engine's samples, nor in half precision: there the rounding of a pass depends on its
        shape, and over the tokens of an action it adds up.
        """
        return action.exact and self.dtype == torch.float32

    @contextlib.contextmanager
    def wearing(self, adapter: str | None) -> Iterator[None]:
        """Run the base with one adapter; None means the bare base (critic, reference policy)."""
        if adapter is None:
            with self.peft.disable_adapter():
                yield
        else:
            if self.peft.active_adapter != self.peft_name(adapter):
                self.peft.set_adapter(self.peft_name(adapter))
            yield

    @contextlib.contextmanager
    def wearing_each(self, adapters: Sequence[str | None]) -> Iterator[None]:
        """Run a batch each row of which wears its own adapter, without gradients."""
        if len(set(adapters)) == 1:
            with self.wearing(adapters[0]):
                yield
            return
        bare = "__base__"  # PEFT's name of the base without an adapter
        names = [bare if adapter is None else self.peft_name(adapter) for adapter in adapters]
        hooks = self.peft.base_model._enable_peft_forward_hooks(adapter_names=names)  # what its generate() does
        hooks.__enter__()
        try:
            yield
        finally:
            hooks.__exit__(None, None, None)  # told of an exception, peft would leave its hooks behind

    def recompute_layers(self) -> None:
        """From now on keep of each layer its input only, and compute it again in the backward pass (less memory)."""
        older = "gradient_checkpointing_enable"  # its older name
        enable = getattr(self.trunk, "activation_checkpointing_enable", None) or getattr(self.trunk, older)
        enable({"use_reentrant": False})
        for module in self.trunk.modules():
            if getattr(module, "gradient_checkpointing", False):
                module.training = True  # it asks for this; what is in it stays as it is, without dropout

    def action(
        self,
        prompt_ids: IntArray,
        token_ids: Sequence[int],
        logprobs: Sequence[float],
        support: tuple[IntArray, ...] | None = None,
        *,
        exact: bool = True,
    ) -> Action:
        """Make the record of tokens sampled from this model, see `Action`; an end token is no part of the text."""
        stopped = token_ids[-1] in self.end_ids
        return Action(
            text=self.tokenizer.decode(token_ids[:-1] if stopped else token_ids, skip_special_tokens=True),
            prompt_ids=prompt_ids,
            token_ids=np.asarray(token_ids, np.int32),
            logprobs=np.asarray(logprobs, np.float32),
            stopped=stopped,
            support=support,
            exact=exact,
        )

    def parameters(self, adapter: str) -> dict[str, nn.Parameter]:
        """Return the float32 tensors of one adapter by name."""
        ending = f".{self.peft_name(adapter)}.weight"  # ....lora_A.adapter_0000.weight
        return {name: p for name, p in self.peft.named_parameters() if name.endswith(ending)}

    def peft_name(self, adapter: str) -> str:
        """Return the name by which PEFT knows an adapter."""
        return self._peft_names[adapter]

    def lora_config(self, adapter: str) -> Any:
        """Return PEFT's configuration of one adapter."""
        return self.peft.peft_config[self.peft_name(adapter)]


def _check_targets(pretrained: Pretrained, targets: Sequence[str]) -> None:
    linear = {
        name.rsplit(".", 1)[-1] for name, module in pretrained.model.named_modules() if isinstance(module, nn.Linear)
    }
    missing = [target for target in targets if target not in linear]
    if missing:
        raise ModelError(
            f"model {pretrained.name!r} has no linear layers named {', '.join(missing)}; "
            f"it has {', '.join(sorted(linear))}: set the LoRA targets to some of these"
        )
