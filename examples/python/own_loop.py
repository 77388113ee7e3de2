"""The training loop written out: a network of one's own, one step traced once and replayed for every batch.

Tells images with a bright square on the left from those with one on the right; ends with 1 unless it learns that.
"""

import sys

import numpy as np

import neurim as nm
import neurim.nn.functional as F
from neurim import nn


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)

    def forward(self, x: nm.Tensor) -> nm.Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(x + self.norm2(self.conv2(y)))


class Net(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 8, 3, stride=2, padding=1)
        self.block = Block(8)
        self.head = nn.Linear(8 * 4 * 4, classes)

    def forward(self, x: nm.Tensor) -> nm.Tensor:
        x = F.adaptive_avg_pool2d(self.block(F.relu(self.stem(x))), 4)
        logits: nm.Tensor = self.head(x.flatten(1))
        return logits


def squares(count: int, seed: int) -> nm.data.Data:
    rng = np.random.default_rng(seed)
    sides = np.arange(count) % 2
    images = rng.integers(0, 120, (count, 16, 16), np.uint8)
    for image, side in zip(images, sides, strict=True):
        at = rng.integers(0, 4) + 8 * side
        image[5:10, at : at + 4] += 100
    return nm.data.arrays(images, sides, class_names=["left", "right"], val_split=0.2)


def main() -> int:
    epochs = 10
    data = squares(600, seed=1)
    nm.seed(1)
    net = Net(data.classes)
    opt = nm.optim.AdamW(net.parameters(), lr=3e-3, clip_norm=1.0)
    step = nm.compile(lambda x, y: opt.minimize(F.cross_entropy(net(x), y)), training=True)
    answer = nm.compile(lambda x: net(x).argmax(1))

    training, validation = data.train.loader(32), data.val.loader(32)
    accuracy = 0.0
    for epoch in range(epochs):
        for i, (x, y) in enumerate(training):
            opt.lr = nm.optim.cosine_lr(3e-3, epoch + i / len(training), epochs)
            loss = step(x, y)
        right = sum((answer(x) == y).sum().item() for x, y in validation)
        accuracy = right / len(data.val)
        print(f"epoch {epoch + 1}  loss {loss.item():.4f}  accuracy {accuracy:.3f}")
    return 0 if accuracy > 0.9 else 1


if __name__ == "__main__":
    sys.exit(main())
