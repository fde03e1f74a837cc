"""Checkpoints for exact resume: adapters in standard PEFT form, one folder per agent, and the learner's state.

A checkpoint is written to a temporary folder, synced and renamed. The rename is atomic: a kill at any moment leaves
either the old or the new one, never a partial one.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import hashlib
import io
import json
import os
import pickle
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor

from marft_agents.learning.learner import Learner
from marft_agents.learning.settings import LearnerSettings
from marft_agents.metric_names import TOKENS_TOTAL
from marft_agents.policies.adapter_files import WEIGHTS_FILE, folder_names, load_adapter, save_adapter
from marft_agents.policies.language_model import LanguageModelTeam, LocalAgent
from marft_agents.runs.run_folder import checkpoints_in
from marft_agents.runs.validation import Best

STATE_FILE = "state.json"
LEARNER_FILE = "learner.pt"
STATE_KEYS = {"updates", "team", "settings"}
SAME_RESULTS = {"gradient_checkpointing", "micro_batch_tokens"}  # settings that change memory and time alone
BEST = "best"  # a link to the checkpoint of the best validated update


class CheckpointError(RuntimeError):
    """Error for a checkpoint that cannot be written or does not fit; gives path, found and wanted value."""


def describe(team: LanguageModelTeam) -> dict[str, Any]:
    """Describe base model, adapter and adapter shape of each agent; equal for teams that share checkpoints."""
    described: dict[str, Any] = {}
    for agent in team.agents:
        if agent in team.partners:
            described[agent] = {"remote": str(team.partners[agent])}
            continue
        local = team.local_agents[agent]
        shape = {} if local.adapter is None else _adapter_shape(local)
        described[agent] = {"base": local.base.name, "adapter": local.adapter, **shape}
    return described


def _adapter_shape(local: LocalAgent) -> dict[str, Any]:
    config = local.base.lora_config(str(local.adapter))
    return {"rank": config.r, "alpha": config.lora_alpha, "targets": sorted(config.target_modules)}


def save(
    folder: Path,
    team: LanguageModelTeam,
    learner: Learner,
    *,
    keep: int = 2,
    keep_every: int = 0,
    notes: Mapping[str, str] | None = None,
    guard: Mapping[str, Any] | None = None,
    best: Best | None = None,
    tokens_total: int | None = None,
    rollouts: Mapping[str, Any] | None = None,
    records: Mapping[str, int] | None = None,
) -> Path:
    """Write a checkpoint `folder/update-N` and remove old ones.

    Args:
        folder: Folder of the run's checkpoints.
        team: Team whose adapters are written, one folder per agent.
        learner: Learner whose state is written.
        keep: Number of newest checkpoints to keep, >= 1.
        keep_every: Also keep checkpoints whose number is a multiple of this; 0 keeps none extra.
        notes: Further facts about the training, see `notes_of`.
        guard: State of the run's guard, JSON-serialisable, see `guard_of`.
        best: Best validated update so far; its checkpoint is kept, and the link `folder/best` points to it.
        tokens_total: Tokens sampled for training so far, see `tokens_of`.
        rollouts: State of where episodes come from, JSON-serialisable, see `rollouts_of`.
        records: Number of lines of the run's records so far, see `records_of`.

    Raises:
        CheckpointError: The disk refused; no partial checkpoint is left and older checkpoints are untouched.
    """
    final = folder / name_of(learner.updates)
    part: Path | None = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for stale in folder.glob(".part-*"):  # left by a kill
            shutil.rmtree(stale, ignore_errors=True)
        part = folder / ".part-new"
        part.mkdir()
        beside: dict[str, Any] = {"notes": dict(notes or {}), "guard": dict(guard or {})}
        beside |= {BEST: best and best._asdict(), TOKENS_TOTAL: tokens_total, "rollouts": dict(rollouts or {})}
        beside["records"] = dict(records or {})
        _write(part, team, learner, beside)
        _sync(part)
        if final.exists():  # the same update, repeated after a resume
            _remove(final)
        part.rename(final)
        _link(folder, best)
    except (OSError, SafetensorError) as error:  # Python's and safetensors' errors for a full disk
        if part is not None:
            shutil.rmtree(part, ignore_errors=True)
        raise CheckpointError(
            f"checkpoint {final} could not be written: {error}; free some space and resume: "
            f"the newest complete checkpoint is {latest(folder) or 'none'}"
        ) from error
    _drop_old(folder, keep, keep_every, best)
    return final


def _link(folder: Path, best: Best | None) -> None:
    """Point the link `best` to the best checkpoint, replacing it atomically."""
    if best is None:
        return
    link, part = folder / BEST, folder / ".part-best"
    if not (link.is_symlink() and os.readlink(link) == name_of(best.updates)):
        part.unlink(missing_ok=True)
        part.symlink_to(name_of(best.updates), target_is_directory=True)
        part.replace(link)


def resume_best(folder: Path, updates: int) -> Best | None:
    """Return the best validated update recorded in checkpoint `updates`, or None; repair the link `best`.

    A kill right after the checkpoint was written may have left the link on an older one.
    """
    path = folder / name_of(updates)
    best = _best_of(path) if updates and path.exists() else None
    _link(folder, best)
    return best


def _best_of(path: Path) -> Best | None:
    best = read_state(path).get(BEST)
    return None if best is None else Best(best["updates"], best["success"])


def name_of(updates: int) -> str:
    """Return the folder name of the checkpoint after `updates` updates."""
    return f"update-{updates:05d}"


def _write(part: Path, team: LanguageModelTeam, learner: Learner, beside: Mapping[str, Any]) -> None:
    folders = folder_names([agent for agent, local in team.local_agents.items() if local.adapter is not None])
    for agent, folder in folders.items():
        save_adapter(team.local_agents[agent], part / folder)
    learned = io.BytesIO()
    torch.save(learner.state_dict(), learned)  # not to the file: torch hides a full disk behind errors of its own
    (part / LEARNER_FILE).write_bytes(learned.getbuffer())
    state = {
        "updates": learner.updates,
        "team": describe(team),
        "settings": dataclasses.asdict(learner.settings),
        "context": {**dataclasses.asdict(team.context), "windows": team.windows},
        "folders": folders,
        "sha256": hashes_of(part),
        **beside,
    }
    write_state(part, state)


def write_state(folder: Path, state: Mapping[str, Any]) -> None:
    """Write `state.json`; beside the hashes of the weights it gets its own, that of everything else in it."""
    plain = json.loads(json.dumps(state))  # keys as a reader finds them
    hashes = {**plain.get("sha256", {}), STATE_FILE: _state_sha256(plain)}
    with (folder / STATE_FILE).open("w", encoding="utf-8") as stream:
        json.dump({**plain, "sha256": hashes}, stream, indent=1)


def _state_sha256(state: Mapping[str, Any]) -> str:
    """Return the hash of a state without its own hash, whatever the order of its keys and its white space."""
    hashes = {name: value for name, value in state.get("sha256", {}).items() if name != STATE_FILE}
    text = json.dumps({**state, "sha256": hashes}, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def hashes_of(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of all files of weights in a folder, by their path in it."""
    files = sorted(file for file in folder.rglob("*") if file.suffix in (".safetensors", ".pt"))
    return {file.relative_to(folder).as_posix(): _sha256(file) for file in files}


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _check_contents(path: Path, state: Mapping[str, Any], names: Sequence[str]) -> None:
    """Check the files of a checkpoint that are about to be read.

    Where any file has a recorded hash, each must have one and agree with it; older checkpoints have none. A file
    without a hash must lie in the checkpoint: behind a link to another place could be anything.

    Args:
        path: Path of the checkpoint.
        state: Content of its `state.json`.
        names: Paths of the files in the checkpoint.
    """
    hashes = state.get("sha256", {})
    for name in names:
        file = path / name
        if not hashes:
            if not file.resolve().is_relative_to(path.resolve()):
                raise CheckpointError(f"{file} is a link to {file.resolve()}: wanted a file in {path}")
            continue
        if name not in hashes:
            raise CheckpointError(
                f"{file} has no sha256 in {STATE_FILE}, though other files have: it was added or renamed later; load "
                "another checkpoint, or a whole copy of this one"
            )
        try:
            found = _sha256(file)
        except OSError as error:
            raise CheckpointError(f"{file} is damaged: {error}") from error
        if found != hashes[name]:
            raise CheckpointError(
                f"{file} is damaged, or was changed later: found sha256 {found[:12]}, wanted {hashes[name][:12]}; "
                f"without {path} a run continues from the checkpoint before it"
            )


