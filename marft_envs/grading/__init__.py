r"""Grading of mathematical answers with bounded time and memory.

>>> grade_math(r"The answer is $\boxed{\frac{1}{2}}$.", "0.5").correct
True
"""

from marft_envs.grading.extraction import boxed_answers, differing_boxes, extract, last_boxed
from marft_envs.grading.grade import Grade, equivalent, grade_math

__all__ = ["Grade", "boxed_answers", "differing_boxes", "equivalent", "extract", "grade_math", "last_boxed"]
