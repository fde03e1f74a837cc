"""Modules `trackio` and `wandb` that keep what they are given; their signatures are those of the real ones.

`test_trackers.py` compares the signatures with the installed packages (slow).
"""

from __future__ import annotations

from types import ModuleType, SimpleNamespace


class FakeRun:
    """A run of either package."""

    def __init__(self, **given):
        self.given, self.logged, self.alerts, self.finished = given, [], [], 0
        self.axes = []

    def log(self, metrics, step=None):
        self.logged.append((step, metrics))

    def alert(self, title, text=None, level=None, step=None):
        self.alerts.append((title, text))

    def define_metric(self, name, step_metric=None):
        self.axes.append((name, step_metric))

    def finish(self):
        self.finished += 1


class Fake(ModuleType):
    """A package that is installed, and keeps its runs.

    Attributes:
        runs: Runs in the order of their `init`.
    """

    def __init__(self, name):
        super().__init__(name)
        self.__spec__ = SimpleNamespace(origin=f"{name}.py")
        self.runs = []
        self.Trace = lambda messages, metadata=None, spans=None: SimpleNamespace(
            messages=messages, metadata=metadata, spans=spans
        )
        self.Settings = lambda **settings: settings

    def init(self, **given):
        print(f"{self.__name__} says hello")
        self.runs.append(FakeRun(**given))
        return self.runs[-1]

    def finish(self):
        self.runs[-1].finish()