def adapter_folders(path: Path, agents: Sequence[str] | None = None) -> dict[str, str]:
    """Return the folder of the adapter of each agent in a checkpoint, with its weights checked.

    Args:
        path: Path of the checkpoint.
        agents: Agents whose adapters are wanted; None: all that have one.

    Raises:
        CheckpointError: A folder is not one plain name, or lies behind a link; or its weights are not those recorded.
    """
    state = read_state(path)
    folders = state.get("folders", {})
    if agents is None:
        agents = list(folders) or [agent for agent, told in state["team"].items() if told.get("adapter") is not None]
    found = {agent: folders.get(agent, agent) for agent in agents}  # older checkpoints: each agent's own id
    for agent, folder in found.items():
        place = f"{path / STATE_FILE}: folders: {agent!r}: found {folder!r}"
        if folder in ("", ".", "..") or any(sign in folder for sign in "/\\\0"):
            raise CheckpointError(f"{place}, wanted the name of a folder in {path}, without any path")
        if (path / folder).is_symlink():
            raise CheckpointError(f"{place}, which is a link: wanted a folder in {path}")
    _check_contents(path, state, [f"{folder}/{WEIGHTS_FILE}" for folder in found.values()])
    return found


def _sync(folder: Path) -> None:
    """Sync all files of a folder to disk, so that after a crash a renamed folder has its contents."""
    for path in [*folder.rglob("*"), folder]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def latest(folder: Path) -> Path | None:
    """Return the newest complete checkpoint in a folder of checkpoints, or None."""
    complete = [path for path in checkpoints_in(folder).values() if (path / STATE_FILE).is_file()]
    return complete[-1] if complete else None


