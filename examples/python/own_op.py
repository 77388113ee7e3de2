"""An op with a gradient of one's own: weights that are rounded to 16 levels in a network that learns nevertheless.

The gradient passes the rounding as if it were not there (Bengio et al., arXiv 1308.3432).
"""

import sys
from typing import Any

import neurim as nm
import neurim.nn.functional as F
from neurim import nn


class Round(nm.Function):
    @staticmethod
    def forward(ctx: Any, x: nm.Tensor, step: float) -> nm.Tensor:
        return (x / step + 0.5).floor() * step

    @staticmethod
    def backward(ctx: Any, grad: nm.Tensor) -> tuple[nm.Tensor, None]:
        return grad, None


class RoundedLinear(nn.Linear):
    """A layer whose weights are multiples of 1/8 from -1 to 7/8."""

    def forward(self, input: nm.Tensor) -> nm.Tensor:
        weight = Round.apply(self.weight.clamp(-1, 7 / 8), 1 / 8)
        return F.linear(input, weight, self.bias)


def main() -> int:
    nm.seed(0)
    net = nn.Sequential(nn.Linear(1, 64), nn.Tanh(), RoundedLinear(64, 1))
    opt = nm.optim.Adam(net.parameters(), lr=0.01)
    step = nm.compile(lambda x, y: opt.minimize(F.mse_loss(net(x), y)), training=True)
    for i in range(1500):
        x = nm.rand(128, 1) * 6 - 3
        loss = step(x, x.sin()).item()
        if i % 300 == 0:
            print(f"step {i}  loss {loss:.5f}")
    print(f"last loss {loss:.5f}")
    return 0 if loss < 0.01 else 1


if __name__ == "__main__":
    sys.exit(main())
