"""Graders for the tests, as a user writes them."""

import math


def first_letter(answer, task):
    return answer[:1] == task.answer[:1]


def half(answer, task):
    return 0.5


def broken(answer, task):
    raise RuntimeError("no such thing")


def not_a_number(answer, task):
    return math.nan


def two_turns(answer, task, trajectory):
    return len(trajectory) == 2
