"""Recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import functional as F
from .._core import Tensor, UsageError
from ..functional.common import _op, _ops
from ..module import Module
from ..tensors import check_tensors
from .common import _by_fan_in, _trains


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
        y, (h, c) = self._run(input, hx or (), lengths, projection=self.proj_size > 0)
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
