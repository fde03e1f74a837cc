"""Reference pages generated from the code: commands, settings, metrics, file formats, public Python names."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import inspect
import json
import pkgutil
import re
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from baselines.cli.main import build_parser
from baselines.cli.settings_flags import flag
from baselines.experiment.experiment import SETTINGS
from baselines.experiment.presets import PRESETS
from marft_agents import metric_names

OF_PRESETS = [kind for kind, _ in SETTINGS.values()]  # others may have a field of the same name
SCHEMAS = Path(__file__).parents[1] / "docs" / "schemas"
PACKAGES = ("marft_envs", "marft_agents", "baselines")
MOST_CHOICES = 60  # characters; longer lists of choices stand in the help text
API = {  # page -> modules whose `__all__` it documents
    "marft_envs": (
        "marft_envs",
        "marft_envs.dependency",
        "marft_envs.graders",
        "marft_envs.wrappers",
        "marft_envs.bridges",
        "marft_envs.testing",
    ),
    "marft_agents": ("marft_agents",),
    "envs_data": ("envs_data",),
}


def pages() -> dict[str, str]:
    """Return the text of each generated page by its path on the site."""
    return {
        **command_pages(build_parser()),
        "reference/settings.md": settings_page(),
        "reference/metrics.md": metrics_page(),
        "reference/files.md": files_page(SCHEMAS),
        "reference/api/index.md": api_index(),
        **{f"reference/api/{package}.md": api_page(package, modules) for package, modules in API.items()},
    }


# ------------------------------------------------------------------- commands


def command_pages(parser: argparse.ArgumentParser) -> dict[str, str]:
    """Return a page for each command of the parser, and their index."""
    rows, made = [], {}
    for name, (command, help_) in _subcommands(parser).items():
        rows.append((f"[`{parser.prog} {name}`]({name}.md)", help_))
        made[f"reference/commands/{name}.md"] = "\n\n".join(
            [f"# {parser.prog} {name}", *_command(command, help_, "##")]
        )
    index = ["# Commands", parser.description or "", table(("command", "does"), rows)]
    return {"reference/commands/index.md": "\n\n".join(index) + "\n"} | made


def _command(parser: argparse.ArgumentParser, help_: str, heading: str) -> Iterator[str]:
    """Yield the parts of a page: purpose, usage, a table per group of arguments, then the parser's own commands."""
    yield _sentence(parser.description or help_)
    yield f"```text\n{_usage(parser)}\n```"
    for group in parser._action_groups:
        actions = [action for action in group._group_actions if not _is_internal(action)]
        if actions:
            title = (group.title or "options").capitalize()
            yield f"{heading} {title}"
            yield table(("argument", "meaning"), [(_signature(action), _help(parser, action)) for action in actions])
    for name, (command, text) in _subcommands(parser).items():
        yield f"{heading} {parser.prog} {name}"
        yield from _command(command, text, heading + "#")


def _subcommands(parser: argparse.ArgumentParser) -> dict[str, tuple[argparse.ArgumentParser, str]]:
    """Return parser and help text of each command below a parser."""
    found: dict[str, tuple[argparse.ArgumentParser, str]] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            found |= {name: (command, helps.get(name, "")) for name, command in action.choices.items()}
    return found


def _is_internal(action: argparse.Action) -> bool:
    return isinstance(action, argparse._HelpAction | argparse._SubParsersAction) or action.help == argparse.SUPPRESS


def _usage(parser: argparse.ArgumentParser) -> str:
    """Return the usage in one line: long ones name the required arguments only."""
    text = " ".join(parser.format_usage().removeprefix("usage: ").split())
    return text if len(text) < 100 else f"{parser.prog} {' '.join(_required(parser))} [options]".replace("  ", " ")


