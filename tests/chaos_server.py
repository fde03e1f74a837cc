"""Serve the tests' fake vLLM in a process of its own, which `tests/chaos.py` kills.

    PYTHONPATH=. python tests/chaos_server.py FOLDER PORT

The model `tiny-words` is written to FOLDER if it is not there. Answers are late, so that most kills hit a batch.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch

from marft_agents.models.pretrained import load
from tests.helpers import fake_vllm

LATE_S = 0.05


class LateServer(fake_vllm.Server):
    """A server that takes its time for a completion."""

    def completion(self, body):
        """Answer late."""
        time.sleep(LATE_S)
        return super().completion(body)


def main(folder: Path, port: int) -> None:
    """Serve until killed."""
    torch.set_num_threads(1)
    if not folder.exists():
        words = load("tiny-words", device=torch.device("cpu"))
        words.model.save_pretrained(folder)
        words.tokenizer.save_pretrained(folder)
    with LateServer(str(folder), port=port) as server:
        server.serve_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
