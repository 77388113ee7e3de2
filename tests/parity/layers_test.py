"""Compares every layer that model files can name with PyTorch's module of the same options and tensors, or torchvision's,
or timm's form in torch_models.py, or the formula, forward and backward.

Every option of every layer is another than its default in some case. PyTorch computes in double precision. ctest sets
NEURIM_BUILD (the build folder, whose tests/layers runs our side). Exit code 77: not here.
"""
import collections
import functools
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np
    import torch
    from torch import nn
    from torch.nn import functional as F
    from torchvision.models import resnet
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import ops_test
import recurrent_formula
import safetensors_files
import torch_models

RUNNER = os.path.join(os.environ.get("NEURIM_BUILD", "build"), "tests", "layers")
TOLERANCE = 1e-5  # of the largest magnitude of a tensor; twice that for gradients
INITIAL = {"init", "bias_init"}  # how tensors begin, which are given here

# What PyTorch calls the options, where it differs.
NAMES = {"axis": "dim", "end_axis": "end_dim", "kernel": "kernel_size", "out": "out_channels", "pad": "padding",
         "sizes": "unflattened_size", "slope": "negative_slope", "start_axis": "start_dim"}


def named(options):
    return {NAMES.get(name, name): value for name, value in options.items()}


class Formula(nn.Module):
    """For what no class of PyTorch's makes: function(x), or function(x, weight)."""

    def __init__(self, function, weight=None):
        super().__init__()
        self.function = function
        if weight is not None:
            self.weight = nn.Parameter(torch.zeros(weight))

    def forward(self, x):
        return self.function(x, *self.parameters())


def plain(kind, **defaults):
    """A layer of options alone; those are the defaults that PyTorch has not."""
    return lambda x, **options: kind(**named({**defaults, **options}))


def of_channels(kind, **defaults):
    return lambda x, **options: kind(x.shape[1], **named({**defaults, **options}))


def formula(function):
    """Of function(x, options)."""
    return lambda x, **options: Formula(lambda given: function(given, **options))


def without_bias(module):
    """PyTorch's modules that have no such option."""
    for part in module.modules():
        for name in ("bias", "in_proj_bias"):
            if getattr(part, name, None) is not None:
                setattr(part, name, None)
    return module


def with_result(module, change):
    module.register_forward_hook(lambda module, inputs, result: change(result))
    return module


def adaptive(kind):
    def twin(x, output=1):
        sizes = x.shape[2:]
        output = output if isinstance(output, tuple) else (output,) * len(sizes)
        return kind(tuple(wanted or size for wanted, size in zip(output, sizes)))
    return twin


def lp_pool3d(x, norm_type=2, kernel=2, stride=None, ceil_mode=False):  # PyTorch has it since 2.4
    kernel = kernel if isinstance(kernel, tuple) else (kernel,) * 3
    sums = F.avg_pool3d(x.pow(norm_type), kernel, stride, 0, ceil_mode) * math.prod(kernel)
    return sums.pow(1 / norm_type)


def circular_pad(x, pad=1):
    return F.pad(x, pad if isinstance(pad, tuple) else (pad,) * (2 * x.dim() - 4), mode="circular")


def batch_norm(x, **options):
    kinds = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}
    return kinds[x.dim()](x.shape[1], **options)


def layer_norm(x, normalized_shape=None, bias=True, **options):
    module = nn.LayerNorm(normalized_shape or x.shape[-1], **options)
    return module if bias else without_bias(module)


def rms_norm(x, normalized_shape=None, eps=2**-23, elementwise_affine=True):  # PyTorch has it since 2.4
    axes = tuple(range(-len(normalized_shape or (1,)), 0))
    function = lambda given, weight=1: given * (given.square().mean(axes, keepdim=True) + eps).rsqrt() * weight
    return Formula(function, (normalized_shape or x.shape[-1:]) if elementwise_affine else None)


