"""The PyTorch twins of Neurim's models: the same architectures, tensor names and initialisers."""
import collections
from unittest import mock

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


class RowClassifier(nn.Module):
    """Reads an image 28 wide row after row, each of all channels."""

    def __init__(self, kind, classes, channels):
        super().__init__()
        self.rnn, self.fc = kind(channels * 28, 128, batch_first=True), nn.Linear(128, classes)

    def forward(self, x):
        y, _ = self.rnn(x.transpose(1, 2).flatten(2))
        return self.fc(y[:, -1])


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
    """He et al., "Deep residual learning for image recognition", section 4.2, of 6 * blocks + 2 layers."""

    def __init__(self, classes, channels, blocks):
        super().__init__()

        def stage(inner, outer, stride):
            return nn.Sequential(CifarBlock(inner, outer, stride),
                                 *(CifarBlock(outer, outer, 1) for _ in range(blocks - 1)))

        self.conv1, self.bn1 = conv3x3(channels, 16, 1), nn.BatchNorm2d(16)
        self.layer1, self.layer2, self.layer3 = stage(16, 16, 1), stage(16, 32, 2), stage(32, 64, 2)
        self.linear = nn.Linear(64, classes)

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(F.relu(self.bn1(self.conv1(x))))))
        return self.linear(F.adaptive_avg_pool2d(x, 1).flatten(1))


def he_initialised(model):
    """Every convolution drawn as torchvision draws those of its ResNets."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return model


class WideBlock(nn.Module):
    """Normalises and activates before each convolution; a shortcut that changes the shape starts behind the first ReLU."""

    def __init__(self, inner, outer, stride):
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(inner), conv3x3(inner, outer, stride)
        self.bn2, self.conv2 = nn.BatchNorm2d(outer), conv3x3(outer, outer, 1)
        self.shortcut = nn.Sequential(
            *([nn.Conv2d(inner, outer, 1, stride=stride, bias=False)] if inner != outer else []))

    def forward(self, x):
        active = F.relu(self.bn1(x))
        residual = self.conv2(F.relu(self.bn2(self.conv1(active))))
        return residual + (self.shortcut(active) if len(self.shortcut) else x)


class WideResNet(nn.Module):
    """Zagoruyko and Komodakis, "Wide residual networks", 2016, table 1, of 6 * blocks + 4 layers."""

    def __init__(self, classes, channels, blocks, width):
        super().__init__()

        def stage(inner, outer, stride):
            return nn.Sequential(WideBlock(inner, outer, stride),
                                 *(WideBlock(outer, outer, 1) for _ in range(blocks - 1)))

        self.conv1 = conv3x3(channels, 16, 1)
        self.layer1, self.layer2 = stage(16, 16 * width, 1), stage(16 * width, 32 * width, 2)
        self.layer3, self.bn = stage(32 * width, 64 * width, 2), nn.BatchNorm2d(64 * width)
        self.fc = nn.Linear(64 * width, classes)

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(self.conv1(x))))
        return self.fc(F.relu(self.bn(x)).mean((2, 3)))


class MobileNetV1(nn.Module):
    """Howard et al., "MobileNets", 2017, table 1."""

    def __init__(self, classes, channels):
        super().__init__()

        def layer(inner, outer, kernel, stride, groups=1):
            return nn.Sequential(
                nn.Conv2d(inner, outer, kernel, stride, padding=kernel // 2, groups=groups, bias=False),
                nn.BatchNorm2d(outer), nn.ReLU())

        rows = [(32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2),
                *[(512, 512, 1)] * 5, (512, 1024, 2), (1024, 1024, 1)]
        layers = [layer(channels, 32, 3, 2)]
        for inner, outer, stride in rows:
            layers += [layer(inner, inner, 3, stride, groups=inner), layer(inner, outer, 1, 1)]
        self.features, self.fc = nn.Sequential(*layers), nn.Linear(1024, classes)

    def forward(self, x):
        return self.fc(self.features(x).mean((2, 3)))


class SqueezeExcitation(nn.Module):
    """Hu et al., "Squeeze-and-excitation networks", 2018, section 3, with 1x1 convolutions."""

    def __init__(self, channels, squeezed):
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)

    def forward(self, x):
        return x * torch.sigmoid(self.fc2(F.relu(self.fc1(x.mean((2, 3), keepdim=True)))))


def squeezed_resnet50(classes):
    """torchvision's ResNet-50 whose blocks squeeze and excite, by a sixteenth, behind their last norm."""
    from torchvision.models.resnet import Bottleneck, ResNet

    class Block(Bottleneck):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            self.se = SqueezeExcitation(self.bn3.num_features, self.bn3.num_features // 16)

        def forward(self, x):
            y = F.relu(self.bn1(self.conv1(x)))
            y = self.bn3(self.conv3(F.relu(self.bn2(self.conv2(y)))))
            return F.relu(self.se(y) + (x if self.downsample is None else self.downsample(x)))

    return ResNet(Block, [3, 4, 6, 3], num_classes=classes)


class TimmAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        weights = (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1)
        return self.proj((weights @ v).transpose(1, 2).flatten(2))


class TimmMlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class TimmLayerScale(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gamma = nn.Parameter(1e-5 * torch.ones(width))

    def forward(self, x):
        return x * self.gamma


class TimmBlock(nn.Module):
    def __init__(self, width, heads, scaled=False):
        super().__init__()
        scale = TimmLayerScale if scaled else lambda _: nn.Identity()
        self.norm1, self.attn, self.ls1 = nn.LayerNorm(width, 1e-6), TimmAttention(width, heads), scale(width)
        self.norm2, self.mlp, self.ls2 = nn.LayerNorm(width, 1e-6), TimmMlp(width), scale(width)

    def forward(self, x):
        x = x + self.ls1(self.attn(self.norm1(x)))
        return x + self.ls2(self.mlp(self.norm2(x)))


class TimmViT(nn.Module):
    """Dosovitskiy et al., "An image is worth 16x16 words", 2021, with timm's names and initialisers."""

    def __init__(self, classes, channels, width, heads):
        super().__init__()
        self.cls_token = nn.Parameter(1e-6 * torch.randn(1, 1, width))
        self.pos_embed = nn.Parameter(0.02 * torch.randn(1, 197, width))
        self.patch_embed = nn.Sequential()
        self.patch_embed.proj = nn.Conv2d(channels, width, 16, 16)
        self.blocks = nn.Sequential(*(TimmBlock(width, heads) for _ in range(12)))
        self.norm, self.head = nn.LayerNorm(width, 1e-6), nn.Linear(width, classes)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)

    def forward(self, x):
        patches = self.patch_embed(x).flatten(2).mT
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), patches], 1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


