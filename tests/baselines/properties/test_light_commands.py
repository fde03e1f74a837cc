"""Help and light commands need none of the packages that training does; the other commands say what to install."""

import json
import subprocess
import sys

import pytest

from baselines.cli.main import AGENT_PACKAGES, COMMANDS, main

DUO = ["marft/gsm8k_duo-v0", "--data", "embedded:stories"]
LIGHT = {
    "help": ["--help"],
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
HEAVY = [name for name in COMMANDS if name in ("train", "sft", "eval", "bench", "attribute", "serve", "push", "vllm")]
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
        HEAVY, without_agent_packages([[name, "--help"] for name in HEAVY]), strict=True
    ):
        assert (name, code, out) == (name, 1, "")
        assert "pip install 'marft[agents]'" in error
        assert error.count("\n") == 1


def test_an_unknown_command_is_bad_usage_and_names_those_there_are(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["trian"])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert all(repr(name) in error for name in ("trian", *COMMANDS))
