"""Competitive programming: problems as data, programs taken from answers, and the task set with its judge."""

from marft_envs.tasks.code.tasks import CodeTasks, Grading, ProgramJudge, Termination, feedback

__all__ = ["CodeTasks", "Grading", "ProgramJudge", "Termination", "feedback"]
