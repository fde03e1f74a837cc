"""`gsm8k`: grade-school word problems with two to six steps and worked solutions.

Each calculation in a solution is written as <<48/2=24>>, as in the original, and computed by `worked.evaluate`.
"""

from envs_data.build.draft import Group, SetSpec
from envs_data.build.gsm8k import daily, shopping, travel

SPEC = SetSpec(
    name="gsm8k",
    description="Grade-school word problems with two to six steps and worked solutions in the style of GSM8K, "
    "made from 36 templates: train and test share templates, never with the same numbers.",
    groups=(
        Group("shopping", shopping.TEMPLATES, 180, 72),
        Group("daily", daily.TEMPLATES, 180, 72),
        Group("travel", travel.TEMPLATES, 180, 72),
    ),
    text_column="question",
    columns=("question", "answer"),
)
