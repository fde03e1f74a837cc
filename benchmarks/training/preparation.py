"""Prepare the models and workloads of the training benchmark.

Every contender loads the same model folder. `prepare` needs a model in memory to score the recorded answers. It runs
in a separate process (`Preparation`), so that it does not affect the measurements.
"""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchmarks.training.workload import Shape, Workload, make_workload


class Preparation:
    """Makes workloads in a separate process, as a context manager.

    Args:
        model: Name of a model that `marft_agents.models.pretrained.load` knows.
        folder: Folder of the workloads, and of models that have no folder yet.
        threads: Number of torch threads.
    """

    def __init__(self, model: str, folder: Path, threads: int) -> None:
        self.model, self.folder = model, folder
        spawned = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(1, spawned, initializer=_set_threads, initargs=(threads,))

    def __enter__(self) -> Preparation:
        return self

    def __exit__(self, *raised: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def workload(self, name: str, shape: Shape) -> Path:
        """Make a workload file and return its path."""
        return self._pool.submit(prepare, self.model, shape, self.folder / f"{name}.json").result()


def _set_threads(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)


def prepare(model: str, shape: Shape, path: Path) -> Path:
    """Make a workload, add the log-probs of its answers and write it; return the path."""
    from transformers import AutoTokenizer
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    folder = model_folder(model, shape.vocabulary, path.parent)
    made = make_workload(AutoTokenizer.from_pretrained(folder), folder, shape)
    return scored(made).save(path)


def scored(workload: Workload) -> Workload:
    """Return the workload with the log-probs of its answers, computed by one forward pass per turn."""
    import torch

    network = _network(workload.model)
    turns = []
    with torch.no_grad():
        for turn in workload.turns:
            answer = torch.tensor(turn.token_ids)
            logits = network(torch.tensor([[*turn.prompt_ids, *turn.token_ids]]), use_cache=False).logits
            picked = logits[0, len(turn.prompt_ids) - 1 : -1].log_softmax(-1).gather(-1, answer[:, None])
            turns.append(replace(turn, logprobs=tuple(picked.squeeze(-1).tolist())))
    return workload.with_turns(turns)


@lru_cache(1)
def _network(folder: str) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


@lru_cache
def model_folder(name: str, vocabulary: int | None, scratch: Path) -> str:
    """Return a model folder for `from_pretrained`.

    Args:
        name: Name of the model.
        vocabulary: Vocabulary size of a random model in the same shape; None returns the model itself.
        scratch: Parent folder for models that have no folder yet.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    from marft_agents.models.pretrained import load

    pretrained = load(name, device=torch.device("cpu"))
    if vocabulary is None and pretrained.source and Path(pretrained.source).is_dir():
        return pretrained.source
    folder = scratch / f"{name}-{vocabulary or 'itself'}"
    network = pretrained.model
    if vocabulary is not None:
        config = AutoConfig.for_model(**{**network.config.to_dict(), "vocab_size": vocabulary})
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            network = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    network.save_pretrained(folder)
    pretrained.tokenizer.save_pretrained(folder)
    return str(folder)
