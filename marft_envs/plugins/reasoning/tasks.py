"""Problems of one reasoning-gym generator as a `TaskSet`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from envs_data.packages import Package
from marft_envs import JudgedTasks, Outcome, Task, UnknownTaskError, last_outcome
from marft_envs.grading import last_boxed
from marft_envs.plugins.reasoning import client

PACKAGE = Package("reasoning-gym", "reasoning_gym", "0.1.25", "pip install 'marft[reasoning]'")
FILES = ("**/*.py", "data/*.txt", "data/*.csv", "data/*.json")  # what decides the problems of most generators
SHA256 = "ba5e2d4ce0863fba98ccf47fbee2d12e52c5e6b72bd2a4d34a5c7f29bcae8d1a"
_ANAGRAMS = ("data/anagrams.jsonl", "9cb290789625805d269f7c5beb19d0310b7ba231d946db75d52a8d65fb53247c")
LARGE_FILES = {  # with their SHA-256; 10 MB, so only hashed for the generators that read them
    "codeio": ("data/codeio.jsonl.gz", "b7d2e32996e4df15dd673e9222cd890ecf4de555acd900c1371f71b35306896c"),
    "figlet_font": _ANAGRAMS,
    "group_anagrams": _ANAGRAMS,
}
SPLITS = {"train": 0, "test": 2**31}  # the first seed; numpy takes seeds below 2**32
MAX_SEED = 2**31  # of the last problem, so that splits cannot overlap


class ReasoningTasks(JudgedTasks):
    """Procedural problems with their generator's own scorer.

    Args:
        generator: Name of the generator.
        split: "train" or "test"; their seeds do not overlap.
        size: Number of problems.
        seed: Seed of the first problem of the split; the next has the next seed.
        config: Settings of the generator, such as `{"min_terms": 2}`.

    Raises:
        PackageError: reasoning-gym is not installed, in another version, or with other files.
        ValueError: No such split, a size or seed out of range, or settings that the generator refuses.
    """

    def __init__(
        self,
        generator: str,
        split: str = "train",
        *,
        size: int = 500,
        seed: int = 0,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = f"reasoning_{generator}"
        PACKAGE.checked_folder(FILES, SHA256)
        if generator in LARGE_FILES:
            file, sha256 = LARGE_FILES[generator]
            PACKAGE.checked_folder([file], sha256)
        if split not in SPLITS:
            raise ValueError(f"{self.name}: found the split {split!r}, wanted one of {', '.join(SPLITS)}")
        if size < 1 or seed < 0 or seed + size > MAX_SEED:
            raise ValueError(
                f"{self.name}: found size {size} and seed {seed}, wanted size >= 1, seed >= 0 and a sum <= {MAX_SEED}"
            )
        self.split, self.size, self.seed = split, size, seed
        self._first = SPLITS[split] + seed
        settings = {"generator": generator, "seed": self._first, "size": size, "config": json.dumps(config or {})}
        self._place = json.dumps(settings)
        if config:
            _problem(self._place, 0)  # raises if the generator refuses the settings

    @property
    def settings(self) -> dict[str, Any]:
        """Settings for the record of a game."""
        return {"problems": json.loads(self._place), "package": f"{PACKAGE.name}=={PACKAGE.version}"}

    def __len__(self) -> int:
        return self.size

    def __deepcopy__(self, memo: object) -> ReasoningTasks:
        return self

    def __getitem__(self, index: int, /) -> Task:
        if not 0 <= index < self.size:
            raise IndexError(f"{self.name}: no problem {index}; there are 0 to {self.size - 1}")
        question, answer = _problem(self._place, index)
        return Task(f"{self.split}-{self.seed + index}", question, answer, self.split)

    def index(self, task_id: str, /) -> int:
        """Return the index of a problem.

        Raises:
            UnknownTaskError: No such id.
        """
        split, _, number = str(task_id).partition("-")
        index = int(number) - self.seed if number.isdecimal() else -1
        if split != self.split or not 0 <= index < self.size:
            known = (f"{self.split}-{self.seed + place}" for place in range(min(3, self.size)))
            raise UnknownTaskError(task_id, known, self.name)
        return index

    def judge(self, task: Task, answer: str | None, *, round: int, last_round: bool) -> Outcome:
        """Score the marked answer with the generator's own scorer."""
        only_round = round == 0 and last_round
        marked = None if answer is None else read_answer(answer)
        if marked is None:
            return Outcome(0.0, only_round, False, True, verdict="There is no answer in <answer>...</answer>.")
        place = {**json.loads(self._place), "index": self.index(task.id)}
        score = client.score(place, marked)
        detail: dict[str, str | float] = {"extracted": marked, "progress": score or 0.0}
        if score is None:
            detail["reason"] = "scoring took too much time or memory"
        success = score == 1.0
        verdict = f"The answer scores {score or 0.0:.2f} of 1."
        return Outcome(score or 0.0, success or only_round, success, score is None, detail=detail, verdict=verdict)

    def vote(self, outcomes: Sequence[Outcome | None]) -> str | None:
        """Return the last marked answer."""
        last = last_outcome(outcomes)
        extracted = None if last is None else last.detail.get("extracted")
        return None if extracted is None else str(extracted)

    def oracle(self, task: Task, agent: str, observation: Any) -> str:
        """Return the gold answer in the form that is read."""
        return f"<answer>{task.answer}</answer>"


def read_answer(action: str) -> str | None:
    r"""Return the marked answer of an action, without blanks around it; None if there is none.

    Examples:
        >>> read_answer("I add them. <answer> 4 </answer>")
        '4'
        >>> read_answer(r"So it is \boxed{4}.")
        '4'
    """
    end = action.rfind("</answer>")
    start = action.rfind("<answer>", 0, max(end, 0))
    if start >= 0:
        return action[start + len("<answer>") : end].strip()
    boxed = last_boxed(action)
    return None if boxed is None else boxed.strip()


@lru_cache(maxsize=4096)
def _problem(place: str, index: int) -> tuple[str, str]:
    return client.problem({**json.loads(place), "index": index})
