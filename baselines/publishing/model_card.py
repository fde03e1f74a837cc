"""Model card of a published team: results with intervals, the dependency function *D*, and how to load it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from baselines.experiment.environments import KEYWORDS

PICTURE = "dependency.png"


@dataclass(frozen=True)
class CardFacts:
    """Facts of a team that its card shows.

    Attributes:
        repo: OWNER/NAME of the repository.
        config: Content of config.json.
        checkpoint: Name of the checkpoint, like update-00012.
        team: Content of team.json; None for an environment that shows no team.
        folders: Folder of the adapter by agent.
        bases: Base model by agent, as PEFT names it; None for a model without a hub id.
        evaluations: Content of each evaluation.json by its label; the first is of the checkpoint.
        scenarios: Name of the published scenario list; None if there is none.
        versions: Version by package.
    """

    repo: str
    config: Mapping[str, Any]
    checkpoint: str
    team: Mapping[str, Any] | None
    folders: Mapping[str, str]
    bases: Mapping[str, str | None]
    evaluations: Mapping[str, Mapping[str, Any]]
    scenarios: str | None
    versions: Mapping[str, str]

    @property
    def name(self) -> str:
        """Name of the repository without its owner."""
        return self.repo.rpartition("/")[2]


def model_card(facts: CardFacts) -> str:
    """Return the card as Markdown with a YAML header."""
    parts = [_header(facts), f"# {facts.name}", _summary(facts), _agents(facts)]
    if facts.team is not None:
        parts.append(f"An arrow leads from each action to the agent that sees it.\n\n![D]({PICTURE})")
    parts += ["## Results", _results(facts), _how_measured(facts), "## Load", _loading(facts)]
    parts += ["## Training", _training(facts)]
    return "\n\n".join(parts) + "\n"


def _header(facts: CardFacts) -> str:
    bases = sorted({base for base in facts.bases.values() if base is not None})
    lines = ["---"]
    if bases:
        lines.append(f"base_model: {json.dumps(bases[0] if len(bases) == 1 else bases)}")
    tags = ["marft", "multi-agent", "reinforcement-learning", "lora"]
    lines += ["library_name: peft", "pipeline_tag: text-generation", f"tags: {json.dumps(tags)}", "---"]
    return "\n".join(lines)


def _summary(facts: CardFacts) -> str:
    size = len(facts.team["profiles"]) if facts.team is not None else len(facts.folders)
    return (
        f"A team of {size} language-model agents for `{facts.config['env']}`, trained with "
        f"`{facts.config['algorithm']}` (checkpoint `{facts.checkpoint}`). Each trained agent has a LoRA adapter in a "
        "folder of its own."
    )


def _agents(facts: CardFacts) -> str:
    answering = {p["name"] for p in facts.team["profiles"] if p["answers"]} if facts.team is not None else set()
    agents = [profile["name"] for profile in facts.team["profiles"]] if facts.team is not None else list(facts.folders)
    rows = ["| agent | gives the answer | adapter | base model |", "|---|---|---|---|"]
    for agent in agents:
        model = facts.config["models"].get(agent, facts.config["models"].get("*", ""))
        base = facts.bases.get(agent) or model
        adapter = f"`{facts.folders[agent]}`" if agent in facts.folders else "none: not trained"
        rows.append(f"| `{agent}` | {'yes' if agent in answering else ''} | {adapter} | `{base}` |")
    return "\n".join(rows)


def _results(facts: CardFacts) -> str:
    head = "| evaluation | checkpoint | accuracy [95 % interval] | scenarios | seeds | tokens per episode | failed |"
    rows = [head, "|---|---|---|---|---|---|---|"]
    for label, record in facts.evaluations.items():
        low, high = record["interval_95"]
        cells = [label, record["checkpoint"] or "untrained", f"{record['accuracy']:.3f} [{low:.3f}, {high:.3f}]"]
        cells += [
            len(record["scores"]),
            len(record["seeds"]),
            f"{record['tokens_per_episode']:.1f}",
            record["failures"],
        ]
        rows.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(rows)


def _how_measured(facts: CardFacts) -> str:
    record = next(iter(facts.evaluations.values()))
    sampling = record["law"]
    scenarios = f" --scenarios {facts.name}/{facts.scenarios}" if facts.scenarios else ""
    return (
        f"Split `{record['keywords'].get('split', 'test')}`, temperature {sampling['temperature']:g}, at most "
        f"{sampling['max_new_tokens']} tokens per action. The scores of all scenarios are in `evaluation.json`. "
        "Repeat the first row:\n\n```bash\n"
        f"marft eval --config {facts.name}/evaluation.json --checkpoint {facts.name}{scenarios} "
        "--out repeated\n```"
    )


def _loading(facts: CardFacts) -> str:
    arguments = ["marft", "play", facts.config["env"], "--checkpoint", facts.name, *environment_flags(facts)]
    bash = (
        f"pip install 'marft[agents,math]'\nhf download {facts.repo} --local-dir {facts.name}\n{shlex.join(arguments)}"
    )
    return f"With MARFT, as a team:\n\n```bash\n{bash}\n```\n\n{_peft(facts)}".rstrip()


def _peft(facts: CardFacts) -> str:
    """Return the code that loads the adapters with PEFT; empty if no base model has a hub id."""
    loadable = {agent: base for agent, base in facts.bases.items() if base is not None}
    if not loadable:
        return ""
    base = next(iter(loadable.values()))
    first, *others = [agent for agent, own in loadable.items() if own == base]
    lines = [
        "from peft import PeftModel",
        "from transformers import AutoModelForCausalLM, AutoTokenizer",
        "",
        f"tokenizer = AutoTokenizer.from_pretrained({base!r})",
        f"base = AutoModelForCausalLM.from_pretrained({base!r})",
        f"model = PeftModel.from_pretrained(\n    base, {facts.repo!r}, subfolder={facts.folders[first]!r}, "
        f"adapter_name={first!r}\n)",
    ]
    for agent in others:
        lines.append(f"model.load_adapter({facts.repo!r}, subfolder={facts.folders[agent]!r}, adapter_name={agent!r})")
    lines.append(f"model.set_adapter({first!r})  # the agent that acts")
    left = sorted(loadable.keys() - {first, *others})
    more = f"\n\nOn other base models, in the same way: {', '.join(f'`{agent}`' for agent in left)}." if left else ""
    return "With PEFT, the adapters alone:\n\n```python\n" + "\n".join(lines) + "\n```" + more


def environment_flags(facts: CardFacts) -> list[str]:
    """Return the flags of `marft play` that make the environment of the evaluation."""
    keywords = dict(next(iter(facts.evaluations.values()))["keywords"])
    found = []
    if facts.team is not None:  # the dependency function is part of the team
        found = ["--team", f"{facts.name}/team.json"]
        keywords = {key: value for key, value in keywords.items() if key not in ("team", "dependency")}
    for key, value in keywords.items():
        plain = str(value) if isinstance(value, str | int) else json.dumps(value)
        found += (
            [f"--{key.replace('_', '-')}", plain] if key in KEYWORDS else ["--env-arg", f"{key}={json.dumps(value)}"]
        )
    return found


def _training(facts: CardFacts) -> str:
    versions = ", ".join(f"{package} {facts.versions[package]}" for package in sorted(facts.versions))
    command = f"marft train --config {facts.name}/config.json --out repeated-training"
    return f"All settings are in `config.json`: `{command}`. Versions: {versions}."