def _drop_old(folder: Path, keep: int, keep_every: int, best: Best | None) -> None:
    for number, path in list(checkpoints_in(folder).items())[:-keep]:
        kept = (keep_every and number % keep_every == 0) or (best is not None and number == best.updates)
        if not kept:
            _remove(path)


def _remove(path: Path) -> None:
    """Remove a checkpoint; rename it first, so that a partly removed one is never taken for a complete one."""
    doomed = path.with_name(f".part-{path.name}")
    with contextlib.suppress(OSError):
        path.rename(doomed)
        shutil.rmtree(doomed)


def resolve(path: Path) -> Path:
    """Return the checkpoint at a path: a checkpoint, a folder of checkpoints or a run folder.

    A folder gives its newest checkpoint. A name after it, as in `RUN@best` or `RUN@update-00012`, selects another.

    Raises:
        CheckpointError: There is no complete checkpoint, or none of that name.
    """
    folder, sign, name = str(path).rpartition("@")
    if sign and not path.exists():
        return _named(Path(folder), name)
    if (path / STATE_FILE).is_file():
        return path
    found = latest(path / "checkpoints") or latest(path)
    if found is None:
        raise CheckpointError(
            f"no complete checkpoint in {path}: wanted a folder with {STATE_FILE}, "
            "or a run folder with checkpoints/update-*"
        )
    return found


def _named(folder: Path, name: str) -> Path:
    """Return the checkpoint `best` or `update-N` of a run."""
    newest = resolve(folder)
    found = newest.parent / name
    if name == BEST:
        best = _best_of(newest)
        if best is None:
            raise CheckpointError(f"{folder}@best: the run was not validated; train with --validate-every, or name one")
        found = newest.parent / name_of(best.updates)
    elif name.startswith("update-") and name.removeprefix("update-").isdecimal():
        found = newest.parent / name_of(int(name.removeprefix("update-")))
    if not (found / STATE_FILE).is_file():
        there = ", ".join(path.name for path in checkpoints_in(newest.parent).values())
        raise CheckpointError(f"{folder}@{name}: no complete checkpoint of that name; there are {there}")
    return found


def notes_of(path: Path) -> dict[str, str]:
    """Return the notes about the training in a checkpoint (the hash of its tool surface, ...); may be empty.

    Raises:
        CheckpointError: There is no complete checkpoint, or it is damaged.
    """
    return dict(read_state(resolve(path)).get("notes", {}))