def recurrent(cell):
    """All outputs, or the states behind the last step of the last layer, of each direction side by side."""
    def twin(x, hidden, last=False, **options):
        foreign = not options.get("reset_after", True) or options.get("peephole", False)
        kind = functools.partial(recurrent_formula.Recurrent, cell) if foreign else getattr(nn, cell)
        sides = 1 + options.get("bidirectional", False)

        def result(both):
            y, state = both
            h = state[0] if cell == "LSTM" else state
            return h[-sides:].transpose(0, 1).flatten(1) if last else y

        return with_result(kind(x.shape[-1], hidden, **{"batch_first": True, **options}), result)
    return twin


def multihead_attention(x, num_heads, **options):
    module = nn.MultiheadAttention(x.shape[-1], num_heads, batch_first=True, **options)
    module.register_forward_pre_hook(lambda module, inputs: inputs * 3)  # query, key and value
    return with_result(module, lambda result: result[0])


def timm_attention(x, num_heads=8, qkv_bias=False, **_):
    width = x.shape[-1]
    module = torch_models.TimmAttention(width, num_heads)
    module.qkv = nn.Linear(width, 3 * width, bias=qkv_bias)
    return module


def timm_mlp(x, hidden, **_):
    width = x.shape[-1]
    module = torch_models.TimmMlp(width)
    module.fc1, module.fc2 = nn.Linear(width, hidden), nn.Linear(hidden, width)
    return module


def timm_block(x, num_heads, mlp_ratio=4, qkv_bias=True, init_values=None, eps=1e-6, **_):
    module = torch_models.TimmBlock(x.shape[-1], num_heads, scaled=init_values is not None)
    module.attn, module.mlp = timm_attention(x, num_heads, qkv_bias), timm_mlp(x, int(x.shape[-1] * mlp_ratio))
    module.norm1.eps = module.norm2.eps = eps
    return module


def transformer_layer(x, nhead, bias=True, **options):
    module = nn.TransformerEncoderLayer(x.shape[-1], nhead, batch_first=True, **options)
    return module if bias else without_bias(module)


def transformer(x, nhead, num_layers, final_norm=False, bias=True, **options):
    norm = layer_norm(x, bias=bias, eps=options.get("layer_norm_eps", 1e-5)) if final_norm else None
    return nn.TransformerEncoder(transformer_layer(x, nhead, bias, **options), num_layers, norm, enable_nested_tensor=False)


def residual_block(kind):
    def twin(x, stride=1, **options):
        inner, width = x.shape[1], options.pop("out" if kind is resnet.BasicBlock else "channels")
        outer = width * kind.expansion
        shortcut = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))
        return kind(inner, width, stride, shortcut if stride > 1 or inner != outer else None, **options)
    return twin


