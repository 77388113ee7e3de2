"""LSTM, GRU and RNN step by step, with what PyTorch's modules have not: an LSTM whose gates see c through peepholes
(Gers et al., JMLR 3, 2002), and a GRU whose reset gate acts before the product with the state, as in the paper (Cho et
al., 2014).
"""
import torch
from torch import nn
from torch.nn import functional as F


class Recurrent(nn.Module):
    """Called as PyTorch's modules, but that lengths stand beside the sequences, and with their names; peephole_l0 … has
    what c adds to i, f and o."""

    def __init__(self, cell, inputs, hidden, num_layers=1, bias=True, batch_first=False, bidirectional=False,
                 proj_size=0, peephole=False, reset_after=True, nonlinearity="tanh"):
        super().__init__()
        self.cell, self.batch_first, self.reset_after = cell, batch_first, reset_after
        self.nonlinearity = getattr(torch, nonlinearity)
        self.hidden, self.outputs = hidden, proj_size or hidden
        ends = ["", "_reverse"][:1 + bidirectional]
        self.layers = [[f"_l{layer}{end}" for end in ends] for layer in range(num_layers)]
        gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[cell] * hidden
        for layer, sides in enumerate(self.layers):
            features = self.outputs * len(sides) if layer else inputs
            shapes = {"weight_ih": (gates, features), "weight_hh": (gates, self.outputs)}
            if bias:
                shapes.update(bias_ih=(gates,), bias_hh=(gates,))
            if proj_size:
                shapes["weight_hr"] = (proj_size, hidden)
            if peephole:
                shapes["peephole"] = (3 * hidden,)
            for side in sides:
                for name, shape in shapes.items():
                    self.register_parameter(name + side, nn.Parameter(torch.zeros(shape)))

    def forward(self, x, states=None, lengths=None):
        x = x.transpose(0, 1) if self.batch_first else x
        steps, batch = x.shape[:2]
        lengths = torch.full((batch,), steps) if lengths is None else lengths
        count = sum(map(len, self.layers))
        if states is None:
            states = x.new_zeros(count, batch, self.outputs), x.new_zeros(count, batch, self.hidden)
        h, c = states if isinstance(states, tuple) else (states, x.new_zeros(count, batch, self.hidden))
        last, at = [], 0
        for sides in self.layers:
            walks = [self.walk(side, x, h[at + i], c[at + i], lengths) for i, side in enumerate(sides)]
            x = torch.cat([y for y, _, _ in walks], -1)
            last += [(h_last, c_last) for _, h_last, c_last in walks]
            at += len(sides)
        h, c = map(torch.stack, zip(*last))
        return x.transpose(0, 1) if self.batch_first else x, (h, c) if self.cell == "LSTM" else h

    def walk(self, side, x, h, c, lengths):
        """All steps of one direction of one layer: the outputs and the last states. Sequences stand behind their end."""
        outputs = [None] * len(x)
        for t in reversed(range(len(x))) if side.endswith("_reverse") else range(len(x)):
            walks = (t < lengths)[:, None]
            next_h, next_c = self.step(side, x[t], h, c)
            h, c = torch.where(walks, next_h, h), torch.where(walks, next_c, c)
            outputs[t] = next_h * walks
        return torch.stack(outputs), h, c

    def step(self, side, x, h, c):
        weight = lambda name: getattr(self, name + side, None)
        of_x = F.linear(x, weight("weight_ih"), weight("bias_ih"))
        of_h = F.linear(h, weight("weight_hh"), weight("bias_hh"))
        if self.cell == "RNN":
            return self.nonlinearity(of_x + of_h), c
        if self.cell == "GRU":
            (r, z, n), (r_h, z_h, n_h) = of_x.chunk(3, 1), of_h.chunk(3, 1)
            r, z = torch.sigmoid(r + r_h), torch.sigmoid(z + z_h)
            if self.reset_after:
                n_h = r * n_h
            else:
                bias = weight("bias_hh")
                n_h = F.linear(r * h, weight("weight_hh").chunk(3)[2], None if bias is None else bias.chunk(3)[2])
            return (1 - z) * torch.tanh(n + n_h) + z * h, c
        i, f, g, o = (of_x + of_h).chunk(4, 1)
        peephole = weight("peephole")
        to_i, to_f, to_o = (0, 0, 0) if peephole is None else peephole.chunk(3)
        c = torch.sigmoid(f + to_f * c) * c + torch.sigmoid(i + to_i * c) * torch.tanh(g)
        h = torch.sigmoid(o + to_o * c) * torch.tanh(c)
        return (h if weight("weight_hr") is None else F.linear(h, weight("weight_hr"))), c
