"""Sandboxed judge for untrusted programs: see `Judge`.

A submission takes this way through the modules:

| module | holds |
|---|---|
| `judge_data`, `languages`, `checkers` | submissions, limits, verdicts; build and run commands; checkers of outputs |
| `judge`, `selftest` | the judge, and the choice of its backend by attacking it |
| `shared_judges`, `ray_judge` | one judge per process and backend; a judge on the machines of a Ray cluster |
| `pool` | a queue, and a thread for each slot |
| `submission_run`, `build_cache`, `compiled_headers` | one submission on a slot: build, run, rule, check |
| `split_submission` | its tests, if idle slots help |
| `slot` | one jail, and the connection to its runner |
| `docker_backend`, `docker_engine`, `image` | slots that are containers |
| `local_backends`, `local_runner`, `host_machine` | slots that are processes of this machine |
| `jail` | the runner: modules that run inside of each jail |
| `attacks` | the suite of hostile programs |
"""

from marft_envs.sandbox.checkers import Check, Checker, ProgramChecker, read_checker
from marft_envs.sandbox.judge import Judge
from marft_envs.sandbox.judge_data import Judgement, Limits, SandboxError, Submission, Test, TestResult, Verdict
from marft_envs.sandbox.languages import LANGUAGES, Language, add_language

__all__ = [
    "LANGUAGES",
    "Check",
    "Checker",
    "Judge",
    "Judgement",
    "Language",
    "Limits",
    "ProgramChecker",
    "SandboxError",
    "Submission",
    "Test",
    "TestResult",
    "Verdict",
    "add_language",
    "read_checker",
]