# How to make the twin for an input x; other layers are PyTorch's of the same name and options.
TWINS = {
    "Attention": timm_attention,
    "BasicBlock": residual_block(resnet.BasicBlock),
    "BatchNorm1d": batch_norm,
    "BatchNorm2d": batch_norm,
    "Bilinear": lambda x, other, out, **o: nn.Bilinear(x.shape[-1], other.shape[-1], out, **o),
    "Bottleneck": residual_block(resnet.Bottleneck),
    "ChannelShuffle": formula(lambda x, groups=2: ops_test.channel_shuffle(x, groups)),
    "CircularPad1d": formula(circular_pad),
    "CircularPad2d": formula(circular_pad),
    "ConstantPad1d": plain(nn.ConstantPad1d, pad=1, value=0),
    "ConstantPad2d": plain(nn.ConstantPad2d, pad=1, value=0),
    "DropPath": lambda x, p: nn.Identity(),
    "Embedding": lambda x, num, dim, **o: nn.Embedding(num, dim, **o),
    "GRU": recurrent("GRU"),
    "GlobalAvgPool2d": lambda x: nn.AdaptiveAvgPool2d(1),
    "GlobalMaxPool2d": lambda x: nn.AdaptiveMaxPool2d(1),
    "GroupNorm": lambda x, num_groups, **o: nn.GroupNorm(num_groups, x.shape[1], **o),
    "InstanceNorm1d": of_channels(nn.InstanceNorm1d),
    "InstanceNorm2d": of_channels(nn.InstanceNorm2d),
    "LSTM": recurrent("LSTM"),
    "LayerNorm": layer_norm,
    "LayerScale": lambda x, init_values: torch_models.TimmLayerScale(x.shape[-1]),
    "LearnedPositions": lambda x: Formula(torch.add, x.shape[1:]),
    "Linear": lambda x, out, **o: nn.Linear(x.shape[-1], out, **o),
    "LocalResponseNorm": plain(nn.LocalResponseNorm, size=5),
    "LogSoftmax": plain(nn.LogSoftmax, axis=-1),
    "LpPool1d": plain(nn.LPPool1d, norm_type=2, kernel=2),
    "LpPool2d": plain(nn.LPPool2d, norm_type=2, kernel=2),
    "LpPool3d": formula(lp_pool3d),
    "Mlp": timm_mlp,
    "MultiheadAttention": multihead_attention,
    "Permute": formula(lambda x, axes: x.permute(axes)),
    "PixelShuffle": plain(nn.PixelShuffle, upscale_factor=2),
    "PixelUnshuffle": plain(nn.PixelUnshuffle, downscale_factor=2),
    "RMSNorm": rms_norm,
    "RNN": recurrent("RNN"),
    "SinusoidalPositions": formula(ops_test.with_sinusoidal_positions),
    "Softmax": plain(nn.Softmax, axis=-1),
    "SyncBatchNorm": batch_norm,  # PyTorch's own is for GPUs
    "Threshold": plain(nn.Threshold, threshold=0, value=0),
    "TransformerEncoder": transformer,
    "TransformerEncoderLayer": transformer_layer,
    "Unflatten": plain(nn.Unflatten, axis=1),
    "ViTBlock": timm_block,
}
for axes in "1d", "2d", "3d":
    of = lambda name: getattr(nn, name + axes)
    TWINS["AdaptiveAvgPool" + axes] = adaptive(of("AdaptiveAvgPool"))
    TWINS["AdaptiveMaxPool" + axes] = adaptive(of("AdaptiveMaxPool"))
    TWINS["AvgPool" + axes] = plain(of("AvgPool"), kernel=2)
    TWINS["Conv" + axes] = of_channels(of("Conv"), kernel=3)
    TWINS["ConvTranspose" + axes] = of_channels(of("ConvTranspose"), kernel=3)
    TWINS["MaxPool" + axes] = plain(of("MaxPool"), kernel=2)
for name in "ReflectionPad1d", "ReflectionPad2d", "ReplicationPad1d", "ReplicationPad2d":
    TWINS[name] = plain(getattr(nn, name), pad=1)


def numbers(*shape, low=-2.0, high=2.0):
    return torch.rand(shape) * (high - low) + low


Case = collections.namedtuple("Case", "layer inputs training options")


def all_cases():
    cases = []

    def add(layer, *inputs, training=True, **options):
        """Inputs are tensors, or shapes for random ones."""
        inputs = [numbers(*x) if isinstance(x, tuple) else x for x in inputs]
        cases.append(Case(layer, inputs, training, options))

    add_windows(add)
    add_norms(add)
    add_pointwise(add)
    add_shapes(add)
    add_products(add)
    add_sequences(add)
    return cases


