"""Build the draft of an AIME-style problem: boxed integer answer, reduced modulo 1000 if larger than 999."""

from envs_data.build.draft import Draft
from envs_data.build.math.latex import box


def contest(parameters: tuple[object, ...], problem: str, reasoning: str, answer: int) -> Draft:
    """Return a draft whose solution is the reasoning followed by the boxed answer.

    AIME answers have at most three digits, so for a larger answer the problem asks for its remainder modulo 1000.

    Args:
        parameters: Values that determine the answer.
        problem: LaTeX text of the problem.
        reasoning: LaTeX text that ends just before the answer.
        answer: Answer before reduction, a natural number.

    Raises:
        ValueError: The answer is negative.
    """
    if answer < 0:
        raise ValueError(f"{problem!r}: found answer {answer}, wanted a natural number")
    final = f"${box(answer)}$."
    if answer > 999:
        problem = f"{problem} Give the remainder when the answer is divided by $1000$."
        final = f"${answer}$. The remainder modulo $1000$ is ${box(answer % 1000)}$."
    row = {"Problem": problem, "Solution": f"{reasoning} {final}", "Answer": str(answer % 1000)}
    return Draft(parameters, row)