def _required(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if not action.option_strings and not _is_internal(action):
            yield str(action.metavar or action.dest)
        elif action.required and action.option_strings:
            yield f"{action.option_strings[0]} {action.metavar or action.dest.upper()}"


def _signature(action: argparse.Action) -> str:
    value = ""
    if action.nargs != 0:
        choices = ", ".join(map(str, action.choices)) if action.choices else ""
        metavar = " ".join(action.metavar) if isinstance(action.metavar, tuple) else action.metavar
        value = metavar or (choices if len(choices) < MOST_CHOICES else "NAME") or action.dest.upper()
    return f"`{', '.join(action.option_strings)} {value}`".replace("` ", "`").replace(" `", "`")


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    return parser._get_formatter()._expand_help(action) if action.help else ""


# ------------------------------------------------------------------- settings


def settings_page() -> str:
    """Return the page of all settings: the fields of every dataclass that declares help with `knob`."""
    parts = [
        "# Settings",
        "Each setting is a field of a frozen dataclass, a flag of the command line, and a key of config files. "
        "`none` stands for no value.",
    ]
    for kind in settings_classes():
        parts += [f"## {kind.__name__}", f"`{kind.__module__}.{kind.__qualname__}`: {_first_line(kind)}"]
        rows = []
        for field in dataclasses.fields(kind):
            if "help" not in field.metadata:
                continue
            others = [
                f"{preset}: {_value(values[field.name])}"
                for preset, values in PRESETS.items()
                if kind in OF_PRESETS and field.name in values and preset != "paper"
            ]
            default = "; ".join([_value(field.default), *others])
            wanted = field.metadata.get("wanted") or _choices(kind, field.name)
            meaning = _sentence(field.metadata["help"])
            rows.append((f"`{flag(field.name)}`", default, f"{meaning} Range: {_code(wanted)}." if wanted else meaning))
        parts.append(table(("setting", "default, values of presets", "meaning"), rows))
    return "\n\n".join(parts) + "\n"


def settings_classes() -> list[type[Any]]:
    """Return every dataclass of the packages whose fields were declared with `knob`, in the order of the modules."""
    found: dict[type[Any], None] = {}
    for module in _modules_with("knob("):
        for value in vars(module).values():
            own = isinstance(value, type) and dataclasses.is_dataclass(value) and value.__module__ == module.__name__
            if own and any("help" in field.metadata for field in dataclasses.fields(value)):
                found[value] = None
    return list(found)


def _modules_with(text: str) -> Iterator[ModuleType]:
    """Import and yield the modules of the packages whose source contains a text."""
    for package in PACKAGES:
        folder = Path(importlib.import_module(package).__path__[0])
        for info in pkgutil.walk_packages([str(folder)], f"{package}."):
            path = folder.joinpath(*info.name.split(".")[1:])
            file = path / "__init__.py" if info.ispkg else path.with_suffix(".py")
            if "programs" not in file.parts and text in file.read_text(encoding="utf-8"):
                yield importlib.import_module(info.name)


def _choices(kind: type[Any], name: str) -> str:
    hint = typing.get_type_hints(kind)[name]
    return ", ".join(typing.get_args(hint)) if typing.get_origin(hint) is typing.Literal else ""


def _value(value: Any) -> str:
    if value is None or value is dataclasses.MISSING:
        return "none"
    return _code(", ".join(map(str, value)) if isinstance(value, tuple) else str(value))


# -------------------------------------------------------------------- metrics


def metrics_page() -> str:
    """Return the page of all metrics, from `marft_agents.metric_names`."""
    parts = [
        "# Metrics",
        "Each line of `metrics.jsonl` holds the metrics of an update, with these names. TensorBoard gets the same. "
        "A metric that was not computed is missing, and 0 means zero.",
    ]
    for prefix, (about, measures) in metric_names.METRICS.items():
        parts += [f"## {prefix or 'Without a prefix'}", about]
        names = [(f"`{prefix}/{name}`" if prefix else f"`{name}`", _sentence(text)) for name, text in measures.items()]
        parts.append(table(("metric", "content"), names))
    return "\n\n".join(parts) + "\n"


# --------------------------------------------------------------- file formats


def files_page(folder: Path) -> str:
    """Return the page of file formats, from their JSON Schemas."""
    parts = [
        "# File formats",
        "Every file is UTF-8. Each format has a JSON Schema (draft 2020-12), linked below its heading. Readers should "
        "ignore keys that they do not know: new versions may add some.",
    ]
    for path in sorted(folder.glob("*.json")):
        schema = json.loads(path.read_text(encoding="utf-8"))
        parts += [
            f"## {schema['title']}",
            f"{schema['description']} Schema: [{path.name}](../schemas/{path.name}).",
            table(("key", "type", "content"), _properties(schema, schema)),
        ]
        for name, inner in schema.get("$defs", {}).items():
            parts += [f"### {name} ({schema['title']})", _sentence(inner.get("description", ""))]
            parts.append(table(("key", "type", "content"), _properties(inner, schema)))
    return "\n\n".join(part for part in parts if part) + "\n"


def _properties(schema: Mapping[str, Any], whole: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    required = schema.get("required", ())
    return [
        (
            f"`{name}`",
            _type(entry) + ("" if name in required else ", optional"),
            _sentence(entry.get("description", "")),
        )
        for name, entry in schema["properties"].items()
    ]


def _type(entry: Mapping[str, Any]) -> str:
    if reference := entry.get("$ref"):
        return str(reference).rpartition("/")[2]
    if "enum" in entry:
        return ", ".join(f"`{json.dumps(value)}`" for value in entry["enum"])
    kinds = entry.get("type", "any value")
    text = kinds if isinstance(kinds, str) else " or ".join(kinds)
    if "items" in entry:
        text += f" of {_type(entry['items'])}"
    values = entry.get("additionalProperties")
    if isinstance(values, Mapping):
        text += f" of {_type(values)}"
    return text


# ----------------------------------------------------------------- Python API


def api_index() -> str:
    """Return the index of the packages."""
    rows = [(f"[`{package}`]({package}.md)", _first_line(importlib.import_module(package))) for package in API]
    return "# Python API\n\nThe public names of each package.\n\n" + table(("package", "holds"), rows) + "\n"


def api_page(package: str, modules: Sequence[str]) -> str:
    """Return the page of a package: a directive of mkdocstrings for each public name."""
    parts = [f"# {package}", _first_line(importlib.import_module(package))]
    shown: set[str] = set()
    for name in modules:
        module = importlib.import_module(name)
        if name != package:
            parts += [f"## {name}", _first_line(module)]
        for public in sorted(module.__all__, key=str.casefold):
            path = _defined_at(module, public)
            if path not in shown:
                shown.add(path)
                parts.append(f"::: {path}")
    return "\n\n".join(parts) + "\n"


def _defined_at(module: ModuleType, name: str) -> str:
    """Return the full path of a public name: the module that defines it, for classes and functions."""
    value = getattr(module, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        return f"{value.__module__}.{value.__qualname__}"
    if inspect.ismodule(value):
        return value.__name__
    return f"{module.__name__}.{name}"


# ------------------------------------------------------------------- markdown


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(re.sub(r"(?<!\\)\|", r"\\|", cell).replace("\n", " ") for cell in line) + " |"
        for line in lines
    )


def _first_line(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0]


def _sentence(text: str) -> str:
    """Return a text as a sentence: a capital at its beginning, a full stop at its end."""
    text = " ".join(text.split())
    if not text:
        return ""
    return (text if text.startswith("`") else text[0].upper() + text[1:]) + ("" if text[-1] in ".!?" else ".")


def _code(text: str) -> str:
    return f"`{text}`" if text else ""
