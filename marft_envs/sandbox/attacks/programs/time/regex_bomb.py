"""A regular expression that backtracks for centuries."""
import re

print(re.match(r"(a+)+$", "a" * 60 + "b"))
