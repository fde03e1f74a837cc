"""`math`: competition-style problems in LaTeX over the seven subjects and five levels of MATH.

Every answer is computed exactly with integers and fractions when the problem is generated. The tests recompute it
by brute force or with sympy. Columns are those of the original data set.
"""

from envs_data.build.draft import SetSpec
from envs_data.build.math.algebra import algebra
from envs_data.build.math.counting import counting
from envs_data.build.math.geometry import geometry
from envs_data.build.math.intermediate_algebra import intermediate_algebra
from envs_data.build.math.number_theory import number_theory
from envs_data.build.math.prealgebra import prealgebra
from envs_data.build.math.precalculus import precalculus

SUBJECTS = (prealgebra, algebra, number_theory, counting, geometry, intermediate_algebra, precalculus)

SPEC = SetSpec(
    name="math",
    description="Competition-style problems in LaTeX, seven subjects and five levels as in MATH, made from "
    "templates: train and test share templates, never with the same numbers. Easier and more uniform"
    " than the original.",
    groups=tuple(group for subject in SUBJECTS for group in subject.groups()),
    text_column="problem",
    columns=("problem", "level", "type", "solution"),
)