def add_windows(add):
    """Convolutions and pools."""
    for axes, sizes in (1, (11,)), (2, (9, 8)), (3, (5, 7, 6)):
        each = lambda *values: values[0] if axes == 1 else values[:axes]
        of = lambda name: f"{name}{axes}d"
        x, wide = (2, 4, *sizes), (2, 16, *sizes)
        conv = functools.partial(add, of("Conv"))
        conv(x, out=6)
        conv(wide, out=32, pad=1)
        conv(x, out=6, kernel=each(3, 2, 2), stride=each(2, 1, 2), pad=each(1, 1, 0), dilation=each(2, 1, 2), groups=2,
             bias=False)
        conv(x, out=8, kernel=each(2, 3, 1), pad="valid", groups=4)
        for mode in "zeros", "reflect", "replicate", "circular":
            conv(x, out=3, kernel=each(4, 3, 2), pad="same", dilation=each(1, 2, 2), padding_mode=mode)
            conv(x, out=3, kernel=each(3, 4, 2), stride=2, pad=each(2, 1, 1), padding_mode=mode)

        transposed = functools.partial(add, of("ConvTranspose"))
        transposed(x, out=6)
        transposed(wide, out=32, kernel=2, stride=2)
        transposed(x, out=6, kernel=each(3, 2, 3), stride=each(2, 3, 2), pad=each(1, 0, 1), output_padding=each(1, 2, 0),
                   dilation=each(1, 1, 2), groups=2, bias=False)
        transposed(x, out=8, kernel=each(2, 3, 2), pad=1, dilation=2, groups=4)

        overlapping = {"kernel": each(3, 2, 3), "stride": each(2, 1, 2), "pad": each(1, 1, 1)}
        for pool in of("MaxPool"), of("AvgPool"):
            add(pool, x)
            add(pool, x, **overlapping)
            add(pool, x, kernel=3, ceil_mode=True)
            add(pool, x, kernel=3, pad=1, ceil_mode=True)
        add(of("MaxPool"), x, dilation=each(2, 1, 1), **overlapping)
        add(of("AvgPool"), x, count_include_pad=False, **overlapping)
        add(of("AvgPool"), x, kernel=3, stride=2, pad=1, ceil_mode=True, count_include_pad=False)

        # PyTorch takes odd powers as they are, of numbers below 0 too.
        positive = numbers(*x, low=0.1)
        add(of("LpPool"), x)
        add(of("LpPool"), x, norm_type=4, kernel=each(2, 3, 1), stride=1)
        add(of("LpPool"), positive, norm_type=1)
        add(of("LpPool"), positive, norm_type=2.5, kernel=each(3, 2, 2), stride=each(3, 2, 3), ceil_mode=True)

        for pool in of("AdaptiveAvgPool"), of("AdaptiveMaxPool"):
            add(pool, x)
            add(pool, x, output=each(4, 3, 5))
            add(pool, x, output=each(15, 5, 2))
            add(pool, x, output=each(0, 0, 2))
    add("GlobalAvgPool2d", (2, 4, 9, 8))
    add("GlobalMaxPool2d", (2, 4, 9, 8))


def add_norms(add):
    volumes, images, series, vectors = (3, 4, 3, 5, 4), (3, 4, 5, 6), (4, 3, 7), (6, 5)
    for training in True, False:
        for layer, x in (("BatchNorm1d", vectors), ("BatchNorm1d", series), ("BatchNorm2d", images),
                         ("BatchNorm2d", volumes), ("SyncBatchNorm", images), ("SyncBatchNorm", series)):
            add(layer, x, training=training)
            add(layer, x, training=training, eps=0.1, momentum=0.3)
            add(layer, x, training=training, affine=False)
            add(layer, x, training=training, track_running_stats=False)
        for layer, x in ("InstanceNorm1d", series), ("InstanceNorm2d", images):
            add(layer, x, training=training, track_running_stats=True)
            add(layer, x, training=training, track_running_stats=True, affine=True, eps=0.1, momentum=0.3)
    for layer, x in ("InstanceNorm1d", series), ("InstanceNorm2d", images):
        add(layer, x)
        add(layer, x, affine=True, eps=0.1)
    for layer in "LayerNorm", "RMSNorm":
        add(layer, series)
        add(layer, images, normalized_shape=(5, 6), eps=0.1)
        add(layer, images, normalized_shape=(4, 5, 6), elementwise_affine=False)
    add("LayerNorm", images, bias=False)
    for x in images, (3, 12), (2, 8, 5):
        add("GroupNorm", x, num_groups=2)
        add("GroupNorm", x, num_groups=2, eps=0.1)
        add("GroupNorm", x, num_groups=1, affine=False)
    for x in (2, 7, 3, 4), (2, 6, 5), (2, 3, 2, 3, 4):
        add("LocalResponseNorm", x)
        add("LocalResponseNorm", x, size=4, alpha=0.5, beta=0.6, k=2)


