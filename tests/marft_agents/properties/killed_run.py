"""Train a small run in a process of its own and kill it, once at each of many file operations.

    python killed_run.py FOLDER STRIDE

A parent that has imported everything forks a child per trial. The child trains and is killed (SIGKILL) at its n-th
file operation under the run folder; the next child resumes what it finds. Trial n uses FOLDER/n. Prints a line per
trial: n, how many updates the checkpoint found had, how many updates metrics.jsonl knew.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from pathlib import Path

import torch

from marft_agents.generation.sampling import SamplingParams
from marft_agents.learning.learner import Learner
from marft_agents.learning.settings import LearnerSettings
from marft_agents.runs import checkpoint
from marft_agents.runs.run_folder import RunFolder
from marft_agents.runs.schedule import TrainingSchedule
from marft_agents.runs.trainer import Trainer
from marft_agents.runs.validation import Validator
from tests.helpers.fakes import Market, word_team

UPDATES = 3
SETTINGS = LearnerSettings(
    level="token",
    policy_lr=1e-2,
    critic_lr=1e-2,
    lr_schedule="cosine",
    ppo_epochs=2,
    mini_batches=2,
    value_epochs=2,
    value_mini_batches=3,
    agent_order="random",
)
SUCCESS = (0.5, 0.25, 0.75, 0.75)  # of the validation after so many updates: the best is first 0, then 2
FILE_EVENTS = {"os.symlink", "open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree", "shutil.move"}


class ScriptedValidator(Validator):
    """Plays, and reports what the script says."""

    learner: Learner

    def metrics(self, prefix="validation"):
        played = super().metrics(prefix)
        return played | {f"{prefix}/success": SUCCESS[self.learner.updates]}


def build():
    """Return the team and its learner, as a fresh process would."""
    team = word_team(["buyer_0", "seller_0"], sampling=SamplingParams(max_new_tokens=2, top_p=0.95))
    return team, Learner(team, SETTINGS, seed=1, total_updates=UPDATES)


def trainer(team, learner: Learner, schedule: TrainingSchedule, records: RunFolder) -> Trainer:
    """Return the trainer of the run, with its validator."""
    validator = ScriptedValidator(Market, team, [{"seed": 1}], every=1)
    object.__setattr__(validator, "learner", learner)
    return Trainer(lambda: Market(cut=True), team, learner, schedule, folder=records, validator=validator)


def train(folder: Path, updates: int = UPDATES) -> int:
    """Train a run to its end, from its newest checkpoint if there is one; return the updates it had."""
    team, learner = build()
    done = checkpoint.load(folder, team, learner) if checkpoint.latest(folder / "checkpoints") else 0
    records = RunFolder(folder, {"made by": "a test"}, resume_at=done)
    schedule = TrainingSchedule(updates=updates, groups=4, group_size=1, keep=1)
    trainer(team, learner, schedule, records).run()
    records.close()
    return done


def _die_at(operation: int, folder: Path) -> None:
    left = operation

    def audit(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        if event in FILE_EVENTS and arguments and str(folder) in str(arguments[0]):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(audit)


def _whole_lines(path: Path) -> int:
    return path.read_text(encoding="utf-8").count("\n") if path.exists() else 0


def _child(folder: Path, operation: int | None) -> int:
    """Run a forked child; return its wait status."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            torch.set_num_threads(1)
            if operation is not None:
                _die_at(operation, folder)
            lines = _whole_lines(folder / "metrics.jsonl")
            done = train(folder)
            if operation is None:
                print(folder.name, done, lines, flush=True)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1]


def main() -> int:
    """Kill at operation 1, 1 + stride, ... until a run ends before it is killed."""
    root, stride = Path(sys.argv[1]), int(sys.argv[2])
    import torch.utils.tensorboard  # noqa: F401  (once, not in every child)

    build()  # likewise: transformers and peft load their parts at first use
    operation = 1
    while True:
        folder = root / str(operation)
        status = _child(folder, operation)
        if not os.WIFSIGNALED(status):
            return os.waitstatus_to_exitcode(status)
        if _child(folder, None):
            return 1
        operation += stride


if __name__ == "__main__":
    sys.exit(main())
