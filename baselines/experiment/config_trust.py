"""Trust in recorded settings: which values of a `config.json` act, and whose yes they need.

A run, a checkpoint or an evaluation of somebody else is data. But some of its settings run a command, import a module,
connect to a server, load a path or name a secret, once a command makes what they describe. Such a command reads the
record through `read_config`. It passes where this user wrote the file on this machine (`marft_common.written_files`),
where the file lies below a folder of `MARFT_TRUST`, or with `--trust-config`. Else it is refused, and the message lists
those values.

`RULES` is the table of all settings. A text without a rule needs the yes too; numbers, true, false and null do not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from marft_common import written_files
from marft_envs.graders.settings import NAMES as OWN_GRADERS
from marft_envs.graders.settings import REMOTE as REMOTE_GRADERS
from marft_envs.sandbox.judge import ISOLATING
from marft_envs.teams.team import MORE_PRESETS
from marft_envs.teams.team import PRESETS as TEAMS

VARIABLE = "MARFT_TRUST"
MOST_SHOWN = 12  # values in one message
MOST_CHARS = 120  # of a value in a message

PLAIN = ""
RUNS = "runs a command"
IMPORTS = "imports a module"
CONNECTS = "connects to a server"
LOADS = "loads a path or a data set"
SECRET = "sends the value of an environment variable"
UNPROTECTED = "runs programs of the models without isolation"
UNKNOWN = "is given to code that marft does not know"

Rule = str | Callable[[str], str]
"""What a value does, or a function from a text to that."""


def _module_of_id(text: str) -> str:
    return IMPORTS if ":" in text else PLAIN


def _model(text: str) -> str:
    from marft_agents.models.random_models import random_model
    from marft_agents.policies.partners import agent_model

    try:
        model = agent_model(text)
    except ValueError:  # a partner whose name is not of its form
        return CONNECTS
    if not model.local:
        return CONNECTS
    name = model.source
    hub_id = name.count("/") == 1 and not name.startswith((".", "/", "~"))
    return PLAIN if hub_id or name == "smollm2-135m" or random_model(name) else LOADS


def _data(text: str) -> str:
    return PLAIN if text.partition(":")[0] == "embedded" else LOADS


def _team(text: str) -> str:
    return PLAIN if text in (*TEAMS, *MORE_PRESETS) else LOADS


def _grader(text: str) -> str:
    if text.endswith(".toml"):
        return LOADS
    if text.partition(":")[0] in REMOTE_GRADERS:
        return CONNECTS
    return PLAIN if text in OWN_GRADERS else IMPORTS


def _judge(text: str) -> str:
    if text.startswith("ray:"):
        return CONNECTS
    return PLAIN if text in ("auto", *ISOLATING) else UNPROTECTED


def _sampler(text: str) -> str:
    from baselines.experiment.samplers import OWN, VLLM

    return PLAIN if text in (OWN, VLLM) else CONNECTS


def _cluster(text: str) -> str:
    from marft_agents.rollouts.rollout_settings import OFF

    return PLAIN if text in (OFF, "local") else CONNECTS


# A star is any key or index. A list or an object without rules for what is inside of it has its rule as a whole.
_ACTING: Mapping[str, Rule] = {
    "env": _module_of_id,
    "models": _model,
    "models.*": _model,
    "sampler": _sampler,
    "rollouts.ray": _cluster,
    "start_from": LOADS,
    "replay_from": LOADS,
    # keywords of environments
    "keywords.data": _data,
    "keywords.team": _team,
    "keywords.judge": _judge,
    "keywords.reward.*.function": IMPORTS,
    "keywords.grader": _grader,
    "keywords.grader.kind": lambda text: PLAIN if text in (*OWN_GRADERS, *REMOTE_GRADERS) else IMPORTS,
    "keywords.grader.url": CONNECTS,
    "keywords.grader.headers_env": SECRET,
    "keywords.grader.api_key_env": SECRET,
    "keywords.tools": LOADS,
    "keywords.program": RUNS,
    "keywords.program_folder": RUNS,
    "keywords.tools.http.*.url": CONNECTS,
    "keywords.tools.http.*.headers_env": SECRET,
    "keywords.tools.mcp.*.command": RUNS,
    "keywords.tools.mcp.*.url": CONNECTS,
    "keywords.config.*": UNKNOWN,  # of generators of the package reasoning-gym
    # evaluation.json
    "checkpoint": LOADS,
    "endpoint": CONNECTS,
    "scenario_file": lambda text: PLAIN if text == Path(text).name else LOADS,  # a name: it lies beside the record
}
_CHOICES: Mapping[str, str] = {  # texts that choose among known names, and texts that are shown or compared
    "": "algorithm sharing dtype policy",
    "learner": "level normalisation baseline compare credit chain_links rewards centring scaling averaging lr_schedule "
    "kl_estimator kl_place agent_order compounding",
    "context": "overflow",
    "engine": "engine",
    "remote": "remote_token_limit",
    "lora": "targets",
    "validation": "validate_on",
    "tracking": "track track_project",
    "keywords": "split dependency horizon reward feedback communication render_mode max_action_chars context_rounds "
    "own_actions compaction canaries memory size parts lines chained notes view in_order clues listing limits "
    "languages grading level instructions policy seed attack injection params show_actions seen_by agents "
    "client_sampling program_episodes program_seconds program_requests program_tokens program_open program_output",
    "keywords.reward": "*",
    "keywords.team": "name language dependency profiles",
    "keywords.grader": "mode model rubric when_spent token_limit",
    "keywords.tools": "name owners limits task",
    "keywords.tools.http.*": "name description parameters result headers",
    "keywords.tools.mcp.*": "tools env",
}
RULES: Mapping[str, Rule] = {
    **{f"{table}.{name}".lstrip("."): PLAIN for table, names in _CHOICES.items() for name in names.split()},
    **_ACTING,
}
# The rules of other keywords are those of the environments of marft: what a plugin does with its own is not known.
OF_ANY_GAME = (
    *("data", "split", "team", "grader", "dependency", "horizon", "reward", "feedback", "communication", "tools"),
    *("max_action_chars", "context_rounds", "own_actions", "compaction", "canaries", "render_mode"),
)


class _Node:
    """Place in the tree of rules.

    Attributes:
        rule: Rule of the place itself; None if it has none.
        inside: Places inside of it by key; "*" is any key.
    """

    def __init__(self) -> None:
        self.rule: Rule | None = None
        self.inside: dict[str, _Node] = {}


def _tree(rules: Mapping[str, Rule]) -> _Node:
    top = _Node()
    for key, rule in rules.items():
        node = top
        for part in key.split("."):
            node = node.inside.setdefault(part, _Node())
        node.rule = rule
    return top


def _of_any_game(key: str) -> bool:
    table, *names = key.split(".")
    return table != "keywords" or names[0] in OF_ANY_GAME


_OURS, _NOTHING = _tree(RULES), _Node()
_OF_PLUGINS = _tree({key: rule for key, rule in RULES.items() if _of_any_game(key)})


class ActingValue(NamedTuple):
    """A value on which a command would act.

    Attributes:
        place: Its keys, and its indexes in lists.
        value: The value itself.
        does: What it does, one of the words of this module.
    """

    place: tuple[str | int, ...]
    value: Any
    does: str

    def __str__(self) -> str:
        keys = [f"[{key}]" if isinstance(key, int) else f".{_ascii(key)}" for key in self.place]
        return f"{''.join(keys).removeprefix('.')} {self.does}: {_ascii(self.value)}"


def _ascii(value: Any) -> str:
    """Return a value as JSON in ASCII, so that nothing in it reaches a terminal as it is."""
    text = json.dumps(value, default=str)
    plain = text[1:-1] if isinstance(value, str) and value.replace("_", "").isalnum() else text
    return plain if len(plain) <= MOST_CHARS else f"{plain[:MOST_CHARS]}..."


@dataclass(frozen=True)
class Uses:
    """The settings of a record on which a command acts, by the first keys of their place, like "keywords.data".

    Attributes:
        only: Nothing else is used; None: everything is.
        but: These are not used after all, such as those that a flag replaces.
    """

    only: Sequence[str] | None = None
    but: Sequence[str] = ()

    def __contains__(self, place: tuple[str | int, ...]) -> bool:
        def below(first: str) -> bool:
            parts = first.split(".")
            return [str(key) for key in place[: len(parts)]] == parts

        if self.only is not None and not any(map(below, self.only)):
            return False
        return not any(map(below, self.but))


EVERYTHING = Uses()


class UntrustedConfigError(ValueError):
    """A record of somebody else with values on which the command would act; lists them and says how to allow it."""


def acting_values(record: Mapping[str, Any], uses: Uses = EVERYTHING) -> list[ActingValue]:
    """Return the values of a record on which a command acts that uses them."""
    env_id = str(record.get("env", "marft/")).rpartition(":")[2]
    return list(_walk(record, _OURS if env_id.startswith(("marft/", "program/")) else _OF_PLUGINS, (), uses))


def _walk(value: Any, node: _Node, place: tuple[str | int, ...], uses: Uses) -> Iterator[ActingValue]:
    if isinstance(value, Mapping | list) and (node.inside or node.rule is None):
        for key, item in value.items() if isinstance(value, Mapping) else enumerate(value):
            below = node.inside.get(str(key)) or node.inside.get("*") or _NOTHING
            yield from _walk(item, below, (*place, key), uses)
    elif value and not isinstance(value, bool | int | float) and place in uses:
        does = UNKNOWN if node.rule is None else node.rule
        if callable(does):  # such a rule reads texts; anything else in their place is nothing we know
            does = does(value) if isinstance(value, str) else UNKNOWN
        if does:
            yield ActingValue(place, value, does)


# ------------------------------------------------------------------ trust


def read_config(file: Path, uses: Uses = EVERYTHING, *, trust: bool | None = False) -> Any:
    """Read a record on which a command acts.

    Args:
        file: A config.json, evaluation.json or the like.
        uses: The settings that the command uses; the others need no trust.
        trust: True if the user said --trust-config.

    Raises:
        OSError, ValueError: It cannot be read, or is no JSON.
        UntrustedConfigError: See `require_trust`.
    """
    content = file.read_bytes()
    try:
        record = json.loads(content.decode("utf-8"))
    except RecursionError as error:
        raise ValueError(f"it is nested too deeply ({error})") from error
    if isinstance(record, dict) and not trust:
        require_trust(file, content, record, uses)
    return record


def require_trust(file: Path, content: bytes, record: Mapping[str, Any], uses: Uses = EVERYTHING) -> None:
    """Refuse to act on a record of somebody else.

    Args:
        file: Path of the record.
        content: Content of the file.
        record: The settings in it.
        uses: The settings that the command uses.

    Raises:
        UntrustedConfigError: It has values that act, and this user did not write it on this machine.
    """
    found = acting_values(record, uses)
    if not found or is_own(file, content):
        return
    shown = [str(one) for one in found[:MOST_SHOWN]]
    more = [f"and {len(found) - len(shown)} more"] if len(found) > len(shown) else []
    raise UntrustedConfigError(
        f"{file} was not written by you on this machine (or is a copy, or of an earlier version), and names what this "
        f"command would do: {'; '.join([*shown, *more])}. Look at it; if you want that, give --trust-config, or set "
        f"{VARIABLE} to a folder of records that you trust"
    )


def is_own(file: Path, content: bytes) -> bool:
    """Return True if this user wrote a file on this machine, or trusts its folder by `MARFT_TRUST`."""
    roots = [Path(root).expanduser().resolve() for root in os.environ.get(VARIABLE, "").split(os.pathsep) if root]
    place = file.resolve()
    return any(place.is_relative_to(root) for root in roots) or written_files.entered(file, content)
