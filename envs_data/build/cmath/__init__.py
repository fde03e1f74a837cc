"""`cmath`: Chinese word problems for the six grades of primary school, with the columns of CMATH."""

from envs_data.build.cmath import grade1, grade2, grade3, grade4, grade5, grade6
from envs_data.build.draft import Group, SetSpec

SPEC = SetSpec(
    name="cmath",
    description="Chinese word problems of grades 1 to 6 with whole, decimal, fractional and percent answers, "
    "made from 72 templates: train and test share templates, never with the same numbers.",
    groups=tuple(
        Group(f"grade{number}", grade.TEMPLATES, 60, 36)
        for number, grade in enumerate((grade1, grade2, grade3, grade4, grade5, grade6), start=1)
    ),
    text_column="question",
    columns=("grade", "question", "golden", "reasoning_step", "num_digits"),
)