def add_pointwise(add):
    x, images = numbers(3, 17, low=-6, high=6), (2, 6, 5, 4)
    for layer in ("CELU", "ELU", "GELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "LogSigmoid",
                  "LogSoftmax", "Mish", "PReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "Softmax", "Softplus",
                  "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold"):
        add(layer, x)
        add(layer, images)
    add("CELU", x, alpha=1.7)
    add("ELU", x, alpha=0.6)
    add("GELU", x, approximate="tanh")
    add("Hardshrink", x, lambd=1.2)
    add("Hardtanh", x, min_val=-0.5, max_val=2.5)
    add("LeakyReLU", x, slope=0.3)
    add("PReLU", images, num_parameters=6, init=0.1)
    add("Softplus", x, beta=2.5)
    add("Softplus", x, beta=1.5, threshold=2)
    add("Softshrink", x, lambd=1.2)
    add("Threshold", x, threshold=0.5, value=-2)
    add("GLU", images)
    add("GLU", images, axis=1)
    for axis in 0, 1, -2:
        add("Softmax", images, axis=axis)
        add("LogSoftmax", images, axis=axis)
    for layer in "AlphaDropout", "DropPath", "Dropout", "Dropout2d":  # in evaluation, as chance is each library's own
        add(layer, images, training=False, p=0.3)


def add_shapes(add):
    images, series = (2, 3, 5, 4), (2, 3, 6)
    add("Flatten", images)
    add("Flatten", images, start_axis=0, end_axis=2)
    add("Flatten", images, start_axis=-2, end_axis=-1)
    add("Unflatten", (2, 6, 5), sizes=(2, 3))
    add("Unflatten", (2, 5, 12), axis=-1, sizes=(2, -1, 3))
    add("Permute", images, axes=(0, 2, 3, 1))
    add("Permute", images, axes=(3, 0, 1, 2))
    for factor in 2, 3:
        add("PixelShuffle", (2, 4 * factor**2, 3, 5), upscale_factor=factor)
        add("PixelUnshuffle", (2, 2, 2 * factor, 3 * factor), downscale_factor=factor)
        add("ChannelShuffle", (2, 6, 2, 3), groups=factor)
    for layer in "Constant", "Reflection", "Replication", "Circular":
        add(layer + "Pad1d", series)
        add(layer + "Pad1d", series, pad=(3, 2))
        add(layer + "Pad2d", images)
        add(layer + "Pad2d", images, pad=(2, 1, 0, 3))
    add("ConstantPad1d", series, pad=(2, -1), value=0.5)
    add("ConstantPad2d", images, pad=(-1, 2, 1, -2), value=-0.5)

    for mode in "nearest", "nearest-exact", "bilinear", "bicubic":
        add("Upsample", images, size=(9, 8), mode=mode)
        add("Upsample", images, size=(3, 2), mode=mode)
        add("Upsample", images, scale_factor=2, mode=mode)
        add("Upsample", images, scale_factor=(2, 1.5), mode=mode)
    for mode in "bilinear", "bicubic":
        add("Upsample", images, size=(9, 8), mode=mode, align_corners=True)
        add("Upsample", images, scale_factor=(2, 1.5), mode=mode, align_corners=True)
    for mode in "nearest", "nearest-exact", "linear":
        add("Upsample", series, size=10, mode=mode)
        add("Upsample", series, scale_factor=1.5, mode=mode)
    add("Upsample", series, size=10, mode="linear", align_corners=True)