class UNet(nn.Module):
    """Ronneberger et al., "U-Net", 2015, figure 1, of any width; `pad` keeps the size."""

    def __init__(self, channels, classes, width=64, depth=4, pad=0):
        super().__init__()

        def two(inner, outer):
            return nn.Sequential(nn.Conv2d(inner, outer, 3, padding=pad), nn.ReLU(),
                                 nn.Conv2d(outer, outer, 3, padding=pad), nn.ReLU())

        widths = [width << level for level in range(depth + 1)]
        self.down = nn.ModuleList(two(inner, outer) for inner, outer in zip([channels, *widths], widths))
        risen = list(zip(widths[:0:-1], widths[-2::-1]))
        self.rise = nn.ModuleList(nn.ConvTranspose2d(inner, outer, 2, stride=2) for inner, outer in risen)
        self.up = nn.ModuleList(two(inner, outer) for inner, outer in risen)
        self.last = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        levels = []
        for level, convolutions in enumerate(self.down):
            x = convolutions(x if level == 0 else F.max_pool2d(x, 2))
            levels.append(x)
        levels.pop()
        for rise, convolutions in zip(self.rise, self.up):
            x, before = rise(x), levels.pop()
            top, left = ((before.size(axis) - x.size(axis)) // 2 for axis in (2, 3))
            before = before[:, :, top:top + x.size(2), left:left + x.size(3)]
            x = convolutions(torch.cat([before, x], 1))
        return self.last(x)


def create(name, classes, channels=3, initialised=True, size=None):
    """`initialised`: with the initialisers of the family, where those take long to draw. `size`: of images, where it is another
    than the model was published for, and the twin takes no other."""
    if name == "lenet5":
        return LeNet5(classes, channels)
    if name in ROW_CLASSIFIERS:
        return RowClassifier(ROW_CLASSIFIERS[name], classes, channels)
    if name in CIFAR_RESNETS:
        return CifarResNet(classes, channels, CIFAR_RESNETS[name])
    if name == "wide_resnet28_10":
        return he_initialised(WideResNet(classes, channels, 4, 10))
    if name == "mobilenet_v1":
        return he_initialised(MobileNetV1(classes, channels))
    if name in TIMM_VITS:
        return TimmViT(classes, channels, *TIMM_VITS[name])
    if name in ("unet", "unet_padded"):
        return UNet(channels, classes, width=4, pad=int(name == "unet_padded"))
    if name.startswith("timm/"):
        import timm

        options = {"img_size": size} if size and name.startswith("timm/swin") else {}
        return timm.create_model(name.removeprefix("timm/"), num_classes=classes, in_chans=channels, **options)
    import torchvision

    if name == "seresnet50":
        return he_initialised(squeezed_resnet50(classes))
    options = {}
    if name in ("googlenet", "inception_v3"):
        options = {"aux_logits": False, "init_weights": initialised}
    return getattr(torchvision.models, name)(weights=None, num_classes=classes, **options)


# Width and heads; DeiT's networks are the same, its training is another.
TIMM_VITS = {f"{family}_{size}_patch16_224": design for family in ("vit", "deit")
             for size, design in {"tiny": (192, 3), "small": (384, 6), "base": (768, 12)}.items()}
CIFAR_RESNETS = {"resnet20": 3, "resnet32": 5, "resnet44": 7, "resnet56": 9, "resnet110": 18}
ROW_CLASSIFIERS = {"rnn_classifier": nn.RNN, "lstm_classifier": nn.LSTM, "gru_classifier": nn.GRU}


def without_data():
    """A context in which modules are built whose weights have shapes alone, which costs neither memory nor drawing them."""
    empty = torch.empty
    return mock.patch.object(torch, "empty", lambda *sizes, **options: empty(*sizes, **{**options, "device": "meta"}))


def arrays(model):
    """The tensors of a model by name, as Neurim has them: without the counters that PyTorch alone keeps."""
    return {name: tensor.detach().contiguous().numpy().copy() for name, tensor in model.state_dict().items()
            if not name.endswith("num_batches_tracked")}


def load(model, tensors):
    """Fills the model; the names have to be exactly its own."""
    state = collections.OrderedDict((name, torch.from_numpy(array)) for name, array in tensors.items())
    state._metadata = {"": {"version": model._version}}  # for torchvision's MNASNet, which asks
    model.load_state_dict(state)
