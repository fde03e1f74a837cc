"""Help and light commands need none of the packages that training does; the other commands say what to install."""

import json
import re
import shlex
import subprocess
import sys
from importlib import metadata

import pytest

from baselines.cli.main import AGENT_PACKAGES, COMMANDS, build_parser, main
from baselines.cli.short_help import PAGES
from baselines.experiment import progress
from marft_common.installation import pip_install

DUO = ["marft/gsm8k_duo-v0", "--data", "embedded:stories"]
LIGHT = {
    "help": ["--help"],
    "train help": ["train", "--help"],
    "eval help": ["eval", "--env", "a", "-h"],
    "envs": ["envs", "--json"],
    "show": ["show", *DUO],
    "needs a team": ["check", *DUO, "--needs-team", "--limit", "2"],
    "data": ["data", "list", "--json"],
    "new": ["new", "word_games", "--dir", "{folder}"],
    "scripted": ["play", *DUO, "--policy", "scripted"],
    "random": ["play", *DUO, "--policy", "random"],
    "human": ["play", *DUO, "--policy", "human"],
    "compare": ["compare", "{evaluation}", "{evaluation}"],
    "report": ["report", "{evaluation}", "--out", "{folder}/report.html"],
    "view": ["view", "--help"],
    "sandbox": ["sandbox", "build", "--help"],
    "all flags of train": ["train", "--help-all"],
}
EVALUATION = {
    "env": "marft/gsm8k_duo-v0",
    "settings": {},
    "law": {},
    "scores": [[0.0], [1.0]],
    "tokens": [[4.0], [4.0]],
    "scenario_checksum": "sha256:one",
    "cohorts": {},
}
HEAVY = [name for name, command in COMMANDS.items() if command.loads_torch]
WITHOUT = """
import contextlib, io, json, sys

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, NotInstalled())
from baselines.cli.main import main

def outcome(arguments):
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            code = main(arguments)
        except SystemExit as stopped:
            code = stopped.code
    return code, out.getvalue(), error.getvalue()

print(json.dumps([outcome(arguments) for arguments in {commands!r}]))
"""


