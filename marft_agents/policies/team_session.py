"""Session of a team of language models: games join and leave a running batch."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from marft_agents.generation.continuous_batching import Generation, Prompt
from marft_agents.models.adapted_base import AdaptedBase
from marft_agents.models.context_window import ContextOverflowError
from marft_agents.policies.policy import Request, failed_action
from marft_agents.trajectory import Action, Shortening

if TYPE_CHECKING:
    from marft_agents.policies.language_model import LanguageModelTeam


class TeamSession:
    """Policies of a team for some episodes, during which its weights do not change; a `RunningPolicy`.

    It keeps keys and values of prompts, within the team's memory for them.

    Args:
        team: The team; no remote agents.
    """

    def __init__(self, team: LanguageModelTeam) -> None:
        self._team = team
        self._caches = {base: team.prompt_cache(base) for base in team.bases}
        self._engines = contextlib.ExitStack()
        self._generations: dict[AdaptedBase, Generation] = {}
        self._numbers = itertools.count()
        self._running: dict[tuple[AdaptedBase, int], tuple[int, tuple[Shortening, ...]]] = {}
        self._failed: list[tuple[int, Action]] = []
        self._lock = threading.Lock()
        for base in team.bases:
            base.sessions.add(self)

    def act(self, requests: Sequence[Request]) -> list[Action]:
        """Return one action per request, in order, in a batch of their own."""
        return self._team.answer(requests, partial(self._team.generate, caches=self._caches))

    def submit(self, requests: Sequence[Request]) -> list[int]:
        """Queue requests, from any thread; return the numbers under which `advance` will return their actions.

        Raises:
            ContextOverflowError: A prompt is too long, and `overflow` is "error".
        """
        return [self._submit(request) for request in requests]

    def _submit(self, request: Request) -> int:
        number = next(self._numbers)
        local = self._team.local_agent(request.agent)
        try:
            prompt = self._team.prompt(request.agent, request.observation)
        except ContextOverflowError as error:
            if self._team.context.overflow == "error":
                raise
            self._failed.append((number, failed_action(str(error))))
            return number
        with self._lock:
            if local.base not in self._generations:
                engine = self._engines.enter_context(self._team.borrowed_engine(local.base))
                self._generations[local.base] = Generation(
                    local.base, self._team.sampling, cache=self._caches[local.base], engine=engine
                )
            asked = Prompt(prompt.ids, request.generator, local.adapter, request.limit, request.stop)
            row = self._generations[local.base].submit(asked)
            self._running[local.base, row] = number, prompt.shortened
        return number

    def advance(self) -> list[tuple[int, Action]]:
        """Run a step of each base; return the actions that have ended, each with its number."""
        ended, self._failed = self._failed, []
        for base, generation in list(self._generations.items()):
            if not generation.busy:
                continue
            for row, action in generation.step():
                with self._lock:
                    number, shortened = self._running.pop((base, row))
                ended.append((number, replace(action, shortened=shortened) if shortened else action))
        return ended

    def close(self) -> None:
        """Drop what runs, and give the engines and their memory back."""
        self._generations.clear()
        self._caches.clear()
        self._engines.close()
        for base in self._team.bases:
            base.sessions.discard(self)