def add_products(add):
    """Layers of weights and their blocks."""
    for bias in True, False:
        add("Linear", (4, 5), out=7, bias=bias)
        add("Linear", (2, 3, 33), out=18, bias=bias)
        add("Bilinear", (4, 5), (4, 3), out=7, bias=bias)
        add("Bilinear", (2, 3, 5), (2, 3, 4), out=2, bias=bias)
    words = torch.tensor([[1, 2, 6, 2], [0, 3, 2, 5]])
    for options in {}, {"padding_idx": 2}, {"padding_idx": 0}, {"padding_idx": -2}:
        add("Embedding", words, num=7, dim=5, **options)
    images = (2, 4, 6, 5)
    for training in True, False:
        add("BasicBlock", images, training=training, out=4)
        add("BasicBlock", images, training=training, out=6, stride=2)
        add("Bottleneck", (2, 8, 6, 5), training=training, channels=2)
        add("Bottleneck", images, training=training, channels=4, stride=2, groups=2, base_width=32)


def add_sequences(add):
    x, wide = (3, 5, 12), (2, 5, 16)
    add("LearnedPositions", x)
    add("SinusoidalPositions", x)
    add("LayerScale", x, init_values=0.1)
    add("Mlp", x, hidden=20)
    add("Mlp", x, training=False, hidden=20, drop=0.3)
    add("Attention", wide)
    add("Attention", x, num_heads=3, qkv_bias=True)
    add("Attention", x, training=False, num_heads=3, attn_drop=0.3, proj_drop=0.3)
    add("MultiheadAttention", x, num_heads=3)
    add("MultiheadAttention", x, training=False, num_heads=3, bias=False, dropout=0.3)
    add("ViTBlock", x, num_heads=3)
    add("ViTBlock", x, num_heads=3, mlp_ratio=2.5, qkv_bias=False, init_values=0.1, eps=0.1)
    add("ViTBlock", x, training=False, num_heads=3, proj_drop=0.3, attn_drop=0.3, drop_path=0.3)

    # In evaluation PyTorch asks for the biases where the number of heads is even.
    small = {"nhead": 3, "dim_feedforward": 16, "dropout": 0}
    for layer, depth in ("TransformerEncoderLayer", {}), ("TransformerEncoder", {"num_layers": 2}):
        add(layer, x, training=False, nhead=3, **depth)
        add(layer, x, **small, **depth)
        add(layer, x, activation="gelu", layer_norm_eps=0.1, norm_first=True, **small, **depth)
        add(layer, x, bias=False, **small, **depth)
    add("TransformerEncoder", x, num_layers=2, layer_norm_eps=0.1, final_norm=True, **small)
    add("TransformerEncoder", x, num_layers=1, bias=False, final_norm=True, **small)

    series = (3, 5, 4)
    for cell in "LSTM", "GRU", "RNN":
        add(cell, series, hidden=6)
        add(cell, series, hidden=6, last=True)
        add(cell, series, hidden=6, num_layers=2, bidirectional=True, last=True)
        add(cell, series, hidden=6, batch_first=False, bias=False, last=True)
        add(cell, series, training=False, hidden=6, num_layers=2, dropout=0.3)
    add("LSTM", series, hidden=6, proj_size=2, last=True)
    add("LSTM", series, hidden=6, num_layers=2, bidirectional=True, peephole=True)
    add("GRU", series, hidden=6, num_layers=2, bidirectional=True, reset_after=False)
    add("RNN", series, hidden=6, num_layers=2, nonlinearity="relu")


def twin_of(case):
    make = TWINS.get(case.layer) or plain(getattr(nn, case.layer))
    return make(*case.inputs, **case.options).double()


def drawn(name, tensor):
    variance = name.endswith("running_var")
    return numbers(*tensor.shape, low=0.5 if variance else -0.7, high=1.5 if variance else 0.7)


