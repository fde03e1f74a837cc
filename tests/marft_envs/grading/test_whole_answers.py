"""Only a whole answer counts: nothing left over, no word lost, no name mistaken for a factor."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marft_envs.grading import equivalent
from marft_envs.grading.answer_parser import read
from marft_envs.grading.grade import decide

_COMMANDS = r"""
\bmod \mod \pmod \iff \implies \Rightarrow \Leftrightarrow \rightarrow \to \mapsto \therefore \because \dots \ldots
\cdots \vdots \ddots \propto \perp \parallel \in \notin \ni \subset \subseteq \supset \cup \cap \land \lor \neg \forall
\exists \mid \nmid \vdash \models \oplus \otimes \odot \circ \bullet \star \ast \dagger \wr \sqcup \uplus \bowtie \ll
\gg \prec \succ \asymp \doteq \quad \, \; \! \: \hspace{1cm} \phantom{x} \color{red} \cdot \times \div \pm \mp \nabla
\partial \prime \degree ^\circ \% \$ \& \_ \# \overline \underline \hat \vec \sqrt \frac \binom \choose \over \sum \prod
\int \lim \log \sin \max \gcd \boxed \fbox \footnote{x} \tag{x} \label{x} \mathrm{d} \angle \triangle \square
\checkmark \emptyset \infty \approx \sim \simeq \cong \equiv \ne \le \ge \setminus \backslash \text{or} \text{then}
"""
COMMANDS = _COMMANDS.split()
symbols = st.characters(categories=["Sm", "So", "Sk", "Sc", "Po", "Pd", "Ps", "Pe", "Zs"]).map(str)
unknown_commands = st.from_regex(r"\\[A-Za-z]{1,9}", fullmatch=True)
words = st.from_regex(r"\\text\{ [a-z]{1,9}( [a-z]{1,9}){0,2} \}", fullmatch=True)
separators = st.sampled_from(COMMANDS) | symbols | unknown_commands | words


@given(separators, st.sampled_from(["en", "zh"]))
def test_two_numbers_are_not_graded_as_the_last(separator, language):
    for answer in (f"3 {separator} 7", f"3{separator} 7", f"3 {separator}{{7}}", f"3 {separator} (7)"):
        assert not equivalent("7", answer, language)
    assert not equivalent("x=7", f"x=3 {separator} x=7", language)


@pytest.mark.parametrize("answer", [r"1+2+3+\dots+99", r"1+\foo{3}", "1 ?", r"1 \checkmark", "1 2"])
def test_what_is_not_read_to_its_end_has_no_tree(answer):
    assert read(answer).tree is None
    for gold in ("1", "2", "3", "99"):
        assert decide(gold, answer).same is None


@pytest.mark.parametrize(
    ("gold", "answer", "same"),
    [
        ("5", r"\boxed{5}", True),
        ("5", r"$\boxed{5}$", True),
        ("5", r"3\boxed{5}", False),  # the box in the box is not the whole answer
        ("5", r"\boxed{3} \boxed{5}", False),
        ("x=5", "x=2+3=5", True),
        ("x=5", "x=2+4=5", True),  # working is not graded
        ("x=5", "x=3=5", False),
        ("x=7", "x=3x=7", False),
        ("x=y=2", "y=x=2", True),
        ("x=y=2", "x=2", False),
        (r"\frac12\begin{pmatrix}2&4\end{pmatrix}", r"\begin{pmatrix}1&2\end{pmatrix}", True),
        (r"\begin{pmatrix}1 2\end{pmatrix}", r"\begin{pmatrix}1&2\end{pmatrix}", False),
        (r"\sum_{k=1}^{4}k", "10", True),
        (r"\prod_{k=1}^{4}k", "24", True),
        (r"\lim_{x\to 0}\frac{\sin x}{x}", "1", True),
        (r"S=\sum_{k=1}^{4}k=11", "S=11", False),  # math-verify would take the last part of a chain
    ],
)
def test_parts_beside_the_answer(gold, answer, same):
    assert equivalent(gold, answer) is same
    assert equivalent(answer, gold) is same
