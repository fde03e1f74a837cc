"""`aime`: contest problems with integer answers from 0 to 999."""

from envs_data.build.aime import algebra, counting, geometry, number_theory
from envs_data.build.draft import Group, SetSpec

SPEC = SetSpec(
    name="aime",
    description="Contest problems with answers 0..999 in number theory, counting, algebra and geometry, made "
    "from 32 templates: train and test share templates, never with the same numbers. Harder than the"
    " set math, easier than the AIME.",
    groups=(
        Group("number-theory", number_theory.TEMPLATES, 44, 20),
        Group("counting", counting.TEMPLATES, 44, 20),
        Group("algebra", algebra.TEMPLATES, 44, 20),
        Group("geometry", geometry.TEMPLATES, 44, 20),
    ),
    text_column="Problem",
    columns=("ID", "Problem", "Solution", "Answer"),
    number="ID",
)
