"""Recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import functional as F
from .._core import Tensor, UsageError
from ..functional.common import _op, _ops
from ..module import Module
from ..tensors import check_tensors
from ..tensors.common import _integral
from .common import _by_fan_in, _trains


def _both(name: str, hx: Any) -> tuple[Tensor, Tensor]:
    """The two states of an LSTM."""
    if not isinstance(hx, (tuple, list)) or len(hx) != 2:
        what = f"{len(hx)} states" if isinstance(hx, (tuple, list)) else f"a {type(hx).__name__}"
        raise UsageError(f"{name}: hx is {what}; give both, (h, c)")
    check_tensors(f"{name}: hx", *hx)
    return hx[0], hx[1]


class _Recurrent(Module):
    """What LSTM, GRU and RNN share.

    Weights of layer k: weight_ih_l<k>(G*H,features), weight_hh_l<k>(G*H,H), bias_ih_l<k>(G*H), bias_hh_l<k>(G*H), with
    "_reverse" those of the other direction. The G gates are i, f, g, o of the LSTM and r, z, n of the GRU.
    """

    cell: str
    gates: int

    def _set(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        bias: bool,
        batch_first: bool,
        dropout: float,
        bidirectional: bool,
        proj_size: int = 0,
    ) -> None:
        input_size, hidden_size = _integral(input_size, "input_size"), _integral(hidden_size, "hidden_size")
        num_layers, proj_size = _integral(num_layers, "num_layers"), _integral(proj_size, "proj_size")
        if min(input_size, hidden_size, num_layers) < 1 or not 0 <= proj_size < hidden_size:
            raise UsageError(
                f"{type(self).__name__}: sizes and layers are 1 or more and proj_size is less than hidden_size, got "
                f"{input_size}, {hidden_size}, {num_layers} and {proj_size}"
            )
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, dropout
        self.bidirectional, self.proj_size = bidirectional, proj_size
        rows, outputs = self.gates * hidden_size, proj_size or hidden_size
        for layer in range(num_layers):
            features = input_size if layer == 0 else outputs * (1 + bidirectional)
            for suffix in self._suffixes(layer):
                shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, features), "weight_hh": (rows, outputs)}
                if bias:
                    shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
                if proj_size:
                    shapes["weight_hr"] = (outputs, hidden_size)
                for name, shape in shapes.items():
                    setattr(self, name + suffix, _by_fan_in(shape, hidden_size))

    def _suffixes(self, layer: int) -> list[str]:
        return [f"_l{layer}", f"_l{layer}_reverse"] if self.bidirectional else [f"_l{layer}"]

    def _run(
        self, input: Tensor, states: Sequence[Tensor], lengths: Tensor | None, **options: Any
    ) -> tuple[Tensor, list[Tensor]]:
        """The outputs of the last layer and the last states (layers*directions,N,…)."""
        check_tensors(self.cell, input)
        check_tensors(f"{type(self).__name__}: hx", *states)
        if input.ndim != 3:
            raise UsageError(f"{type(self).__name__}: takes x of three axes, got {input.shape}")
        y = input.permute(1, 0, 2) if self.batch_first else input
        names = ["weight_ih", "weight_hh", *(["bias_ih", "bias_hh"] if self.bias else [])]
        names += ["weight_hr"] if self.proj_size else []
        options |= {"bias": self.bias, "state": bool(states), "lengths": lengths is not None}
        last: list[list[Tensor]] = []
        for layer in range(self.num_layers):
            if layer:
                y = F.dropout(y, self.dropout, _trains(self))
            both = []
            for suffix in self._suffixes(layer):
                inputs = [y, *(getattr(self, name + suffix) for name in names)]
                inputs += [state[len(last)] for state in states] + ([] if lengths is None else [lengths])
                out, *ends = _ops(self.cell, *inputs, **options, reverse=suffix.endswith("_reverse"))
                both.append(out)
                last.append([end.unsqueeze(0) for end in ends])
            y = both[0] if len(both) == 1 else _op("concat", *both, axis=-1)
        return y.permute(1, 0, 2) if self.batch_first else y, [
            _op("concat", *ends, axis=0) for ends in zip(*last, strict=True)
        ]

    def extra_repr(self) -> str:
        """The options that are not the default."""
        said = [f"{self.input_size}, {self.hidden_size}"]
        options = {"num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0, "bidirectional": False}
        for name, default in {**options, "proj_size": 0}.items():
            if (value := getattr(self, name)) != default:
                said.append(f"{name}={value}")
        return ", ".join(said)


class LSTM(_Recurrent):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997)."""

    cell, gates = "lstm", 4

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
    ) -> None:
        """`dropout` acts between layers; `proj_size` projects the outputs (Sak et al., 2014)."""
        self._set(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None, *, lengths: Tensor | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """x(T,N,features), or (N,T,features) for batch_first -> y of all steps, and the last h and c.

        `hx` are h and c before the first step, (layers*directions,N,…). `lengths` i64(N) are the steps of each sequence
        that count; outputs after them are 0.
        """
        y, (h, c) = self._run(input, () if hx is None else _both("LSTM", hx), lengths, projection=self.proj_size > 0)
        return y, (h, c)


class GRU(_Recurrent):
    """Gated recurrent unit (Cho et al., 2014)."""

    cell, gates = "gru", 3

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
    ) -> None:
        """`dropout` acts between layers."""
        self._set(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)

    def forward(
        self, input: Tensor, hx: Tensor | None = None, *, lengths: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """As of LSTM, with h alone."""
        y, (h,) = self._run(input, () if hx is None else (hx,), lengths)
        return y, h


class RNN(_Recurrent):
    """h = f(W x + b + V h + c), f being "tanh" or "relu" (Elman, 1990)."""

    cell, gates = "rnn", 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
    ) -> None:
        """`dropout` acts between layers."""
        self._set(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)
        self.nonlinearity = nonlinearity

    def forward(
        self, input: Tensor, hx: Tensor | None = None, *, lengths: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """As of LSTM, with h alone."""
        y, (h,) = self._run(input, () if hx is None else (hx,), lengths, nonlinearity=self.nonlinearity)
        return y, h


class _Cell(Module):
    """One step of a recurrent layer: weight_ih(G*H,features), weight_hh(G*H,H), bias_ih(G*H), bias_hh(G*H)."""

    cell: str
    gates: int

    def _set(self, input_size: int, hidden_size: int, bias: bool) -> None:
        input_size, hidden_size = _integral(input_size, "input_size"), _integral(hidden_size, "hidden_size")
        if min(input_size, hidden_size) < 1:
            raise UsageError(f"{type(self).__name__}: sizes are 1 or more, got {input_size} and {hidden_size}")
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = self.gates * hidden_size
        self.weight_ih: Tensor = _by_fan_in((rows, input_size), hidden_size)
        self.weight_hh: Tensor = _by_fan_in((rows, hidden_size), hidden_size)
        self.bias_ih: Tensor | None = _by_fan_in((rows,), hidden_size) if bias else None
        self.bias_hh: Tensor | None = _by_fan_in((rows,), hidden_size) if bias else None

    def _step(self, input: Tensor, states: Sequence[Tensor], **options: Any) -> list[Tensor]:
        """The next states."""
        name = type(self).__name__
        check_tensors(name, input)
        check_tensors(f"{name}: hx", *states)
        if input.ndim not in (1, 2) or any(state.ndim != input.ndim for state in states):
            raise UsageError(f"{name}: takes x(N,{self.input_size}) and states (N,{self.hidden_size}), got {', '.join(str(one.shape) for one in (input, *states))}")
        single = input.ndim == 1
        rows = [one.unsqueeze(0) if single else one for one in (input, *states)]
        weights = [self.weight_ih, self.weight_hh, *([] if self.bias_ih is None else [self.bias_ih, self.bias_hh])]
        options |= {"bias": self.bias_ih is not None, "state": bool(states)}
        _, *ends = _ops(self.cell, rows[0].unsqueeze(0), *weights, *rows[1:], **options)
        return [end.squeeze(0) if single else end for end in ends]

    def extra_repr(self) -> str:
        """The sizes, and options that are not the default."""
        said = f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")
        kind = getattr(self, "nonlinearity", "tanh")
        return said if kind == "tanh" else f"{said}, nonlinearity={kind}"


class LSTMCell(_Cell):
    """One step of LSTM."""

    cell, gates = "lstm", 4

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        """`bias` adds biases."""
        self._set(input_size, hidden_size, bias)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """x(N,features) or (features), and h and c before the step, (N,H) or (H), by default zeros -> h and c after it."""
        h, c = self._step(input, () if hx is None else _both("LSTMCell", hx))
        return h, c


class GRUCell(_Cell):
    """One step of GRU."""

    cell, gates = "gru", 3

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        """`bias` adds biases."""
        self._set(input_size, hidden_size, bias)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """x(N,features) or (features), and h before the step, (N,H) or (H), by default zeros -> h after it."""
        return self._step(input, () if hx is None else (hx,))[0]


class RNNCell(_Cell):
    """One step of RNN, whose function is "tanh" or "relu"."""

    cell, gates = "rnn", 1

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh") -> None:
        """`bias` adds biases."""
        if nonlinearity not in ("tanh", "relu"):
            raise UsageError(f"RNNCell: nonlinearity is '{nonlinearity}', has to be tanh or relu")
        self._set(input_size, hidden_size, bias)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """As of GRUCell."""
        return self._step(input, () if hx is None else (hx,), nonlinearity=self.nonlinearity)[0]
