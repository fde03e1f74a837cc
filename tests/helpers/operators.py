"""Count the operators that a GPU would launch, on the CPU."""

import collections

import torch
from torch.nn.attention import flex_attention
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from marft_agents.models import fused_layers

# operators that only describe memory anew, or reserve it
VIEWS = {
    *("view", "transpose", "expand", "unsqueeze", "slice", "select", "permute", "detach", "t", "_unsafe_view", "alias"),
    *("as_strided", "split", "split_with_sizes", "squeeze", "unbind", "_reshape_alias", "reshape", "empty", "unfold"),
    *("empty_strided", "empty_like", "new_empty", "lift_fresh", "diagonal"),
}


class Operators(TorchDispatchMode):
    """Counts of the dispatched operators by name, without views.

    What is one kernel on CUDA counts one: RMSNorm and its gradient, scaled dot-product attention, and FlexAttention.
    """

    def __init__(self):
        super().__init__()
        self.counts = collections.Counter()
        self._inside = 0
        self._fused = _Fused(self)

    @property
    def total(self):
        return sum(self.counts.values())

    def __enter__(self):
        self._fused.__enter__()
        self._of_norms = fused_layers._Norm.backward
        fused_layers._Norm.backward = staticmethod(lambda *given: self.as_one("rms_norm", self._of_norms, *given))
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        fused_layers._Norm.backward = self._of_norms
        self._fused.__exit__(*error)

    def as_one(self, name, function, *args, **kwargs):
        self.counts[name] += not self._inside
        self._inside += 1
        try:
            return function(*args, **kwargs)
        finally:
            self._inside -= 1

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        name = operator.overloadpacket.__name__
        if not self._inside and name not in VIEWS:
            self.counts[name] += 1
        return operator(*args, **kwargs or {})


class _Fused(TorchFunctionMode):
    def __init__(self, operators):
        super().__init__()
        self._operators = operators
        self._names = {
            torch.nn.functional.rms_norm: "rms_norm",
            torch.nn.functional.scaled_dot_product_attention: "attention",
            flex_attention.flex_attention: "attention",
        }

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function not in self._names:
            return function(*args, **kwargs or {})
        return self._operators.as_one(self._names[function], function, *args, **kwargs or {})
