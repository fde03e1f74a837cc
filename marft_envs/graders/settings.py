"""Settings of the `grader=` of an environment: which grader, what it sees, and what it may cost.

| Form | Grader |
|---|---|
| `"text"`, `"number"` | `StringGrader`, `NumericGrader`, on the last box of the answer |
| `"my_module:function"` | `FunctionGrader`: a function of answer and task |
| `"endpoint:URL"` | `EndpointGrader` |
| `"model:URL#NAME"` | `ModelGrader` on the model NAME of an OpenAI-compatible endpoint |
| a mapping, or the path of a TOML file | the fields of `GraderSettings` |
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from marft_common.close_names import close_or_all, did_you_mean
from marft_common.import_paths import imported
from marft_common.user_settings import headers_from_environment, read_toml
from marft_envs.graders.base import FunctionGrader, Grader, LastBox, NumericGrader, StringGrader
from marft_envs.graders.endpoint import EndpointGrader
from marft_envs.graders.metered import MeteredGrader
from marft_envs.graders.model import ChatEndpoint, ModelGrader

NAMES: Mapping[str, Callable[[], Grader]] = {"text": StringGrader, "number": NumericGrader}
REMOTE = ("endpoint", "model")
TOKEN_LIMITS = ("max_tokens", "max_completion_tokens")


class GraderError(ValueError):
    """A grader that cannot be used; says where, what was found and what was wanted."""


@dataclass(frozen=True)
class GraderSettings:
    """Settings of a grader.

    Attributes:
        kind: "text", "number", "endpoint", "model", or "module:function".
        mode: "replace": the grade is the score of the task. "confirm": a solved task is graded too, and stays solved
            only if the grader agrees.
        trajectory: True if the grader sees the whole trajectory, tool calls and results included.
        threshold: Lowest score that counts as solved; more than 0, at most 1.
        url: Address of an endpoint, or of a model's API up to and including the version.
        model: Name of the model.
        rubric: Instruction to a model; empty is a default.
        shows_gold: True if a model sees the gold answer.
        headers_env: Headers for an endpoint; the values are names of environment variables that hold them.
        api_key_env: Environment variable with the key of a model's API.
        timeout_s: Seconds until one try is given up.
        retries: Further tries after a failed one.
        max_reply_tokens: Longest reply of a model, in tokens.
        token_limit: Name of that limit in a request: "max_tokens", at temperature 0; or "max_completion_tokens", for
            reasoning models, which allow their own temperature alone.
        calls: Most questions of a run; None is no limit.
        tokens: Most tokens of a run; None is no limit.
        when_spent: "fail": an episode that cannot be graded any more fails. "own": the task's own grade counts.
    """

    kind: str
    mode: str = "replace"
    trajectory: bool = False
    threshold: float = 1.0
    url: str = ""
    model: str = ""
    rubric: str = ""
    shows_gold: bool = True
    headers_env: Mapping[str, str] = field(default_factory=dict)
    api_key_env: str = "OPENAI_API_KEY"
    timeout_s: float = 60.0
    retries: int = 2
    max_reply_tokens: int = 512
    token_limit: str = "max_tokens"
    calls: int | None = None
    tokens: int | None = None
    when_spent: str = "fail"

    def __post_init__(self) -> None:
        choices = {"mode": ("replace", "confirm"), "when_spent": ("fail", "own"), "token_limit": TOKEN_LIMITS}
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise GraderError(f"grader.{name}: found {getattr(self, name)!r}, wanted {' or '.join(allowed)}")
        for name in ("trajectory", "shows_gold"):
            if not isinstance(getattr(self, name), bool):
                raise GraderError(f"grader.{name}: found {getattr(self, name)!r}, wanted true or false")
        for name, least in (("calls", 1), ("tokens", 1), ("retries", 0), ("max_reply_tokens", 1)):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < least):
                raise GraderError(f"grader.{name}: found {value!r}, wanted a whole number of at least {least}")
        for name, most in (("threshold", 1.0), ("timeout_s", math.inf)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
                limit = "" if most == math.inf else f" and at most {most:g}"
                raise GraderError(f"grader.{name}: found {value!r}, wanted a number of more than 0{limit}")
        for name in ("kind", "url", "model", "rubric", "api_key_env"):
            if not isinstance(getattr(self, name), str):
                raise GraderError(f"grader.{name}: found {getattr(self, name)!r}, wanted a text")
        if not isinstance(self.headers_env, Mapping):
            raise GraderError(f"grader.headers_env: found {self.headers_env!r}, wanted variables by header")
        self._check_kind()

    def _check_kind(self) -> None:
        if self.kind not in (*NAMES, *REMOTE) and ":" not in self.kind:
            hint = did_you_mean(self.kind, (*NAMES, *REMOTE))
            wanted = f"{', '.join((*NAMES, *REMOTE))}, module:function or the path of a TOML file"
            raise GraderError(f"grader: found {self.kind!r}, wanted {wanted}{hint}")
        if self.kind in REMOTE and not self.url.startswith(("http://", "https://")):
            raise GraderError(f"grader.url: found {self.url!r}, wanted an address of http:// or https://")
        if self.kind == "model" and not self.model:
            raise GraderError("grader.model: the name of the model is missing, as in model:URL#NAME")
        if self.kind in NAMES and self.trajectory:
            raise GraderError(f"grader.trajectory: the grader {self.kind!r} reads the answer alone; leave it out")

    @classmethod
    def of(cls, spec: GraderSettings | Mapping[str, Any] | str | os.PathLike[str]) -> Self | GraderSettings:
        """Read one of the forms in the table of the module.

        Raises:
            GraderError: It is none of them; names the close ones.
        """
        if isinstance(spec, GraderSettings):
            return spec
        if isinstance(spec, Mapping):
            return cls._of_fields(spec, "grader")
        text = os.fspath(spec)
        if text.endswith(".toml"):
            try:
                record = read_toml(Path(text))
            except ValueError as error:
                raise GraderError(f"grader: {error}") from error
            return cls._of_fields(record, text)
        kind, _, rest = text.partition(":")
        if kind == "endpoint":
            return cls(kind, url=rest)
        if kind == "model":
            url, _, name = rest.partition("#")
            return cls(kind, url=url, model=name)
        return cls(text)

    @classmethod
    def _of_fields(cls, plain: Mapping[str, Any], where: str) -> Self:
        known = [entry.name for entry in fields(cls)]
        for key in plain:
            if key not in known:
                raise GraderError(f"{where}: unknown key {key!r}{close_or_all(str(key), known)}")
        if "kind" not in plain:
            raise GraderError(
                f"{where}: the key 'kind' is missing; wanted {', '.join((*NAMES, *REMOTE))} or module:function"
            )
        try:
            return cls(**plain)
        except GraderError as error:
            raise GraderError(f"{where}: {error}") if where != "grader" else error from error

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form: the kind, and the fields that differ from their defaults."""
        plain = {}
        for entry in fields(self):
            default = entry.default if entry.default_factory is MISSING else entry.default_factory()
            if (value := getattr(self, entry.name)) != default:
                plain[entry.name] = dict(value) if isinstance(value, Mapping) else value
        return plain

    def open(self) -> MeteredGrader:
        """Make the grader, with its budget and its cache.

        Raises:
            GraderError: A function that cannot be imported, or an environment variable that is not set.
            ImportError: The package openai is missing.
        """
        return MeteredGrader(self._bare(), calls=self.calls, tokens=self.tokens, identity=self.to_dict())

    def _bare(self) -> Grader:
        if self.kind in NAMES:
            return LastBox(NAMES[self.kind]())
        if self.kind == "endpoint":
            try:
                headers = headers_from_environment(self.headers_env)
            except ValueError as error:
                raise GraderError(f"grader.{error}") from error
            return EndpointGrader(
                self.url,
                timeout_s=self.timeout_s,
                retries=self.retries,
                headers=headers,
                trajectory=self.trajectory,
            )
        if self.kind == "model":
            limits = self.timeout_s, self.max_reply_tokens, self.token_limit
            complete = ChatEndpoint(self.url, self.model, self.api_key_env, *limits)
            return ModelGrader(complete, self.rubric, self.shows_gold, self.retries, self.trajectory)
        try:
            takes = "answer, task and trajectory" if self.trajectory else "answer and task"
            return FunctionGrader(imported(self.kind, f"a function of {takes} that returns a score"), self.trajectory)
        except ValueError as error:
            raise GraderError(f"grader: {error}") from error
