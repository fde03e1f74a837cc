"""Stacked LoRA adapters against PEFT's own, row by row."""

import copy

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from marft_agents.generation.continuous_batching import Prompt, generate
from marft_agents.generation.sampling import SamplingParams
from marft_agents.learning.pass_size import PassSize
from marft_agents.learning.scoring import LogProbScorer
from marft_agents.models import adapter_stack
from marft_agents.models.adapted_base import AdaptedBase
from marft_agents.models.adapter_stack import AdapterStack
from marft_agents.models.base_settings import AUTO, LoraSettings
from marft_agents.models.pretrained import load
from marft_agents.models.random_models import LINEAR_LAYERS
from tests.helpers.adapted_models import stir
from tests.helpers.operators import Operators

CPU = torch.device("cpu")
TEAM = [f"a_{i}" for i in range(5)]
TARGETS = {"default": ("q_proj", "v_proj"), "linear": LINEAR_LAYERS, "with the head": AUTO}
ROWS = [0, 4, None, 2, 2, 1, 3, None]  # adapter of each row


def team_base(targets=AUTO, *, names=TEAM, rank=8, dtype=torch.float32):
    base = AdaptedBase(
        load("tiny", device=CPU, dtype=dtype), names, LoraSettings(targets=targets, rank=rank, alpha=12), seed=0
    )
    stir(base)
    base.refresh_adapters()
    return base


def named(base, numbers):
    return [None if number is None else base.adapters[number] for number in numbers]


def some_ids(rows, length=7):
    return torch.as_tensor(np.random.default_rng(0).integers(5, 200, (rows, length)))


def by_peft(base, ids, adapters):
    """Logits of each row, by PEFT with that row's adapter alone."""
    rows = []
    for row, adapter in zip(ids, adapters, strict=True):
        with base.active_adapter(adapter):
            rows.append(base.peft(input_ids=row[None]).logits[0])
    return torch.stack(rows)


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("targets", TARGETS)
def test_each_row_is_that_of_peft_with_its_own_adapter(targets, dtype):
    base = team_base(TARGETS[targets], dtype=dtype)
    ids, adapters = some_ids(len(ROWS)), named(base, ROWS)
    with base.active_adapters(adapters):
        found = base.peft(input_ids=ids).logits
    wanted = by_peft(base, ids, adapters)
    assert found.dtype == dtype
    assert (found - wanted).abs().max() < (2e-6 if dtype == torch.float32 else 0.05) * wanted.abs().max()
    assert (wanted[0] - wanted[2]).abs().max() > 0.1 * wanted.abs().max()  # the adapters matter


@torch.no_grad()
@pytest.mark.parametrize("rank", [2, 8])  # stacked ranks 10 and 40 beside a width of 32: masks, and products by adapter
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_runs_of_rows_are_those_of_peft(rank, dtype):
    base = team_base(LINEAR_LAYERS, rank=rank, dtype=dtype)
    layer = base.trunk.layers[1].mlp.down_proj, base.trunk.layers[1].mlp.gate_proj
    sizes, adapters = [3, 1, 4, 2], named(base, [3, None, 0, 4])
    for module in layer:
        x = torch.randn(1, sum(sizes), module.in_features, generator=torch.Generator().manual_seed(0)).to(dtype)
        for inputs in (x, x[0]):
            with base.active_adapters(adapters, sizes):
                found = module(inputs)
            wanted = []
            for adapter, part in zip(adapters, inputs.split(sizes, dim=-2), strict=True):
                with base.active_adapter(adapter):
                    wanted.append(module(part))
            error = (found - torch.cat(wanted, dim=-2)).abs().max()
            assert error < (2e-6 if dtype == torch.float32 else 1e-2) * found.abs().max()


def test_wide_stacks_are_multiplied_by_adapter(monkeypatch):
    shapes = []
    bmm = torch.bmm
    monkeypatch.setattr(torch, "bmm", lambda a, b: shapes.append(a.shape) or bmm(a, b))
    for rank, calls in ((2, 0), (8, 2)):
        base = team_base(("down_proj",), rank=rank)
        shapes.clear()
        with torch.no_grad(), base.active_adapters(named(base, [0, 1]), [3, 2]):
            base.trunk.layers[0].mlp.down_proj(torch.zeros(5, 64))
        assert len(shapes) == calls


