"""Features of text from a frozen local model, for algorithms with small networks."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from marft_agents.models.pretrained import ModelError, Pretrained, context_length, load, trunk_of

Features = NDArray[np.float32]
# Their mean and standard deviation are removed from all features. The hidden states of language models share one large
# direction, so that without this the features of any two texts are nearly parallel.
REFERENCES = (
    *("0", "42", "2 + 2 = 4", "\\boxed{5}", "The answer is 7.", "We have 3 apples and buy 5 more."),
    *("Yes.", "No, that is wrong.", "left", "Who is there?", "Stop here and wait for me."),
    *("Please write the label.", "I think that the second one is cheaper.", "A short story about a river and a town."),
    *("def f(x):\n    return x + 1", '{"name": "read", "arguments": {"key": 1}}'),
)


class FrozenFeatures:
    """Mean of the last hidden layer of a local model over the tokens of a text, cached by text.

    Each component is standardised over `REFERENCES`. The weights get no gradient. `BlockObservation` of `marft_envs`
    takes an object of this class as its `embed`, and so does any other code that wants a function of text.

    Args:
        model: Name of a local model as for `pretrained.load`, or a loaded one.
        cached: Number of texts whose features are kept, at least 1; the oldest is dropped first.

    Attributes:
        size: Components of the features, the hidden size of the model.

    Raises:
        ModelError: No local model has this name, or `model` is something else, such as a policy of a server.
        ValueError: `cached` is less than 1.

    Examples:
        >>> features = FrozenFeatures("tiny")
        >>> features("two cups").shape == (features.size,), bool(features("").any())
        (True, False)
    """

    def __init__(self, model: str | Pretrained = "smollm2-135m", *, cached: int = 16_384) -> None:
        if not isinstance(model, str | Pretrained):
            raise ModelError(
                f"model: found {type(model).__name__}, wanted the name of a local model or a loaded one: features are "
                "hidden states, and neither servers nor scripted policies give any"
            )
        if cached < 1:
            raise ValueError(f"cached: found {cached}, wanted at least 1")
        loaded = load(model) if isinstance(model, str) else model
        self._trunk, self._tokenizer = trunk_of(loaded.model), loaded.tokenizer
        self._longest = context_length(loaded.model.config)
        self._cached = cached
        self._known: dict[str, Features] = {}
        # The state of the first token is far from all others, so a token that is not counted goes first.
        first = self._tokenizer.bos_token_id
        self._first = int(self._tokenizer.eos_token_id if first is None else first)
        references = np.stack([self._mean_state(text) for text in REFERENCES])
        self._mean = references.mean(axis=0)
        self._spread = np.maximum(references.std(axis=0), 1e-6)
        self.size = int(self._mean.size)

    def __call__(self, text: str) -> Features:
        """Return the features of a text, float32 [size], not to be written to; the empty one is all zeros.

        Raises:
            ValueError: The text is longer than the model's context.
        """
        if text not in self._known:
            found = (self._mean_state(text) - self._mean) / self._spread if text else np.zeros(self.size, np.float32)
            found.setflags(write=False)
            if len(self._known) >= self._cached:
                del self._known[next(iter(self._known))]
            self._known[text] = found
        return self._known[text]

    @torch.inference_mode()
    def _mean_state(self, text: str) -> Features:
        ids: Any = self._tokenizer(str(text), add_special_tokens=False)["input_ids"]
        if self._longest is not None and len(ids) >= self._longest:
            raise ValueError(
                f"a text of {len(ids)} tokens does not fit into the model's context of {self._longest}: shorten it, "
                "or let the game show less (`communication`, `window`)"
            )
        states = self._trunk(torch.tensor([[self._first, *ids]], device=self._trunk.device)).last_hidden_state
        mean: Features = states[0, 1:].float().mean(dim=0).cpu().numpy()
        return mean