class Expected:
    """What PyTorch makes of a case, in the names of tests/layers."""

    def __init__(self, case):
        module = twin_of(case)
        self.tensors = {name: drawn(name, tensor) for name, tensor in module.state_dict().items()
                        if not name.endswith("num_batches_tracked")}  # which PyTorch alone keeps
        module.load_state_dict(self.tensors, strict=False)
        x = [t.double().requires_grad_() if t.is_floating_point() else t for t in case.inputs]
        self.results = {"frozen": module.eval()(*x).detach()}
        out = module.train(case.training)(*x)
        self.dout = numbers(*out.shape)
        self.results["out"] = out.detach()
        out.backward(self.dout.double())
        leaves = {f"din{k}": t for k, t in enumerate(x) if t.is_floating_point()}
        leaves.update((f"d.{name}", weight) for name, weight in module.named_parameters())
        for name, leaf in leaves.items():
            self.results[name] = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
        weights = dict(module.named_parameters())
        self.state = [name for name in self.tensors if name not in weights]
        self.results.update((f"after.{name}", module.state_dict()[name]) for name in self.state)

    def arrays(self, i, case):
        """What tests/layers is given."""
        given = {f"in{k}": t for k, t in enumerate(case.inputs)}
        given.update((f"tensor.{name}", tensor) for name, tensor in self.tensors.items())
        return {f"{i}.{name}": tensor.contiguous().numpy() for name, tensor in {**given, "dout": self.dout}.items()}


def ran(cases, arrays):
    """The rows and the tensors that tests/layers answers with."""
    with tempfile.TemporaryDirectory() as folder:
        path = lambda file: os.path.join(folder, file)
        with open(path("cases.json"), "w") as file:
            json.dump([{"layer": case.layer, "options": case.options, "inputs": len(case.inputs), "training": case.training}
                       for case in cases], file)
        safetensors_files.write(path("in"), arrays)
        output = subprocess.run([RUNNER, "run", path("cases.json"), path("in"), path("out")], stdout=subprocess.PIPE,
                                check=True).stdout
        return json.loads(output), safetensors_files.read(path("out"))


class Layers(unittest.TestCase):
    def agree(self, actual, expected, tolerance, what):
        expected = expected.numpy()
        self.assertEqual(actual.shape, expected.shape, what)
        largest = np.max(np.abs(expected), initial=0)
        np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * largest, err_msg=what)

    def test_every_layer(self):
        torch.manual_seed(1)
        cases, expected, arrays = [], [], {}
        for case in all_cases():
            with self.subTest(self.what(case), of="PyTorch"):
                theirs = Expected(case)
                arrays.update(theirs.arrays(len(cases), case))
                expected.append(theirs)
                cases.append(case)
        rows, ours = ran(cases, arrays)
        self.assertEqual(len(rows), len(cases))
        seen = collections.defaultdict(list)
        for i, (case, theirs, row) in enumerate(zip(cases, expected, rows)):
            with self.subTest(self.what(case)):
                self.assertNotIn("error", row)
                self.assertEqual((row["tensors"], row["state"]), (list(theirs.tensors), theirs.state))
                for name, tensor in theirs.results.items():
                    self.agree(ours[f"{i}.{name}"], tensor, TOLERANCE * (2 if name.startswith("d") else 1), name)
                seen[case.layer].append(row["options"])
        known = json.loads(subprocess.run([RUNNER, "list"], stdout=subprocess.PIPE, check=True).stdout)
        self.assertTrue(known)
        for layer, defaults in known.items():
            with self.subTest(layer):
                self.assertIn(layer, seen, "has no case that passes")
                for option, default in defaults.items():
                    if option not in INITIAL:
                        self.assertTrue(any(options[option] != default for options in seen[layer]),
                                        f"{option} is {default} in every case that passes")

    @staticmethod
    def what(case):
        shapes = [tuple(x.shape) for x in case.inputs]
        return f"{case.layer} {case.options} {shapes} {'training' if case.training else 'evaluation'}"


if __name__ == "__main__":
    unittest.main()
