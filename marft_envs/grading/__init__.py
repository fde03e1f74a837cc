r"""Grading of mathematical answers with bounded time and memory.

| module | does |
|---|---|
| `grade` | runs the tiers and returns the verdict |
| `extraction` | finds the final answer in a text |
| `numerals`, `lexer` | turn the answer into tokens |
| `expression_parser`, `answer_parser` | turn the tokens into a tree of `expression.Node` |
| `comparison`, `number_comparison`, `real_sets` | compare two trees |
| `evaluation`, `units` | compute the values of numbers and units |
| `words` | tell if the words beside two numbers agree |
| `symbolic`, `symbolic_worker` | ask math-verify, in a process of its own |
| `limits` | bounds of all of them, with their errors |

>>> grade_math(r"The answer is $\boxed{\frac{1}{2}}$.", "0.5").correct
True
"""

from marft_envs.grading.extraction import boxed_answers, differing_boxes, extract, last_boxed
from marft_envs.grading.grade import Grade, equivalent, grade_math

__all__ = ["Grade", "boxed_answers", "differing_boxes", "equivalent", "extract", "grade_math", "last_boxed"]
