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
        ("5", r"\boxed{\boxed{5}}", True),
        ("5", r"So the answer is: \[ \boxed{5} \]", True),
        ("5", r"So the answer is not $\boxed{5}$.", False),
        ("5", r"The sum of 3 is $\boxed{5}$.", False),
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


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("f(2x)", "f(x+x)", True),
        ("f(x)g(x)", "g(x)f(x)", True),
        ("T(n)=2T(n/2)+n", r"T(n)=n+2T\left(\frac n2\right)", True),
        ("f(2)=5", "5", True),
        ("a(b+c)", "ab+ac", True),
        ("x(x+1)", "x^2+x", True),
        ("k(n+1)", "kn+k", True),
        ("f(2x)", "2f(x)", False),
        ("f(g(x))", "g(f(x))", False),
        ("fg(x)", "gf(x)", False),
        ("f(0)", "0", False),
        ("f(b+c)", "fb+fc", False),
        ("xf(2x)", "2xf(x)", False),
        ("f(x,y)", "f(y,x)", False),
        ("f'(2x)", "2f'(x)", False),
        ("f^{-1}(x)", r"\frac{1}{f(x)}", False),
        ("P(A|B)=0.5", "P(B|A)=0.5", False),
    ],
)
def test_applied_functions_are_no_products(first, second, same):
    assert equivalent(first, second) is same
    assert equivalent(second, first) is same


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (r"\angle ABC", r"\angle CBA", True),
        (r"\angle ABC", r"\angle BAC", False),
        ("∠A'B'C'", r"\angle B'A'C'", False),
        (r"\angle ABC=60^\circ", r"60^\circ", True),
        (r"\triangle ABC", r"\triangle BCA", True),
        (r"\triangle ABC\cong\triangle DEF", r"\triangle EFD\cong\triangle BCA", True),
        (r"\triangle ABC\cong\triangle DEF", r"\triangle ABC\cong\triangle FED", False),
        (r"\triangle ABC\cong\triangle DEF", r"\triangle ABC\sim\triangle DEF", False),
        (r"\overline{AB}", r"\overline{BA}", True),
        (r"\overline{abc}", r"\overline{cba}", False),  # digits of a number
        (r"\overrightarrow{AB}", r"\overrightarrow{BA}", False),
        (r"\overrightarrow{AB}", r"-\overrightarrow{BA}", True),
        (r"\overrightarrow{AB}+\overrightarrow{BC}", r"\overrightarrow{AC}", True),
        (r"\overrightarrow{AB}=2\overrightarrow{DC}", r"2\overrightarrow{CD}=\overrightarrow{BA}", True),
        (r"x\to 0^+", r"x\to 0^{+}", True),
        (r"x\to 0^+", r"x\to 0^-", False),
        (r"0^+", "0", False),
    ],
)
def test_names_of_points_and_sides(first, second, same):
    assert equivalent(first, second) is same
    assert equivalent(second, first) is same


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (r"a\times b", r"b\times a", True),  # not marked
        (r"\vec a\times\vec b", r"\vec b\times\vec a", False),
        (r"\vec a\times\vec b", r"b\times a", False),
        (r"\vec a\times\vec b", r"-\mathbf{b}\times\mathbf{a}", True),
        (r"2\vec a\times\vec b", r"2(\vec a\times\vec b)", True),
        (r"\vec a\times\vec b", r"\vec a\cdot\vec b", False),
        (r"\vec a\cdot\vec b", r"\vec b\cdot\vec a", True),
        (r"\vec a\cdot\vec a", r"|\vec a|^2", True),
        (r"(\vec a\times\vec b)\cdot\vec c", r"\vec a\cdot(\vec b\times\vec c)", True),
        (r"(\vec a\times\vec b)\times\vec c", r"\vec a\times(\vec b\times\vec c)", False),
        (r"(\vec a\cdot\vec b)\vec c", r"\vec a(\vec b\cdot\vec c)", False),
        (r"\vec a\times(\vec b\times\vec c)", r"(\vec a\cdot\vec c)\vec b-(\vec a\cdot\vec b)\vec c", True),
        (r"3\hat{i}+4\hat{j}", "3i+4j", True),
        (r"\mathbf{A}", "A", True),  # a choice
        (r"\vec a-\vec a", "0", True),
        (r"\vec a+1", r"1+\vec a", False),  # has no value
    ],
)
def test_products_of_vectors(first, second, same):
    assert equivalent(first, second) is same
    assert equivalent(second, first) is same
