"""The child's side of a probe: what is heard is what the layer does, and what is put in counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selectivbench import fla_cpu
from selectivbench.backbone import Backbone, MixerSpec, ModelSpec, mix
from selectivbench.errors import SubmissionError
from selectivbench.probes import fixed
from selectivbench.probes.gates import GATES, unlogsigmoid, unsoftplus
from selectivbench.probes.listening import listen, steer
from selectivbench.profiles import get_profile
from selectivbench.sandbox.child import load
from selectivbench.signals import Signal

FOLDER = Path(__file__).parents[2] / "submissions"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))
T = 70
"""fla chooses other kernels at 64 steps and below."""


def mixer_of(name: str) -> Any:
    source = (FOLDER / f"{name}.py").read_text()
    order: Any = SimpleNamespace(entry=name, origin=f"{name}.py", source=source, folder="")
    return load(order).Mixer


def backbone(mixer: Any, layers: int) -> Backbone:
    size = replace(get_profile("smoke").default_plan.model, n_layers=layers)
    spec = ModelSpec(size.d_model, layers, 0, T, size.n_heads, n_inputs=6, n_classes=4)
    return Backbone(mixer, spec, size).eval()


def network(name: str, layers: int = 2) -> Backbone:
    if "fla" in (FOLDER / f"{name}.py").read_text():
        fla_cpu.enable()
    torch.manual_seed(0)
    model = backbone(mixer_of(name), layers)
    with torch.no_grad():  # a fresh RWKV-7 has no input in its gates yet
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model


def inputs(steps: int = T) -> Tensor:
    return F.one_hot(
        torch.randint(6, (3, steps), generator=torch.Generator().manual_seed(1)), 6
    ).float()


@torch.no_grad()
def heard(model: nn.Module, x: Tensor, own: Any = None) -> tuple[dict[str, Signal], Tensor]:
    signals, y = listen(model, lambda: model(x), own)
    return {signal.key: signal for signal in signals}, y


@torch.no_grad()
def steered(model: nn.Module, x: Tensor, forced: Mapping[str, Tensor]) -> Tensor:
    return steer(model, lambda: model(x), forced)


def gates_of(signals: Mapping[str, Signal]) -> dict[str, Tensor]:
    return {key: torch.tensor(s.values) for key, s in signals.items() if s.gate}


@pytest.mark.parametrize("name", NAMES)
def test_a_probe_hears_every_layer_and_changes_nothing(name: str) -> None:
    model, x = network(name), inputs()
    with torch.no_grad():
        before = model(x)
    signals, during = heard(model, x)
    torch.testing.assert_close(during, before, atol=1e-5, rtol=0)
    assert {key.partition("/")[0].partition(".")[0] for key in signals} == {"0", "1"}
    with torch.no_grad():
        assert torch.equal(model(x), before)  # no ear is left behind


@pytest.mark.parametrize("name", NAMES)
def test_gates_put_back_as_they_were_change_nothing_and_held_still_they_do(name: str) -> None:
    model, x = network(name), inputs()
    signals, before = heard(model, x)
    gates = gates_of(signals)
    if not gates:
        why = [s for s in signals.values() if s.fixed or s.attention]
        assert len(why) == len(signals)
        return
    torch.testing.assert_close(steered(model, x, gates), before, atol=2e-5, rtol=0)
    held = {key: value.mean(dim=(0, 1)) for key, value in gates.items()}
    assert (steered(model, x, held) - before).abs().max() > 1e-3


@pytest.mark.parametrize("name", ["mamba", "mamba2", "gated_delta_net", "lstm", "gru"])
def test_each_gate_counts_alone(name: str) -> None:
    model, x = network(name, layers=1), inputs()
    signals, before = heard(model, x)
    for key, value in gates_of(signals).items():
        after = steered(model, x, {key: value.mean(dim=(0, 1))})
        assert (after - before).abs().max() > 1e-5, key


def test_a_forced_value_may_differ_from_step_to_step() -> None:
    """The forget gate shut at one step: later outputs no longer depend on what came before it."""
    model, x, cut = network("lstm", layers=1), inputs(), 40
    signals, _ = heard(model, x)
    forget = torch.tensor(signals["0.lstm/forget gate"].values)
    forget[:, cut] = 0.0
    output = torch.tensor(signals["0.lstm/output gate"].values)
    other = x.clone()
    other[:, : cut - 1] = x[:, : cut - 1].flip(1)
    held = {"0.lstm/forget gate": forget}
    cells = [_cells(model, x, held), _cells(model, other, held)]
    assert output.shape == forget.shape
    assert (cells[0][:, cut - 2] - cells[1][:, cut - 2]).abs().max() > 1e-3
    assert _cells(model, x, {}).shape == cells[0].shape


def _cells(model: Backbone, x: Tensor, forced: Mapping[str, Tensor]) -> Tensor:
    seen: list[Tensor] = []
    lstm = model.blocks[0].mixer.lstm
    handle = lstm.register_forward_hook(lambda _m, _i, out: seen.append(out[0]))
    steered(model, x, forced)
    handle.remove()
    return seen[0]


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize(
    "options", [{}, {"num_layers": 2}, {"bias": False}, {"batch_first": False}], ids=str
)
def test_the_loop_gives_what_torchs_kernel_gives(kind: Any, options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    module = kind(5, 7, **({"batch_first": True} | options)).eval()
    x = torch.randn(4, 11, 5)
    with torch.no_grad():
        wanted, states = module(x)
        signals, (got, ends) = listen(module, lambda: module(x))
    torch.testing.assert_close(got, wanted, atol=1e-5, rtol=0)
    torch.testing.assert_close(ends, states, atol=1e-5, rtol=0)
    steps = (4, 11) if module.batch_first else (11, 4)
    assert {signal.values.shape for signal in signals} == {(*steps, 7)}


@pytest.mark.parametrize("options", [{"bidirectional": True}, {"proj_size": 3}], ids=str)
def test_what_the_loop_cannot_do_is_said(options: dict[str, Any]) -> None:
    module = nn.LSTM(5, 7, batch_first=True, **options)
    with pytest.raises(SubmissionError, match="one direction, no projection"):
        listen(module, lambda: module(torch.randn(1, 3, 5)))
    assert "forward" not in vars(module)


def test_the_gates_of_fla_are_those_of_its_own_reference_functions() -> None:
    fla_cpu.enable()
    from fla.ops.gated_delta_rule.gate import naive_gdn_gate
    from fla.ops.kda.gate import naive_kda_gate, naive_kda_lowerbound_gate

    torch.manual_seed(0)
    raw = torch.randn(2, 5, 3)
    layer = SimpleNamespace(A_log=torch.randn(3), dt_bias=torch.randn(3))
    value = GATES["GatedDeltaNet"][0].value(layer, raw)
    torch.testing.assert_close(value, naive_gdn_gate(raw, layer.A_log, layer.dt_bias))
    raw = torch.randn(2, 5, 12)
    rows: Any = SimpleNamespace(
        A_log=torch.randn(3), dt_bias=torch.randn(12), head_k_dim=4, lower_bound=None
    )
    gate, split = GATES["KimiDeltaAttention"][0], raw.view(2, 5, 3, 4)
    wanted = naive_kda_gate(split, rows.A_log, rows.dt_bias)
    torch.testing.assert_close(gate.value(rows, raw), wanted.flatten(2))
    rows.lower_bound = -5.0
    bounded = naive_kda_lowerbound_gate(split, rows.A_log, rows.dt_bias)
    torch.testing.assert_close(gate.value(rows, raw), bounded.flatten(2))
    back = gate.value(rows, gate.raw(rows, bounded.flatten(2)))
    torch.testing.assert_close(back, bounded.flatten(2))  # raw itself is lost where it saturates


@pytest.mark.parametrize(
    ("there", "back"), [(F.softplus, unsoftplus), (F.logsigmoid, unlogsigmoid)]
)
def test_the_inverses_are_inverses(
    there: Callable[..., Tensor], back: Callable[..., Tensor]
) -> None:
    z = torch.linspace(-15, 12, 50, dtype=torch.float64)
    torch.testing.assert_close(back(there(z)), z)


def test_mambas_step_is_what_its_scan_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    from selectivbench.fla_cpu import mamba

    model, x, steps = network("mamba", layers=1), inputs(), []
    scan = mamba.selective_scan
    monkeypatch.setattr(mamba, "selective_scan", lambda *a: steps.append(a[1]) or scan(*a))
    signals, _ = heard(model, x)
    np.testing.assert_allclose(steps[0].numpy(), signals["0/Δ"].values, rtol=1e-6)
    held = torch.full((model.blocks[0].mixer.intermediate_size,), 0.05)
    steered(model, x, {"0/Δ": held})
    np.testing.assert_allclose(steps[1].numpy(), 0.05, rtol=1e-5)


@pytest.mark.parametrize(
    "options",
    [{"is_causal": True}, {"scale": 0.3}, {"attn_mask": "bool"}, {"attn_mask": "float"}],
    ids=str,
)
def test_attention_weights_times_values_are_torchs_own_answer(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 3, 9, 4)
    masks = {"bool": torch.rand(9, 9) < 0.7, "float": torch.randn(9, 9)}
    masks["bool"] |= torch.eye(9, dtype=torch.bool)
    options = {name: masks.get(value, value) for name, value in options.items()}

    class Layer(nn.Module):
        def forward(self, _: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(q, k, v, **options)

    signals, y = listen(layer := Layer(), lambda: layer(q))
    torch.testing.assert_close(torch.tensor(signals[0].values) @ v, y, atol=1e-5, rtol=0)


def test_torchs_multihead_attention_shows_its_weights() -> None:
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = torch.randn(2, 5, 8)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    with torch.no_grad():
        wanted = layer(x, x, x, attn_mask=mask, average_attn_weights=False)[1]
        signals, _ = listen(layer, lambda: layer(x, x, x, attn_mask=mask, need_weights=False))
    np.testing.assert_allclose(signals[0].values, wanted.numpy(), atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"qk_norm": True}, {"num_kv_heads": 1}], ids=str)
@pytest.mark.parametrize("kind", ["ForgettingAttention", "Attention"])
def test_weights_of_flas_attention_give_its_output(kind: str, options: dict[str, Any]) -> None:
    fla_cpu.enable()
    import fla.layers

    torch.manual_seed(0)
    layer = getattr(fla.layers, kind)(hidden_size=32, num_heads=2, layer_idx=0, **options).eval()
    x, seen = torch.randn(2, 9, 32), []
    layer.o_proj.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    with torch.no_grad():
        signals, _ = listen(layer, lambda: layer(x))
        v = layer.v_proj(x).view(2, 9, -1, 16).transpose(1, 2)
    weights = torch.tensor(next(s.values for s in signals if s.name == "attention"))
    v = v.repeat_interleave(2 // v.shape[1], dim=1)
    torch.testing.assert_close((weights @ v).transpose(1, 2).flatten(2), seen[0], atol=1e-5, rtol=0)


def test_a_window_of_flas_attention_is_respected() -> None:
    fla_cpu.enable()
    from fla.layers import Attention

    layer = Attention(hidden_size=32, num_heads=2, window_size=3, layer_idx=0).eval()
    signals, _ = listen(layer, lambda: layer(torch.randn(1, 9, 32)))
    assert (signals[0].values[0, 0].astype(bool).sum(axis=1) <= 3).all()
    assert signals[0].values[0, 0, 8, 6] > 0


@pytest.mark.parametrize("name", ["s4d", "retnet", "linear_attention"])
def test_fixed_memory_is_shown_with_its_reason(name: str) -> None:
    signals, _ = heard(network(name), inputs())
    for signal in signals.values():
        assert signal.fixed
        assert not signal.gate
        assert (signal.values == signal.values[:1, :1]).all()


def test_retnets_decay_is_that_of_its_kernel() -> None:
    """The state after one step more, with nothing written, is the decay times the state."""
    fla_cpu.enable()
    from fla.ops.retention import fused_recurrent_retention

    signals, _ = heard(network("retnet", layers=1), inputs())
    decay = signals["0/decay"].values[0, 0]
    q, nothing = torch.zeros(1, 1, len(decay), 4), torch.zeros(1, 1, len(decay), 4)
    state = torch.ones(1, len(decay), 4, 4)
    _, after = fused_recurrent_retention(
        q, nothing, nothing, initial_state=state, output_final_state=True
    )
    np.testing.assert_allclose(after[0, :, 0, 0].numpy(), decay, rtol=1e-6)


def test_a_convolution_is_known_by_its_parts_alone() -> None:
    module = nn.Module()
    assert not fixed.is_convolution(module)
    module.log_dt = nn.Parameter(torch.zeros(3))
    assert not fixed.is_convolution(module)
    module.kernel = lambda length: length  # type: ignore[assignment]
    assert fixed.is_convolution(module)


class Plain(nn.Module):
    """A layer that nobody knows."""

    def __init__(self, spec: MixerSpec) -> None:
        super().__init__()
        self.gate = nn.Linear(spec.d_model, 2)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(x).sigmoid().mean(-1, keepdim=True)


def plain(layers: int = 2) -> Backbone:
    return backbone(Plain, layers)


def test_an_unknown_layer_shows_itself() -> None:
    def own(module: Any, x: Tensor) -> dict[str, Tensor]:
        return {"gate": module.gate(x).sigmoid(), "first": x[..., 0]}

    model, x, given = plain(), inputs(), []
    model.blocks[1].mixer.register_forward_pre_hook(lambda _, args: given.append(args[0]))
    signals, _ = heard(model, x, own)
    assert {s.key: s.values.shape[2] for s in signals.values()} == {
        "0/gate": 2, "0/first": 1, "1/gate": 2, "1/first": 1,
    }  # fmt: skip
    np.testing.assert_array_equal(signals["1/first"].values[..., 0], given[0][..., 0].numpy())
    assert {s.role for s in signals.values()} == {"own"}


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (None, "NoneType"),
        ({"gate": 1.0}, "'gate': float"),
        ({3: torch.zeros(3, T)}, "3: Tensor"),
        ({"gate": torch.zeros(3, T - 1)}, r"\(3, 69\)"),
        ({"gate": torch.zeros(3)}, r"\(3,\)"),
    ],
)
def test_a_bad_answer_of_a_submissions_own_probe_is_one_sentence(shown: Any, words: str) -> None:
    with pytest.raises(SubmissionError, match=words):
        heard(plain(1), inputs(), lambda _module, _x: shown)


def test_nothing_to_hear_is_said_with_the_remedy() -> None:
    with pytest.raises(SubmissionError, match=r"define probe\(module, x\)"):
        heard(plain(1), inputs())


def test_a_gate_that_is_not_there_cannot_be_replaced() -> None:
    with pytest.raises(SubmissionError, match=r"'0/gate', allowed: 0\.gru/"):
        steered(network("gru", layers=1), inputs(), {"0/gate": torch.zeros(1)})


def test_a_layer_that_is_called_twice_is_refused() -> None:
    class Twice(nn.Module):
        def __init__(self, spec: Any) -> None:
            super().__init__()
            self.gru = nn.GRU(spec.d_model, spec.d_model, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            return self.gru(self.gru(x)[0])[0]

    model = Twice(SimpleNamespace(d_model=6))
    with pytest.raises(SubmissionError, match="twice in one forward pass"):
        heard(model, inputs())


def test_a_failing_forward_leaves_no_ears() -> None:
    model = network("transformer", layers=1)
    with pytest.raises(RuntimeError), torch.no_grad():
        listen(model, lambda: model(torch.zeros(1, 4, 3)))
    signals, _ = heard(model, inputs())
    assert set(signals) == {"0/attention"}
    assert mix(model.blocks[0].mixer, torch.zeros(1, 4, 32)).shape == (1, 4, 32)