def guard_of(path: Path) -> dict[str, Any]:
    """Return the guard's state in a checkpoint; empty if none was saved.

    Raises:
        CheckpointError: There is no complete checkpoint, or it is damaged.
    """
    return dict(read_state(resolve(path)).get("guard", {}))


def rollouts_of(path: Path) -> dict[str, Any]:
    """Return the state of the rollouts in a checkpoint; empty if none was saved.

    Raises:
        CheckpointError: There is no complete checkpoint, or it is damaged.
    """
    return dict(read_state(resolve(path)).get("rollouts", {}))


def records_of(path: Path) -> dict[str, int]:
    """Return the number of lines that each record of the run had at a checkpoint, by file; empty if not saved.

    Raises:
        CheckpointError: There is no complete checkpoint, or it is damaged.
    """
    return dict(read_state(resolve(path)).get("records", {}))


def tokens_of(path: Path) -> int | None:
    """Return the number of tokens sampled for training up to a checkpoint; None if it was not counted.

    Raises:
        CheckpointError: There is no complete checkpoint, or it is damaged.
    """
    found = read_state(resolve(path)).get(TOKENS_TOTAL)
    return None if found is None else int(found)


def load_adapters(path: Path, team: LanguageModelTeam) -> None:
    """Load the adapters of a checkpoint into a team of the same agents, base models and adapter shapes.

    An agent of the team may be frozen or remote where the checkpoint has an adapter for it, which is not loaded then.

    Raises:
        CheckpointError: The checkpoint is of another team or is damaged.
    """
    path = resolve(path)
    state = read_state(path)
    trained = {agent: found for agent, found in describe(team).items() if found.get("adapter") is not None}
    check_agents(path, team.agents)
    _check_same_team(path, state["team"], trained)
    _put(team, _read_adapters(path, team))


def _read_adapters(path: Path, team: LanguageModelTeam) -> dict[str, dict[str, Tensor]]:
    """Return the saved tensors of every trained agent; all are read and checked before any is loaded."""
    local_agents = {agent: local for agent, local in team.local_agents.items() if local.adapter is not None}
    folders = adapter_folders(path, list(local_agents))
    return {agent: _read_adapter(local, path / folders[agent]) for agent, local in local_agents.items()}


def _read_adapter(local: LocalAgent, folder: Path) -> dict[str, Tensor]:
    from peft import get_peft_model_state_dict

    file = folder / WEIGHTS_FILE
    try:
        found = load_adapter(local.base, folder)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"adapter {file} could not be read: {error}") from error
    wanted = get_peft_model_state_dict(
        local.base.peft, adapter_name=local.base.peft_name(str(local.adapter)), save_embedding_layers=False
    )
    for name in sorted(found.keys() | wanted.keys()):
        shapes = [tuple(tensors[name].shape) if name in tensors else "no such tensor" for tensors in (found, wanted)]
        if shapes[0] != shapes[1]:
            raise CheckpointError(f"adapter {file} does not fit: {name}: found {shapes[0]}, wanted {shapes[1]}")
    return found


def _put(team: LanguageModelTeam, adapters: Mapping[str, Mapping[str, Tensor]]) -> None:
    """Copy saved tensors into the team's adapters."""
    from peft import set_peft_model_state_dict

    for agent, tensors in adapters.items():
        local = team.local_agents[agent]
        set_peft_model_state_dict(local.base.peft, dict(tensors), adapter_name=local.base.peft_name(str(local.adapter)))


def load(path: Path, team: LanguageModelTeam, learner: Learner) -> int:
    """Restore team and learner exactly; return the number of updates done.

    Raises:
        CheckpointError: The checkpoint is of another team or other settings, or is damaged.
    """
    path = resolve(path)
    state = read_state(path)
    _check_same_settings(path, state["settings"], learner.settings)
    check_agents(path, team.agents)
    _check_same_team(path, state["team"], describe(team))
    adapters = _read_adapters(path, team)
    file = path / LEARNER_FILE
    _check_contents(path, state, [LEARNER_FILE])
    try:
        learner.load_state_dict(torch.load(file, weights_only=True, map_location="cpu"))
    except (OSError, RuntimeError, EOFError, ValueError, LookupError, pickle.UnpicklingError) as error:
        raise CheckpointError(f"{file} is damaged: {type(error).__name__}: {str(error)[:200]}") from error
    _put(team, adapters)
    if (tokens := _settings_of(path, state["settings"]).get("micro_batch_tokens")) is not None:
        learner.limit_passes(tokens)  # it may have run out of memory
    return learner.updates


