"""Networks of PyTorch, whose classes stay as they are but for the imports, train as they do there: the same losses, step by step."""
import unittest

import numpy as np
import torch

import neurim as nm

SOURCE = '''
class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4))

    def forward(self, x):
        return self.layers(x.view(x.size(0), -1))


class LeNet(nn.Module):
    def __init__(self):
        super(LeNet, self).__init__()
        self.conv1 = nn.Conv2d(3, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 8, 3)
        self.fc1 = nn.Linear(8 * 3 * 3, 24)
        self.fc2 = nn.Linear(24, 4)

    def forward(self, x):
        x = F.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = F.avg_pool2d(F.relu(self.conv2(x)), 2)
        x = x.view(-1, 8 * 3 * 3)
        return self.fc2(torch.tanh(self.fc1(x)))


class Block(nn.Module):
    def __init__(self, channels, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut = nn.Sequential()
        if stride != 1:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, channels, 1, stride=stride, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += self.shortcut(x)
        return F.relu(out)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = nn.ModuleList([Block(8), Block(8, 2)])
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Depthwise(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 12, 1), nn.Hardswish(), nn.Conv2d(12, 12, 3, padding=1, groups=12), nn.ReLU6(), nn.Conv2d(12, 6, 1))
        self.squeeze = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(6, 3, 1), nn.ReLU(), nn.Conv2d(3, 6, 1), nn.Hardsigmoid())
        self.head = nn.Linear(6, 4)

    def forward(self, x):
        x = self.features(x)
        x = x * self.squeeze(x)
        return self.head(x.mean(dim=(2, 3)))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(6, 10, num_layers=2, batch_first=True)
        self.fc = nn.Linear(10, 4)

    def forward(self, x):
        out, _ = self.gru(x)
        return self.fc(out[:, -1])


class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(6, 7, bidirectional=True)
        self.fc = nn.Linear(14, 4)

    def forward(self, x):
        out, (h, c) = self.lstm(x.transpose(0, 1))
        return self.fc(torch.cat([h[0], h[1]], dim=1) + out.mean(0))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(6, 16)
        self.position = nn.Parameter(torch.zeros(1, 9, 16))
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True), 2)
        self.fc = nn.Linear(16, 4)

    def forward(self, x):
        return self.fc(self.encoder(self.embed(x) + self.position).mean(1))


class Text(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8, padding_idx=0)
        self.convs = nn.ModuleList(nn.Conv1d(8, 6, k) for k in (2, 3))
        self.fc = nn.Linear(12, 4)

    def forward(self, x):
        x = self.embed(x).permute(0, 2, 1)
        pooled = [F.adaptive_max_pool1d(F.relu(conv(x)), 1).squeeze(2) for conv in self.convs]
        return self.fc(torch.cat(pooled, 1))


class Hourglass(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(8, 5, 2, stride=2)
        self.out = nn.Conv2d(8, 4, 1)

    def forward(self, x):
        y = F.leaky_relu(self.down(x), 0.1)
        y = self.up(y)
        y = self.out(torch.cat([x, y], dim=1))
        return F.log_softmax(y, dim=1).mean((2, 3))


class Gates(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(3, 3)
        self.a, self.b = nn.Conv2d(3, 8, 3), nn.Conv2d(3, 8, 3)
        self.scale = nn.Parameter(torch.ones(8))
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        x = self.norm(x)
        y = torch.sigmoid(self.a(x)) * torch.tanh(self.b(x))
        y = F.interpolate(y, scale_factor=2, mode="bilinear", align_corners=False)
        y = y.amax(dim=(2, 3)) * self.scale
        return self.fc(F.dropout(y, 0.0, self.training) / y.std(dim=1, keepdim=True))
'''
IMAGES = ("LeNet", "ResNet", "Depthwise", "Hourglass", "Gates")


def batch(name, rng):
    labels = rng.integers(0, 4, 16)
    if name in IMAGES:
        return rng.normal(size=(16, 3, 16, 16)).astype(np.float32), labels
    if name == "Text":
        return rng.integers(0, 20, (16, 9)), labels
    return rng.normal(size=(16, 2, 6) if name == "Mlp" else (16, 9, 6)).astype(np.float32), labels


class Networks(unittest.TestCase):
    def test_losses_are_pytorchs(self):
        theirs = {"nn": torch.nn, "F": torch.nn.functional, "torch": torch}
        own = {"nn": nm.nn, "F": nm.nn.functional, "torch": nm}  # `import neurim as torch`
        exec(SOURCE, theirs), exec(SOURCE, own)
        names = ["Mlp", "LeNet", "ResNet", "Depthwise", "Recurrent", "Both", "Attention", "Text", "Hourglass", "Gates"]
        for name in names:
            with self.subTest(name):
                torch.manual_seed(0)
                other, net = theirs[name](), own[name]()
                net.load_state_dict(other.state_dict())
                optimizer = torch.optim.SGD(other.parameters(), lr=0.05, momentum=0.9)
                opt = nm.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
                step = nm.value_and_grad(lambda x, y, net=net: nm.nn.functional.cross_entropy(net(x), y), net, training=True)
                rng, losses, expected = np.random.default_rng(1), [], []
                for _ in range(12):
                    x, y = batch(name, rng)
                    optimizer.zero_grad()
                    loss = torch.nn.functional.cross_entropy(other(torch.from_numpy(x)), torch.from_numpy(y))
                    loss.backward()
                    optimizer.step()
                    expected.append(loss.item())
                    value, grads = step(nm.tensor(x), nm.tensor(y))
                    opt.step(grads)
                    losses.append(value.item())
                np.testing.assert_allclose(losses, expected, rtol=2e-3, atol=2e-4)
                np.testing.assert_allclose(losses[:4], expected[:4], rtol=2e-5, atol=1e-5)
                state = other.state_dict()
                net.eval(), other.eval()
                x, _ = batch(name, rng)
                np.testing.assert_allclose(net(nm.tensor(x)).numpy(), other(torch.from_numpy(x)).detach().numpy(), rtol=5e-3, atol=2e-3)
                other.load_state_dict({key: torch.from_dlpack(value) for key, value in net.state_dict().items()}, strict=False)
                self.assertEqual({key for key in state if "num_batches" not in key}, set(net.state_dict()))


if __name__ == "__main__":
    unittest.main(verbosity=2)