@torch.no_grad()
def test_ranks_and_scales_may_differ():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.q_proj, self.k_proj, self.v_proj = nn.Linear(16, 12), nn.Linear(16, 4), nn.Linear(16, 4)

        def forward(self, x):
            return torch.cat([self.q_proj(x), self.k_proj(x), self.v_proj(x)], dim=-1)

    torch.manual_seed(0)
    settings = {"r": 2, "lora_alpha": 3, "target_modules": ["q_proj", "k_proj", "v_proj"], "init_lora_weights": False}
    peft = get_peft_model(Block(), LoraConfig(**settings), adapter_name="x_0")
    peft.add_adapter("x_1", LoraConfig(**{**settings, "r": 5, "lora_alpha": 7, "use_rslora": True}))
    peft.add_adapter("x_2", LoraConfig(**{**settings, "r": 3, "rank_pattern": {"k_proj": 1}}))
    x = torch.randn(4, 3, 16)
    wanted = []
    for row, name in zip(x, ("x_1", "x_2", "x_0", "x_1"), strict=True):
        peft.set_adapter(name)
        wanted.append(peft(row))
    stack = AdapterStack(peft, {"first": "x_0", "second": "x_1", "third": "x_2"})
    stack.refresh()
    numbers = [stack.number(name) for name in ("second", "third", "first", "second")]
    with stack.rows(torch.tensor(numbers)[:, None]):
        found = peft(x)
    assert (found - torch.stack(wanted)).abs().max() < 1e-5
    order, runs = [1, 2, 0], [3, 3, 3]
    for widest in (0.0, 10.0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(adapter_stack, "WIDEST", widest)
            with stack.runs(order, runs):
                found = peft(x[:3].reshape(9, 16))
        assert (found - torch.cat(wanted[:3])).abs().max() < 1e-5


@torch.no_grad()
@pytest.mark.parametrize("number", [float("inf"), float("nan"), -float("inf")])
def test_an_adapter_that_is_not_finite_is_refused_by_name_and_changes_nobody_else(number):
    base = team_base()
    ids, others = some_ids(4), named(base, [0, 2, None, 4])
    with base.active_adapters(others):
        wanted = base.peft(input_ids=ids).logits
    tensor = list(base.parameters("a_1").values())[3]
    kept = tensor.data.clone()
    tensor.data[1, 1] = number
    base.refresh_adapters()
    with base.active_adapters(others):
        assert torch.equal(base.peft(input_ids=ids).logits, wanted)
    with pytest.raises(FloatingPointError, match="'a_1' holds numbers that are NaN or infinite"):
        base.active_adapters(["a_0", "a_1"])
    prompts = [Prompt(ids[0].numpy().astype(np.int32), np.random.default_rng(0), name) for name in ("a_0", "a_1")]
    with pytest.raises(FloatingPointError, match="'a_1'"):
        generate(base, prompts, SamplingParams(max_new_tokens=2))
    tensor.data = kept
    base.refresh_adapters()
    with base.active_adapters(["a_0", "a_1"]):
        assert base.peft(input_ids=ids[:2]).logits.isfinite().all()


@torch.no_grad()
def test_a_traced_pass_sees_refreshed_adapters_and_other_rows():
    """Operators of one pass, run again on the same buffers, read their new content, as a CUDA graph needs."""
    base = team_base(LINEAR_LAYERS)
    layer = base.trunk.layers[0].mlp

    def step(x, numbers):
        with base.adapters_of_rows(numbers):
            return layer(x)

    x = torch.randn(6, 1, 32)
    numbers = torch.tensor([0, 1, 2, 3, 4, 5])[:, None]
    traced = make_fx(step)(x, numbers)
    for tensor in base.parameters("a_2").values():
        tensor.data = tensor.data.flip(0)
    base.refresh_adapters()
    for rows in (numbers, numbers.flip(0), torch.full_like(numbers, 2)):
        assert torch.equal(traced(x, rows), step(x, rows))


@torch.no_grad()
@pytest.mark.parametrize(("targets", "most"), [("default", 12), ("linear", 4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_number_of_operators_does_not_depend_on_the_number_of_adapters(targets, most, dtype):
    counts = []
    for count in (1, most):
        base = team_base(TARGETS[targets], names=[f"a_{i}" for i in range(count)], rank=2, dtype=dtype)
        numbers = torch.arange(8)[:, None] % count
        with Operators() as operators, base.adapters_of_rows(numbers):
            base.trunk(input_ids=some_ids(8))
        counts.append(operators.counts)
        assert "_local_scalar_dense" not in operators.counts  # a host read
    assert counts[0] == counts[1]


@pytest.mark.parametrize("targets", TARGETS)
def test_the_ratio_on_the_first_pass_is_one_for_every_adapter_of_a_batch(targets):
    base = team_base(TARGETS[targets])
    sampling = SamplingParams(max_new_tokens=9)
    rng = np.random.default_rng(0)
    adapters = named(base, [*ROWS, *ROWS])
    common = rng.integers(5, 200, 10)
    prompts = [np.concatenate([common, rng.integers(5, 200, rng.integers(1, 6))]).astype(np.int32) for _ in adapters]
    asked = [Prompt(ids, np.random.default_rng(i), a) for i, (ids, a) in enumerate(zip(prompts, adapters, strict=True))]
    actions = generate(base, asked, sampling, max_rows=11)
    for adapter in dict.fromkeys(adapters):
        own = [action for action, name in zip(actions, adapters, strict=True) if name == adapter]
        found = LogProbScorer(sampling, PassSize(16)).score(base, adapter, own).logprobs.detach().numpy()
        assert np.abs(found - np.concatenate([action.logprobs for action in own])).max() < 3e-5


def test_a_copy_of_a_base_has_a_stack_of_its_own():
    base = team_base(names=["a_0", "b_0"])
    ids = some_ids(2)
    with torch.no_grad(), base.active_adapters(["a_0", "b_0"]):
        wanted = base.peft(input_ids=ids).logits
    other = copy.deepcopy(base)
    for tensor in other.parameters("a_0").values():
        tensor.data = 2 * tensor.data
    other.refresh_adapters()
    with torch.no_grad(), base.active_adapters(["a_0", "b_0"]):
        assert torch.equal(base.peft(input_ids=ids).logits, wanted)