def read_state(path: Path) -> dict[str, Any]:
    """Read the `state.json` of a checkpoint.

    Raises:
        CheckpointError: It cannot be read, has another form, or is not as it was written.
    """
    file = path / STATE_FILE
    try:
        state: Any = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{file} is damaged: {error}") from error
    if not isinstance(state, dict) or not state.keys() >= STATE_KEYS:
        raise CheckpointError(f"{file} is damaged: wanted an object with {', '.join(sorted(STATE_KEYS))}")
    wanted = {"team": dict, "folders": str, "sha256": str}
    for key, kind in wanted.items():
        entries = state.get(key, {})
        if not isinstance(entries, dict) or not all(isinstance(value, kind) for value in entries.values()):
            raise CheckpointError(f"{file} is damaged: {key}: wanted an object of {kind.__name__} by name")
    recorded = state.get("sha256", {}).get(STATE_FILE)  # older checkpoints: none
    if recorded is not None and (found := _state_sha256(state)) != recorded:
        raise CheckpointError(
            f"{file} is damaged, or was changed later: found sha256 {found[:12]}, wanted {recorded[:12]}; without "
            f"{path} a run continues from the checkpoint before it"
        )
    return state


def _check_same_settings(path: Path, record: Any, settings: LearnerSettings) -> None:
    """Compare settings that change results; a field missing in the record was added later and counts as its default."""
    defaults, wanted = dataclasses.asdict(LearnerSettings()), dataclasses.asdict(settings)
    found = _settings_of(path, record)
    unknown = sorted(found.keys() - wanted.keys())
    if unknown:
        raise CheckpointError(
            f"checkpoint {path} has settings that this version of marft does not know: {', '.join(unknown)}; "
            "resume with the version that wrote it"
        )
    found = defaults | found
    others = [
        f"{name}: found {found[name]!r}, wanted {wanted[name]!r}"
        for name in wanted
        if name not in SAME_RESULTS and found[name] != wanted[name]
    ]
    if others:
        raise CheckpointError(
            f"checkpoint {path} was trained with other settings: {'; '.join(others)}; "
            "resume with the settings in the run's config.json"
        )


def _settings_of(path: Path, record: Any) -> dict[str, Any]:
    """Return recorded settings by name; older records hold the text `LearnerSettings(level='action', ...)`."""
    if isinstance(record, dict):
        return record
    try:
        call = ast.parse(record, mode="eval").body
        if not isinstance(call, ast.Call):
            raise ValueError("no call")
        # the repr of an infinite number is a name
        return {
            str(item.arg): float(item.value.id) if isinstance(item.value, ast.Name) else ast.literal_eval(item.value)
            for item in call.keywords
        }
    except (SyntaxError, TypeError, ValueError, RecursionError, MemoryError) as error:
        raise CheckpointError(f"{path / STATE_FILE} is damaged: its settings are {record!r:.100}") from error


def check_agents(path: Path, agents: Sequence[str]) -> None:
    """Refuse a checkpoint of other agents, before any model is loaded.

    Args:
        path: Checkpoint or run, see `resolve`.
        agents: Agents of the environment, in the order of the team.

    Raises:
        CheckpointError: The checkpoint is of another team, is damaged, or there is none.
    """
    path = resolve(path)
    found = read_state(path)["team"]
    if list(found) != list(agents):
        raise CheckpointError(
            f"checkpoint {path} is of another team: found agents {', '.join(found)}, wanted {', '.join(agents)}"
        )


def _check_same_team(path: Path, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    for agent, description in wanted.items():
        if found[agent] != description:
            raise CheckpointError(
                f"checkpoint {path} does not fit agent {agent!r}: found {found[agent]}, wanted {description}"
            )
