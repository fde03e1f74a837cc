"""Sandboxed judge for untrusted programs: see `Judge`."""

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
