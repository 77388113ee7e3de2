"""The PyTorch twins of Neurim's models: the same architectures, tensor names and initialisers."""
import torch
from torch import nn
from torch.nn import functional as F


class LeNet5(nn.Module):
    def __init__(self, classes, channels):
        super().__init__()
        self.c1 = nn.Conv2d(channels, 6, 5, padding=2)
        self.c2 = nn.Conv2d(6, 16, 5)
        self.f1 = nn.Linear(16 * 5 * 5, 120)
        self.f2 = nn.Linear(120, 84)
        self.f3 = nn.Linear(84, classes)

    def forward(self, x):
        for conv in (self.c1, self.c2):
            x = F.max_pool2d(F.relu(conv(x)), 2)
        x = x.flatten(1)
        for linear in (self.f1, self.f2):
            x = F.relu(linear(x))
        return self.f3(x)


def conv3x3(inner, outer, stride):
    return nn.Conv2d(inner, outer, 3, stride=stride, padding=1, bias=False)


class CifarBlock(nn.Module):
    """Its shortcut has no parameters: every stride-th pixel, with zeros for the new channels on both sides."""

    def __init__(self, inner, outer, stride):
        super().__init__()
        self.conv1, self.bn1 = conv3x3(inner, outer, stride), nn.BatchNorm2d(outer)
        self.conv2, self.bn2 = conv3x3(outer, outer, 1), nn.BatchNorm2d(outer)
        self.stride, self.grown = stride, (outer - inner) // 2

    def forward(self, x):
        shortcut = F.pad(x[:, :, ::self.stride, ::self.stride], (0, 0, 0, 0, self.grown, self.grown))
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + shortcut)


class CifarResNet(nn.Module):
    """He et al., "Deep residual learning for image recognition", section 4.2, with 3 blocks a stage: ResNet-20."""

    def __init__(self, classes, channels):
        super().__init__()

        def stage(inner, outer, stride):
            return nn.Sequential(CifarBlock(inner, outer, stride), *(CifarBlock(outer, outer, 1) for _ in range(2)))

        self.conv1, self.bn1 = conv3x3(channels, 16, 1), nn.BatchNorm2d(16)
        self.layer1, self.layer2, self.layer3 = stage(16, 16, 1), stage(16, 32, 2), stage(32, 64, 2)
        self.linear = nn.Linear(64, classes)

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(F.relu(self.bn1(self.conv1(x))))))
        return self.linear(F.adaptive_avg_pool2d(x, 1).flatten(1))


def create(name, classes, channels):
    if name == "lenet5":
        return LeNet5(classes, channels)
    if name == "resnet20":
        return CifarResNet(classes, channels)
    import torchvision

    return getattr(torchvision.models, name)(weights=None, num_classes=classes)


def arrays(model):
    """The tensors of a model by name, as Neurim has them: without the counters that PyTorch alone keeps."""
    return {name: tensor.detach().contiguous().numpy().copy() for name, tensor in model.state_dict().items()
            if not name.endswith("num_batches_tracked")}


def load(model, tensors):
    """Fills the model; the names have to be exactly its own."""
    model.load_state_dict({name: torch.from_numpy(array) for name, array in tensors.items()})
