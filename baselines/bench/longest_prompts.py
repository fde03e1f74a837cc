"""Check that every prompt of an arm fits into its window, before anything is trained."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from baselines.experiment.experiment import Experiment
from marft_agents.models.chat_template import encode
from marft_agents.models.context_window import ContextOverflowError
from marft_agents.models.pretrained import load_tokenizer
from marft_agents.policies.partners import models_of


def check_prompts(experiment: Experiment, env: Any, options: Sequence[Mapping[str, Any]]) -> None:
    """Play problems with actions that are read as many tokens; nothing is loaded but tokenizers.

    Args:
        experiment: Experiment whose window in tokens holds a prompt and its action together.
        env: AEC environment of the experiment.
        options: Reset options of the problems.

    Raises:
        ContextOverflowError: A prompt leaves no room for the longest action; the message names the agent.
    """
    allowed, window = experiment.sampling.max_new_tokens, experiment.context.context_window
    assert window is not None  # the bench sets it
    models = models_of(env.possible_agents, experiment.models)
    tokenizers = {agent: load_tokenizer(model.source) for agent, model in models.items() if model.local}
    said = _longest_action(tokenizers.values(), allowed)
    for option in options:
        env.reset(seed=option.get("seed", 0), options={k: v for k, v in option.items() if k != "seed"})
        while not any(env.terminations.values()) and not any(env.truncations.values()):
            agent = env.agent_selection
            if agent in tokenizers:
                found = len(encode(tokenizers[agent], env.observe(agent)).ids)
                if found + allowed > window:
                    raise ContextOverflowError(
                        f"context_window = {window}: a prompt of {agent} has {found} tokens and its action {allowed}; "
                        f"wanted a window of at least {found + allowed}, or shorter problems"
                    )
            env.step(said)


def _longest_action(tokenizers: Iterable[Any], allowed: int) -> str:
    """Return a text of `allowed` sampled tokens that is read as many tokens.

    A token that ends within a character is decoded as a replacement mark, and read again as more than one token.
    """
    words, marks = " ".join(["word"] * allowed), "\ufffd " * allowed
    for tokenizer in tokenizers:
        count_words, count_marks = (
            len(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in (words, marks)
        )
        if count_marks > count_words:
            return marks
    return words
