"""Experiments with MARFT: the front door in Python, the `marft` command, the quickstart, and other RL libraries.

from baselines import Experiment, evaluate, report

Experiment("marft/gsm8k_duo-v0", updates=12).run("runs/duo", print)
print(evaluate("runs/duo", "runs/duo/test", limit=100).accuracy)
report.write("runs/duo")
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from baselines.experiment.evaluation import evaluate
    from baselines.experiment.experiment import Experiment

__all__ = ["Experiment", "evaluate"]
__version__: str  # version of the installed distribution `marft`, read when it is first asked for

if not TYPE_CHECKING:  # for a type checker, a module with `__getattr__` has every name

    def __getattr__(name: str) -> Any:
        if name == "Experiment":
            from baselines.experiment.experiment import Experiment

            return Experiment
        if name == "evaluate":
            from baselines.experiment.evaluation import evaluate

            return evaluate
        if name == "__version__":
            from importlib.metadata import version  # takes 40 ms, a multiple of the rest of a light import

            return version("marft")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