def without_agent_packages(commands):
    """Return exit code, output and errors of each command in one process that has no torch and the like."""
    program = WITHOUT.format(missing=sorted(AGENT_PACKAGES), commands=commands)
    done = subprocess.run([sys.executable, "-c", program], input="3\n4\n", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def light(tmp_path_factory):
    folder = tmp_path_factory.mktemp("light")
    evaluation = folder / "evaluation"
    evaluation.mkdir()
    (evaluation / "evaluation.json").write_text(json.dumps(EVALUATION))
    commands = [[part.format(folder=folder, evaluation=evaluation) for part in parts] for parts in LIGHT.values()]
    return dict(zip(LIGHT, without_agent_packages(commands), strict=True))


@pytest.mark.parametrize("case", LIGHT)
def test_a_light_command_works_without_torch(light, case):
    code, out, error = light[case]
    assert (code, error) == (0, "")
    assert out


def test_help_lists_every_command_and_imports_none(light):
    assert all(command.help in " ".join(light["help"][1].split()) for command in COMMANDS.values())
    code = (
        "import sys; from baselines.cli.main import main\n"
        "try: main(['--help'])\n"
        "finally: sys.exit(bool({'numpy', 'rich', 'marft_envs', 'marft_agents'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_a_heavy_command_without_torch_says_what_to_install():
    for name, (code, out, error) in zip(
        HEAVY, without_agent_packages([[name, "--help-all"] for name in HEAVY]), strict=True
    ):
        assert (name, code, out) == (name, 1, "")
        assert pip_install("agents") in error
        assert error.startswith("loading torch ...\n")
        assert error.count("\n") == 2


def test_scripts_are_evaluated_without_torch_and_models_say_what_to_install(tmp_path):
    out = ["--env", DUO[0], "--out", str(tmp_path / "run")]
    scripted = ["eval", "--env", *DUO, "--policy", "scripted", "--limit", "1", "--out", str(tmp_path / "scripted")]
    played, wrong, train, evaluate = without_agent_packages(
        [scripted, ["train", *out, "--groups", "0"], ["train", *out], ["eval", *out, "--model", "tiny"]]
    )
    assert (played[0], json.loads((tmp_path / "scripted/evaluation.json").read_text())["accuracy"]) == (0, 1.0)
    assert wrong == [1, "", "marft: error: groups = 0, wanted >= 1\n"]
    for code, printed, error in (train, evaluate):
        assert (code, printed) == (1, "")
        assert error.startswith("loading torch ...\n")
        assert pip_install("agents") in error
    assert not list(tmp_path.glob("run/*.json*"))


@pytest.mark.parametrize("name", PAGES)
def test_the_short_help_is_short_and_tells_what_the_full_one_does(name, capsys):
    page = PAGES[name]
    assert page.count("\n") < 60
    assert page.count(f"\n  marft {name} --") == 3
    [subparsers] = [action for action in build_parser([name])._actions if isinstance(action.choices, dict)]
    flags = subparsers.choices[name]._option_string_actions
    told = re.findall(r"^  (--[a-z-]+)(.*?)(?=^  --|\n\n)", page, re.MULTILINE | re.DOTALL)
    assert len(told) >= 12
    for flag, text in told:
        for default in re.findall(r"\(default: ([\d.]+)\)", text):
            assert default in re.findall(r"[\d.]*\d", flags[flag].help), flag
    for line in re.findall(rf"^  marft {name} (.*)", page, re.MULTILINE):
        subparsers.choices[name].parse_args(shlex.split(line))
    assert set(re.findall(r"--[a-z-]+", page)) <= {*flags, "--help-all"}
    with pytest.raises(SystemExit) as stopped:
        main([name, "--help-all"])
    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    assert [flag for flag in flags if flag not in shown] == []


def test_a_command_says_that_it_loads_torch_before_it_does():
    code = (
        "import sys; from baselines.cli.main import main\n"
        "print('torch' in sys.modules)\n"
        "try: main([sys.argv[1], '--no-such-flag'])\n"
        "finally: print('torch' in sys.modules)"
    )
    for name in ("bench", "export"):
        done = subprocess.run([sys.executable, "-c", code, name], capture_output=True, text=True, check=False)
        heavy = COMMANDS[name].loads_torch
        assert done.stdout == f"False\n{heavy}\n"
        assert done.stderr.startswith("loading torch ...\n") == heavy


def test_models_are_named_before_they_are_loaded_unless_they_are_remote_or_tiny(monkeypatch):
    names = ["tiny", "tiny-words:a b", "endpoint:http://host/v1#m", "a2a:http://host", "frozen:big", "big"]
    monkeypatch.setitem(sys.modules, "torch", sys)
    assert progress.loading(names) == "loading big ..."
    assert progress.loading(names[:4]) == ""
    monkeypatch.delitem(sys.modules, "torch")
    assert progress.loading(names) == "loading torch and big ..."


def test_marft_alone_prints_its_help(capsys):
    assert main([]) == 0
    assert capsys.readouterr().out == build_parser([]).format_help()


def test_the_version_is_that_of_the_package(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert (stopped.value.code, capsys.readouterr().out) == (0, f"marft {metadata.version('marft')}\n")


@pytest.mark.parametrize(
    ("arguments", "close"),
    [
        (["trian"], "train"),
        (["data", "lst"], "list"),
        (["train", "--learning-rate", "1"], "--policy-lr or --critic-lr"),
        (["train", "--epoch=1"], "--epochs or --ppo-epochs"),
        (["train", "--algorithm", "ppo"], "ppo-a or ppo-t or ippo or mappo"),
        (["envs", "--jsn"], "--json"),
        (["--verison"], "--version"),
        (["train", "marft/math_duo-v0", "--out", "x"], "--env marft/math_duo-v0"),
        (["report", "--compar=runs/b"], "--compare"),
    ],
)
def test_an_unknown_name_gets_the_close_ones(capsys, arguments, close):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert error.endswith(f"; did you mean {close}?\n")
    assert error.count("\n") < 5


def test_a_number_that_is_none_is_told_what_was_found_and_wanted(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--groups", "eight"])
    assert capsys.readouterr().err.endswith("argument --groups: found 'eight', wanted a whole number\n")


def test_a_name_that_is_like_no_other_gets_no_advice(capsys):
    with pytest.raises(SystemExit):
        main(["envs", "--xyzzy"])
    assert capsys.readouterr().err.endswith("unrecognized arguments: --xyzzy\n")


def test_an_unknown_command_is_bad_usage_and_names_those_there_are(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["trian"])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert all(repr(name) in error for name in ("trian", *COMMANDS))
