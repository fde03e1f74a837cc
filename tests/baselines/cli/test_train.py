"""Wrong flags of `marft train` are refused before a model is loaded, and leave nothing behind."""

import dataclasses
import importlib.util
import sys
import typing
from types import SimpleNamespace

import pytest
import torch  # noqa: F401 - else the first command says that it loads it

from baselines.cli.main import build_parser, main
from baselines.cli.settings_flags import flag
from baselines.cli.train import experiment_of
from baselines.experiment.experiment import ATTRIBUTES, SETTINGS
from baselines.experiment.presets import PRESETS
from marft_common.installation import pip_install

DUO = ["--env", "marft/math_duo-v0", "--data", "embedded:stories", "--device", "cpu"]
NO_MODEL = ["--model", "no-such-model"]  # loading it fails: any other error came first
TWO_MODELS = ["--model", "reasoner_0=no-such-model", "--model", "actor_0=nor-this"]
NOBODY = "http://127.0.0.1:9/v1"
FLOATS = [
    field.name
    for kind, _ in SETTINGS.values()
    for field in dataclasses.fields(kind)
    if typing.get_type_hints(kind)[field.name] in (float, float | None)
]


def error_of(capsys, *arguments):
    assert main(["train", *DUO, *map(str, arguments)]) == 1
    error = capsys.readouterr().err
    assert "model 'no-such-model' is neither a folder" not in error
    assert error.startswith("marft: error: ")
    assert error.count("\n") == 1
    return error


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [
        (["--temperature", "0"], ["temperature = 0", "wanted > 0"]),
        (["--sampler", NOBODY], [NOBODY, "APIConnectionError"]),
        (["--sampler", NOBODY, "--top-p", "0.9"], ["top_p = 0.9 without top_k"]),
        (["--sampler", "hf"], ["'hf'", "own, vllm"]),
        (["--track", "wandb,neptun"], ["track = ('wandb', 'neptun')", "wanted some of tensorboard, trackio, wandb"]),
        (["--device", "meta"], ["'meta'", "wanted cpu or cuda[:N]"]),
        (["--device", "mps"], ["'mps'", "wanted cpu or cuda[:N]"]),
        (["--device", "cuda:x"], ["'cuda:x'", "wanted cpu or cuda[:N]"]),
        (["--device", "actor_0=mps"], ["'mps'", "wanted cpu or cuda[:N]"]),
    ],
)
def test_before_the_model(capsys, tmp_path, flags, wanted):
    error = error_of(capsys, *NO_MODEL, *flags, "--out", tmp_path / "deep" / "out")
    assert all(words in error for words in wanted)
    assert list(tmp_path.iterdir()) == []


def test_a_sampler_plays_one_model(capsys, tmp_path):
    error = error_of(capsys, *TWO_MODELS, "--sampler", NOBODY, "--out", tmp_path / "out")
    assert "one base model; this team plays no-such-model, nor-this" in error
    assert list(tmp_path.iterdir()) == []


def test_vllm_does_not_play_the_tiny_model(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: SimpleNamespace(origin=name))
    error = error_of(capsys, "--model", "tiny", "--sampler", "vllm", "--out", tmp_path / "out")
    assert "'tiny' is neither" in error
    assert list(tmp_path.iterdir()) == []


def test_a_tracker_that_is_not_installed(capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    error = error_of(capsys, *NO_MODEL, "--track", "tensorboard,wandb", "--out", tmp_path / "out")
    assert f"--track wandb needs the package wandb: {pip_install('wandb')}" in error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("out", "wanted"), [("file", "it is a file"), ("file/run", "Not a directory"), ("/proc/nope", "No such file")]
)
def test_a_folder_that_can_not_be(capsys, tmp_path, out, wanted):
    (tmp_path / "file").touch()
    error = error_of(capsys, *NO_MODEL, "--out", tmp_path / out)
    assert str(tmp_path / out) in error
    assert wanted in error
    assert "give another --out" in error
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_folder_that_holds_a_run(capsys, tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"update": 0}\n{"update": 1}\n')
    assert "already holds a run" in error_of(capsys, *NO_MODEL, "--out", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]


# ------------------------------------------------------------------ flags


def usage_error(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("name", FLOATS)
def test_a_number_is_finite(capsys, name):
    for text in ("inf", "-inf", "nan", "1e999", "foo"):
        error = usage_error(capsys, "train", f"{flag(name)}={text}")
        assert f"argument {flag(name)}: found '{text}', wanted a finite number" in error


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "--algo", "grpo"),
        ("eval", "--env", "a", "--out", "b", "--temp", "0"),
        ("data", "list", "--js"),
        ("envs", "--js"),
    ],
)
def test_flags_are_not_abbreviated(capsys, arguments):
    assert "unrecognized arguments: --" in usage_error(capsys, *arguments)


def test_help_tells_the_defaults_that_hold():
    """Those of the default preset, and of each other one where it differs."""
    parser = build_parser()
    shown = {action.dest: action for action in parser._subparsers._group_actions[0].choices["train"]._actions}
    for preset in PRESETS:
        told = parser.parse_args(["train", "--env", "marft/math_duo-v0", "--model", "tiny", "--preset", preset])
        experiment = experiment_of(told)
        for name in ("algorithm", "sampler", "canary", "sharing", "dtype"):
            assert f"(default: {getattr(experiment, name)})" in shown[name].help
        told.algorithm = "marft-t"
        of_tokens = experiment_of(told)
        for table, (kind, _) in SETTINGS.items():
            for field in dataclasses.fields(kind):
                shown_for = of_tokens if field.name in ("token_discount", "token_trace_decay") else experiment
                value = getattr(getattr(shown_for, ATTRIBUTES[table]), field.name)
                value = "none" if value is None else ",".join(value) if isinstance(value, tuple) else value
                words = shown[field.name].help.rpartition("(default: ")[2].rstrip(")").split("; ")
                others = [item.removeprefix("preset ").split(": ") for item in words[1:]]
                by_preset = {name: other for names, other in others for name in names.split(", ")}
                assert by_preset.get(preset, words[0]) == str(value), f"{field.name} of preset {preset}"
