"""A frozen base model with the LoRA adapters of several agents.

N agents on one base need the memory of one base. Only the adapters (float32) are trained.
"""

from __future__ import annotations

import bisect
import contextlib
import math
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from marft_agents.models.adapter_stack import AdapterStack
from marft_agents.models.base_settings import AUTO, LoraSettings
from marft_agents.models.chat_template import end_token_ids
from marft_agents.models.gated_mlp import keep_less
from marft_agents.models.model_error import ModelError
from marft_agents.models.pretrained import Pretrained, trunk_of
from marft_agents.models.tree_attention import fast_products, install
from marft_agents.trajectory import Action, IntArray


class AdaptedBase:
    """Frozen base model with several named LoRA adapters.

    PEFT builds attribute names from adapter names, and some of its functions search for them inside longer names. So
    PEFT gets generated names (`adapter_0000`), and agents may have any id.

    Args:
        pretrained: The base model; changed in place (adapters are injected).
        adapters: Names of the adapters to create; any text is allowed.
        lora: Rank, scale and target layers of the adapters.
        seed: Seed of the initial weights. B starts at zero, so the initial policy equals the base model.

    Attributes:
        sessions: Open generation sessions, which keep keys and values computed with the present weights.

    Raises:
        ModelError: The base has no linear layer of the wanted names.
    """

    def __init__(self, pretrained: Pretrained, adapters: Sequence[str], lora: LoraSettings, *, seed: int) -> None:
        from peft import LoraConfig, get_peft_model

        self._peft_names = {adapter: f"adapter_{i:04d}" for i, adapter in enumerate(adapters)}
        install(pretrained.model)
        keep_less(pretrained.model)
        self.name = pretrained.name
        self.trunk_names = pretrained.trunk_names
        self.tokenizer = pretrained.tokenizer
        self.device = pretrained.model.device
        configs = [getattr(pretrained.model, "generation_config", None), pretrained.model.config]
        self.end_ids = end_token_ids(self.tokenizer, *configs)
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
            torch.manual_seed(seed)  # peft samples the initial A from the global generator
            warnings.simplefilter("ignore", FutureWarning)  # peft reads a renamed attribute of transformers
            self.peft = get_peft_model(pretrained.model, config(), adapter_name=self._peft_names[adapters[0]])
            for adapter in adapters[1:]:
                self.peft.add_adapter(self._peft_names[adapter], config())
        for settings in self.peft.peft_config.values():
            settings.base_model_name_or_path = pretrained.published or pretrained.name
            settings.target_modules = sorted(settings.target_modules)  # the order of a set differs between processes
        self.peft.eval()  # no dropout: the trained distribution must be the sampled one
        self.adapters = tuple(adapters)
        self.sessions = weakref.WeakSet[object]()
        self._stack = AdapterStack(self.peft, self._peft_names)
        self.trunk: Any = trunk_of(pretrained.model)
        self.head: Any = pretrained.model.get_output_embeddings()

    @property
    def hidden_size(self) -> int:
        """Hidden size d of the trunk."""
        return int(self.peft.config.hidden_size)

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the frozen base weights."""
        found: torch.dtype = next(self.trunk.parameters()).dtype
        return found

    def repeats(self, action: Action) -> bool:
        """Return True if re-scoring an action reproduces its recorded log-probs, to float error.

        This is False for samples of another engine and in half precision. In half precision the rounding of a forward
        pass depends on its shape, and the error adds up over the tokens of an action.
        """
        return action.exact and self.dtype == torch.float32

    @contextlib.contextmanager
    def active_adapter(self, adapter: str | None) -> Iterator[None]:
        """Activate one adapter inside a `with` block; None selects the bare base (critic, reference policy)."""
        if adapter is None:
            with self.peft.disable_adapter():
                yield
        else:
            if self.peft.active_adapter != self.peft_name(adapter):
                self.peft.set_adapter(self.peft_name(adapter))
            yield

    def active_adapters(
        self, adapters: Sequence[str | None], sizes: Sequence[int] | None = None
    ) -> contextlib.AbstractContextManager[None]:
        """Activate several adapters in a `with` block, without gradients, as of the last `refresh_adapters`.

        Args:
            adapters: Adapter of each row of a batch, or of each run of rows; None selects the bare base.
            sizes: Rows of each run, in a packed sequence [1, S] or a matrix of hidden states; each adapter has one run.

        Raises:
            FloatingPointError: An adapter held a NaN or an infinite number; see `adapter_number`.
        """
        if len(set(adapters)) == 1:
            return self.active_adapter(adapters[0])
        numbers = [self.adapter_number(adapter) for adapter in adapters]
        if sizes is not None:
            return self._stack.runs(numbers, sizes)
        return self.adapters_of_rows(torch.tensor(numbers, device=self.device)[:, None])

    def adapters_of_rows(self, numbers: Tensor) -> contextlib.AbstractContextManager[None]:
        """Activate one adapter per row in a `with` block, without gradients and without a copy from the host.

        Args:
            numbers: `adapter_number` of each row, int64, on the device of the base; [B, 1] for a batch [B, S].
        """
        return self._stack.rows(numbers)

    def adapter_number(self, adapter: str | None) -> int:
        """Return the number of an adapter in `adapters_of_rows`; None selects the bare base.

        Raises:
            FloatingPointError: The adapter held a NaN or an infinite number at the last refresh. Rows of other adapters
                are not affected.
        """
        return self._stack.number(adapter)

    def refresh_adapters(self) -> None:
        """Let passes with several adapters see their present weights; call it after each change of them."""
        self._stack.refresh()

    def backward(self, loss: Tensor) -> None:
        """Add the gradients of a loss, with products as fast as those of its forward pass."""
        with fast_products(self.dtype, self.device):
            loss.backward()

    def recompute_layers(self, share: float, *, spared: int = 0) -> None:
        """Turn on activation checkpointing for a share of the layers, spread evenly over the trunk.

        Of these only the inputs are stored, and the backward pass computes them again. A model that cannot do so stays
        as it is.

        Args:
            share: Share of the layers, 0 to 1.
            spared: Tokens of a pass up to which nothing is computed again.
        """
        if not getattr(self.trunk, "supports_gradient_checkpointing", False):
            return
        older = "gradient_checkpointing_enable"  # its older name in transformers
        enable = getattr(self.trunk, "activation_checkpointing_enable", None) or getattr(self.trunk, older)
        enable({"use_reentrant": False})
        parts = (module for module in self.trunk.modules() if module is not self.trunk)
        for number, layer in enumerate(part for part in parts if getattr(part, "gradient_checkpointing", False)):
            layer.gradient_checkpointing = math.floor((number + 1) * share) > math.floor(number * share)
            layer.training = layer.gradient_checkpointing  # transformers checkpoints in training mode only
            layer._gradient_checkpointing_func = partial(_checkpointed, layer, spared)

    def action(
        self,
        prompt_ids: IntArray,
        token_ids: Sequence[int],
        logprobs: Sequence[float],
        support: tuple[IntArray, ...] | None = None,
        *,
        exact: bool = True,
    ) -> Action:
        """Build the `Action` record of sampled tokens; its text excludes the end token."""
        return Action(
            text=self.text_of(token_ids),
            prompt_ids=prompt_ids,
            token_ids=np.asarray(token_ids, np.int32),
            logprobs=np.asarray(logprobs, np.float32),
            stopped=token_ids[-1] in self.end_ids,
            support=support,
            exact=exact,
        )

    def stops(self, token_ids: Sequence[int], stop: Sequence[str]) -> bool:
        """Return True if the text of sampled tokens holds one of some texts."""
        text = self.tokenizer.decode(token_ids, skip_special_tokens=True)
        return any(mark in text for mark in stop)

    def cut(self, action: Action, limit: int | None, stop: Sequence[str]) -> Action:
        """Return an action as if it had been sampled with a lower token limit, and up to the first of some texts.

        The log-probs of the tokens that are left are exact, since no later token has changed them.

        Args:
            action: The sampled action.
            limit: Most tokens; None: no limit.
            stop: Texts that end it. It keeps the fewest tokens whose text holds one, and its text stops before that.
        """
        tokens = action.token_ids[:limit].tolist()
        ended = None
        if stop and self.stops(tokens, stop):
            sizes = range(1, len(tokens) + 1)
            ended = 1 + bisect.bisect_left(sizes, True, key=lambda count: self.stops(tokens[:count], stop))
        count = len(tokens) if ended is None else ended
        if not count or (ended is None and count == len(action.token_ids)):
            return action
        support = None if action.support is None else action.support[:count]
        kept = self.action(action.prompt_ids, tokens[:count], action.logprobs[:count].tolist(), support)
        text, stopped = kept.text, kept.stopped
        if ended is not None:
            text, stopped = text[: min(text.find(mark) for mark in stop if mark in text)], True
        ids, logprobs = kept.token_ids, kept.logprobs
        return replace(action, text=text, token_ids=ids, logprobs=logprobs, support=support, stopped=stopped)

    def text_of(self, token_ids: Sequence[int] | IntArray) -> str:
        """Return the text of sampled tokens, at least one, without the end token."""
        said = token_ids[:-1] if token_ids[-1] in self.end_ids else token_ids
        text: str = self.tokenizer.decode(said, skip_special_tokens=True)
        return text

    def parameters(self, adapter: str) -> dict[str, nn.Parameter]:
        """Return the float32 parameters of one adapter by name."""
        ending = f".{self.peft_name(adapter)}.weight"  # ....lora_A.adapter_0000.weight
        return {name: p for name, p in self.peft.named_parameters() if name.endswith(ending)}

    def peft_name(self, adapter: str) -> str:
        """Return PEFT's internal name of an adapter."""
        return self._peft_names[adapter]

    def lora_config(self, adapter: str) -> Any:
        """Return PEFT's configuration of one adapter."""
        return self.peft.peft_config[self.peft_name(adapter)]


def _checkpointed(layer: nn.Module, spared: int, call: Callable[..., Any], *inputs: Any) -> Any:
    """Call a layer in eval mode, without dropout, and let the backward pass recompute it for more than `spared` tokens.

    It draws no random numbers, so their state is not saved.
    """

    def run(*given: Any) -> Any:
        layer.training = False
        try:
            return call(*given)
        finally:
            layer.training = True

    if not torch.is_grad_enabled() or inputs[0].shape[:-1].numel() <= spared:  # hidden states [B, S, d]
        return run(*inputs)
    return checkpoint(run, *inputs, use_reentrant=False, preserve_rng_state=False)


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
