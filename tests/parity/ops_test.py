"""Compares every op with PyTorch's, forward and backward, over the samples of the op table.

PyTorch computes in double precision. ctest sets NEURIM_BUILD (the build folder, whose tests/op_samples runs our side).
Exit code 77: not here.
"""
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
    from torch.nn import functional as F
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import safetensors_files

RUNNER = os.path.join(os.environ.get("NEURIM_BUILD", "build"), "tests", "op_samples")

# Random numbers are our own, and the gradients are reached through the ops that they are of. What ONNX's operators are made of is
# compared by ONNX's own tests (onnx_conformance_test.py).
WITHOUT_TWIN = {"all_gather", "all_reduce", "all_reduce_begin", "all_reduce_end", "reduce_scatter", "team_copy", "team_gather", "dropout", "random_uniform", "integer", "top_k", "scatter", "grid_sample", "roi_align", "deform_columns",
                "max_pool_indices", "max_unpool", "max_roi_pool", "linear_attention"}
# Inputs that PyTorch's own function has no gradient for, or one that only log_softmax makes right (see losses_test.py).
CONSTANT_IN_TORCH = {"batch_norm": (3, 4), "cross_entropy": (2,), "binary_cross_entropy": (2,), "ctc_loss": (0,)}

DTYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
          "i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool}


def padded(x, pad, value=0.0):
    """The spatial axes padded by all begins, then all ends."""
    begins, ends = pad[:len(pad) // 2], pad[len(pad) // 2:]
    return F.pad(x, [amount for pair in zip(begins[::-1], ends[::-1]) for amount in pair], value=value)


def convolution(function):
    return lambda a, x, weight, bias=None: function(padded(x, a["pad"]), weight, bias, a["stride"], 0, a["dilation"],
                                                    a["groups"])


def conv_transpose(function):
    def twin(a, x, weight, bias=None):
        half = len(a["pad"]) // 2
        begins, ends = a["pad"][:half], a["pad"][half:]
        if begins == ends:
            return function(x, weight, bias, a["stride"], begins, a["output_padding"], a["groups"], a["dilation"])
        whole = function(x, weight, None, a["stride"], 0, 0, a["groups"], a["dilation"])  # PyTorch cuts both ends alike
        more = [output - end for output, end in zip(a["output_padding"], ends)]
        y = padded(whole, [-begin for begin in begins] + more)
        return y if bias is None else y + bias.reshape(-1, *[1] * half)
    return twin


def quantized(a, x, scale):
    least, most = {"u8": (0, 255), "i8": (-128, 127)}[a["dtype"]]
    return ((x / scale).round() + a["zero_point"]).clamp(least, most).to(DTYPES[a["dtype"]])


def window(a):
    return [s or k for s, k in zip(a["stride"], a["kernel"])]


def max_pool(function):
    def twin(a, x):
        if not x.is_floating_point():  # PyTorch pools no bytes
            return twin(a, x.to(torch.float32)).to(x.dtype)
        if a["ceil_mode"]:
            return function(x, a["kernel"], window(a), a["pad"][:len(a["kernel"])], a["dilation"], True)
        return function(padded(x, a["pad"], float("-inf")), a["kernel"], window(a), 0, a["dilation"])
    return twin


def avg_pool(function, convolution):
    def twin(a, x):
        if a["ceil_mode"]:
            return function(x, a["kernel"], window(a), a["pad"][:len(a["kernel"])], True, a["count_include_pad"])

        def sums(t):  # as a convolution, since PyTorch's average knows no dilation
            ones = torch.ones(t.shape[1], 1, *a["kernel"], dtype=t.dtype)
            return convolution(padded(t, a["pad"]), ones, None, window(a), 0, a["dilation"], t.shape[1])

        return sums(x) / (math.prod(a["kernel"]) if a["count_include_pad"] else sums(torch.ones_like(x)))
    return twin


def lp_pool(average):  # the definition, as older PyTorch has it over one and two axes only
    def twin(a, x):
        p = a["norm_type"]
        sums = average(x.abs().pow(p), a["kernel"], window(a), 0, a["ceil_mode"]) * math.prod(a["kernel"])
        return sums.pow(1 / p)
    return twin


def adaptive_pool(function):
    return lambda a, x: function(x, [size or x.size(2 + axis) for axis, size in enumerate(a["output"])])


def batch_norm_train(a, x, weight, bias):
    axes = [axis for axis in range(x.dim()) if axis != 1]
    y = F.batch_norm(x, None, None, weight, bias, True, 0, a["eps"])
    return y, x.mean(axes), x.var(axes, unbiased=False)


def cross_entropy(a, logits, target, weights=None):
    return F.cross_entropy(logits, target, weights, ignore_index=a["ignore_index"], reduction=a["reduction"],
                           label_smoothing=a["label_smoothing"])


def binary_cross_entropy(a, logits, target, weights=None):
    return F.binary_cross_entropy_with_logits(logits, target, pos_weight=weights, reduction=a["reduction"])


def ctc_loss(a, log_probs, targets, input_lengths, target_lengths):
    if targets.dim() == 1:
        targets = targets[:target_lengths.sum()]
    return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, a["blank"], "none", a["zero_infinity"])


def matmul(a, x, y):
    return (x.mT if a["transpose_a"] else x) @ (y.mT if a["transpose_b"] else y)


def reduction(function):
    return lambda a, x: function(x, dim=a["axes"] or list(range(x.dim())), keepdim=a["keepdims"])


def gather(a, x, indices):
    axis = a["axis"] % x.dim()
    taken = x.index_select(axis, indices.flatten().long() % x.shape[axis])
    return taken.reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1:])


def slices(a, x):
    axes = a["axes"] or range(len(a["starts"]))
    for axis, start, end, step in zip(axes, a["starts"], a["ends"], a["steps"] or [1] * len(a["starts"])):
        places = range(*slice(start, end, step).indices(x.shape[axis]))
        x = x.index_select(axis % x.dim(), torch.tensor(list(places), dtype=torch.int64))
    return x


def pad(a, x):
    return padded(x, a["pads"], a["value"]) if a["pads"] else x


def border_pad(a, x):
    begins, ends = a["pads"][2:x.dim()], a["pads"][x.dim() + 2:]
    amounts = [amount for pair in zip(begins[::-1], ends[::-1]) for amount in pair]
    return F.pad(x, amounts, mode=a["mode"])


def group_norm(a, x, weight, bias):
    return F.group_norm(x, a["groups"], weight, bias, a["eps"])


def interpolate(a, x):
    corners = None if a["mode"].startswith("nearest") else a["align_corners"]
    factors = a["scale_factor"] * (x.dim() - 2 if len(a["scale_factor"]) == 1 else 1)
    return F.interpolate(x, a["size"] or None, factors or None, a["mode"], corners)


def shrink(a, x):
    return F.softshrink(x, a["lambd"]) if a["bias"] else F.hardshrink(x, a["lambd"])


def stepped(optimizer, weight, grad, state, **options):
    weight = torch.nn.Parameter(weight.detach().clone())
    weight.grad = grad.detach().clone()
    rule = optimizer([weight], **options)
    rule.state[weight].update((name, tensor.detach().clone()) for name, tensor in state.items())
    rule.step()
    return [weight.detach()] + [rule.state[weight][name] for name in state if name != "step"]


def sgd_step(a, weight, grad, *rest):
    if a["scaled"]:
        *rest, scale = rest
        grad = grad * scale
    state = {"momentum_buffer": rest[0]} if a["momentum"] else {}
    return stepped(torch.optim.SGD, weight, grad, state, lr=rest[-1].item(), momentum=a["momentum"],
                   dampening=a["dampening"], nesterov=a["nesterov"], weight_decay=a["weight_decay"])


def adam_step(a, weight, grad, m, v, lr, step, scale=1):
    grad = grad * scale
    return stepped(torch.optim.AdamW if a["decoupled"] else torch.optim.Adam, weight, grad,
                   {"step": (step - 1).double(), "exp_avg": m, "exp_avg_sq": v}, lr=lr.item(),
                   betas=(a["beta1"], a["beta2"]), eps=a["eps"], weight_decay=a["weight_decay"])


def div(a, x, y):
    return torch.div(x, y, rounding_mode=None if x.is_floating_point() else "trunc")


def rms_norm(a, x, weight):  # PyTorch has it since 2.4
    axes = list(range(x.dim() - weight.dim(), x.dim()))
    return x * (x.square().mean(axes, keepdim=True) + a["eps"]).rsqrt() * weight


def channel_shuffle(x, groups):  # PyTorch 1.13 has no gradient of its own
    return x.unflatten(1, (groups, -1)).transpose(1, 2).flatten(1, 2)


def recurrent(kind):
    """One direction of nn.LSTM, nn.GRU or nn.RNN, on packed sequences."""
    def twin(a, x, weight_ih, weight_hh, *rest):
        rest = list(rest)
        take = lambda count: [rest.pop(0) for _ in range(count)]
        lstm = kind is torch.nn.LSTM
        biases, projection = take(2 * a["bias"]), take(a.get("projection", 0))
        states = take((1 + lstm) * a["state"])
        lengths = rest[0] if rest else torch.full((x.shape[1],), x.shape[0])
        hidden = weight_ih.shape[0] // {torch.nn.LSTM: 4, torch.nn.GRU: 3, torch.nn.RNN: 1}[kind]
        options = {"proj_size": weight_hh.shape[1]} if projection else {}
        if kind is torch.nn.RNN:
            options["nonlinearity"] = a["nonlinearity"]
        layer = kind(x.shape[2], hidden, bias=a["bias"], bidirectional=True, dtype=x.dtype, **options)
        layer._flat_weights = 2 * [weight_ih, weight_hh, *biases, *projection]  # one direction, then the other
        both = tuple(state.expand(2, *state.shape) for state in states) or (None,)
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        y, last = layer(packed, both if len(both) == 2 else both[0])
        y, _ = torch.nn.utils.rnn.pad_packed_sequence(y, total_length=x.shape[0])
        side = int(a["reverse"])
        return [y.chunk(2, -1)[side], *(state[side] for state in (last if lstm else [last]))]
    return twin


def seen_keys(a, scores, mask):
    """What is added to the scores, all of it as one floating mask."""
    bias = torch.zeros_like(scores)
    if mask is not None:
        bias = bias.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else bias + mask
    if a["is_causal"]:
        bias = bias.masked_fill(torch.ones(scores.shape[-2:]).tril() == 0, -math.inf)
    return bias


def attention(a, query, key, value, mask=None):
    """By its definition, which older PyTorch has no function for; a query that sees no key gives 0."""
    key, value = (t.repeat_interleave(query.shape[1] // t.shape[1], 1) for t in (key, value))
    scores = query @ key.mT * a["scale"]
    bias = seen_keys(a, scores, mask)
    blind = bias.amax(-1, keepdim=True) == -math.inf
    weights = (scores + bias.masked_fill(blind, 0)).softmax(-1).masked_fill(blind, 0)
    return weights @ value


def attention_side_by_side(a, *inputs):
    first, more = (inputs[0].chunk(3, -1), inputs[1:]) if a["packed"] else (inputs[:3], inputs[3:])
    apart = (t.unflatten(-1, (a["heads"], -1)).transpose(1, 2) for t in first)
    return attention(a, *apart, *more).transpose(1, 2).flatten(2)


def with_sinusoidal_positions(x):
    length, features = x.shape[1:]
    steps = 10000 ** (-2 * torch.arange((features + 1) // 2).double() / features)
    angles = torch.arange(length).double()[:, None] * steps
    return x + torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :features]


def rotary_positions(x, base, interleaved, first):
    """Each pair as a complex number, which is multiplied by one of length 1."""
    pairs = x.unflatten(-1, (-1, 2)) if interleaved else x.unflatten(-1, (2, -1)).transpose(-1, -2)
    places = first + torch.arange(x.shape[-2]).double()
    angles = places[:, None] * base ** (-torch.arange(pairs.shape[-2]).double() / pairs.shape[-2])
    turned = torch.view_as_complex(pairs.contiguous()) * torch.polar(torch.ones_like(angles), angles)
    y = torch.view_as_real(turned)
    return (y if interleaved else y.transpose(-1, -2)).flatten(-2)


def plain(function):
    """An op without attributes."""
    return lambda a, *x: function(*x)


TWINS = {
    "adam_step": adam_step,
    "all_finite": lambda a, *x: torch.stack([each.isfinite().all() for each in x]).all(),
    "argmax": lambda a, x: x.argmax(a["axis"], a["keepdims"]),
    "batch_norm": lambda a, x, weight, bias, mean, var: F.batch_norm(x, mean, var, weight, bias, eps=a["eps"]),
    "batch_norm_train": batch_norm_train,
    "binary_cross_entropy": binary_cross_entropy,
    "border_pad": border_pad,
    "broadcast_to": lambda a, x: x.broadcast_to(a["shape"]),
    "det": lambda a, x: torch.linalg.det(x),
    "math_function": lambda a, x: getattr(torch, a["function"])(x),
    "cast": lambda a, x: x.to(DTYPES[a["dtype"]]),
    "celu": lambda a, x: F.celu(x, a["alpha"]),
    "clamp": lambda a, x: x.clamp(a["low"], a["high"]),
    "concat": lambda a, *x: torch.cat(x, a["axis"]),
    "cross_entropy": cross_entropy,
    "ctc_loss": ctc_loss,
    "custom_gradient": lambda a, *x: x[a["inputs"] : a["inputs"] + a["results"]],
    "dequantize": lambda a, q, scale: (q.to(scale.dtype) - a["zero_point"]) * scale,
    "detach": plain(torch.detach),
    "div": div,
    "elu": lambda a, x: F.elu(x, a["alpha"]),
    "embedding": lambda a, weight, rows: F.embedding(rows.long() % len(weight), weight, a["padding_idx"]),
    "equal": plain(torch.eq),
    "gather": gather,
    "gelu": lambda a, x: F.gelu(x, approximate=a["approximate"]),
    "global_avg_pool2d": lambda a, x: F.adaptive_avg_pool2d(x, 1),
    "global_max_pool2d": lambda a, x: F.adaptive_max_pool2d(x, 1),
    "greater_equal": plain(torch.ge),
    "greater": plain(torch.gt),
    "group_norm": group_norm,
    "hardsigmoid": plain(F.hardsigmoid),
    "hardswish": plain(F.hardswish),
    "instance_norm": lambda a, x, weight, bias: F.instance_norm(x, None, None, weight, bias, eps=a["eps"]),
    "interpolate": interpolate,
    "gru": recurrent(torch.nn.GRU),
    "iota": lambda a: torch.arange(a["n"], dtype=DTYPES[a["dtype"]]),
    "layer_norm": lambda a, x, weight, bias: F.layer_norm(x, weight.shape, weight, bias, a["eps"]),
    "relu6": plain(F.relu6),
    "leaky_relu": lambda a, x: F.leaky_relu(x, a["slope"]),
    "less_equal": plain(torch.le),
    "less": plain(torch.lt),
    "linear": plain(F.linear),
    "local_response_norm": lambda a, x: F.local_response_norm(x, **a),
    "log_softmax": lambda a, x: x.log_softmax(a["axis"]),
    "lstm": recurrent(torch.nn.LSTM),
    "matmul": matmul,
    "mean": reduction(torch.mean),
    "mish": plain(F.mish),
    "mse_loss": lambda a, x, y: F.mse_loss(x, y, reduction=a["reduction"]),
    "not_equal": plain(torch.ne),
    "one_hot": lambda a, x: F.one_hot(x.long(), a["classes"]),
    "pad": pad,
    "prelu": lambda a, x, slope: torch.where(x > 0, x, slope * x),
    "quantize": quantized,
    "reduce_max": reduction(torch.amax),
    "reduce_min": reduction(torch.amin),
    "reshape": lambda a, x: x.reshape(a["shape"]),
    "rms_norm": rms_norm,
    "selu": plain(F.selu),
    "rnn": recurrent(torch.nn.RNN),
    "scaled_dot_product_attention": attention,
    "multihead_attention": attention_side_by_side,
    "sgd_step": sgd_step,
    "shrink": shrink,
    "silu": plain(F.silu),
    "slice": slices,
    "softmax": lambda a, x: x.softmax(a["axis"]),
    "softplus": plain(F.softplus),
    "softsign": plain(F.softsign),
    "split": lambda a, x: torch.split(x, a["sizes"], a["axis"]),
    "sum": reduction(torch.sum),
    "transpose": lambda a, x: x.permute(a["perm"]),
    "where": plain(torch.where),
}
for same in ("abs add erf exp floor log logical_and logical_not logical_or maximum minimum mul neg pow reciprocal "
             "relu rsqrt sigmoid sign sqrt square sub tanh").split():
    TWINS[same] = plain(getattr(torch, same))
for axes in "1d", "2d", "3d":
    of = lambda name: getattr(F, name + axes)
    TWINS["adaptive_avg_pool" + axes] = adaptive_pool(of("adaptive_avg_pool"))
    TWINS["adaptive_max_pool" + axes] = adaptive_pool(of("adaptive_max_pool"))
    TWINS["avg_pool" + axes] = avg_pool(of("avg_pool"), of("conv"))
    TWINS["conv" + axes] = convolution(of("conv"))
    TWINS["conv_transpose" + axes] = conv_transpose(of("conv_transpose"))
    TWINS["lp_pool" + axes] = lp_pool(of("avg_pool"))
    TWINS["max_pool" + axes] = max_pool(of("max_pool"))


def twin(row):
    """What PyTorch does in place of a row: compositions go by the names of its functions and arguments."""
    if not row["composition"]:
        return TWINS[row["op"]]
    function = globals().get(row["op"]) or getattr(F, row["op"], None) or getattr(torch, row["op"])
    return lambda a, *x: function(*x, **a)


def foreign(row):
    """Variants that PyTorch has not, ONNX Runtime being their peer, and ones with random numbers of our own."""
    a = row["attributes"]
    if row["op"] == "cast" and any(name in row["what"] for name in ("u16", "u32", "u64")):
        return True
    return a.get("peephole") or a.get("reset_after") is False or a.get("dropout_p", 0) > 0


def as_double(array):
    tensor = torch.from_numpy(array)
    return tensor.double().requires_grad_() if tensor.is_floating_point() else tensor


class Ops(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "samples.safetensors")
            output = subprocess.run([RUNNER, path], stdout=subprocess.PIPE, check=True).stdout
            cls.rows, cls.tensors = json.loads(output), safetensors_files.read(path)

    def agree(self, actual, expected, tolerance, what):
        """Within the tolerance of the largest magnitude expected; NaN agrees with NaN."""
        expected = expected.detach().double().numpy()
        self.assertEqual(actual.shape, expected.shape, what)
        largest = np.max(np.abs(expected), initial=0, where=np.isfinite(expected))
        np.testing.assert_allclose(actual.astype(np.float64), expected, rtol=0, atol=tolerance * largest, err_msg=what)

    def check(self, i, row):
        numbered = lambda kind: self.tensors.get(f"{i}.{kind}")
        x = [as_double(numbered(f"in{k}")) for k in range(row["inputs"])]
        constant = CONSTANT_IN_TORCH.get(row["op"], ())
        y = twin(row)(row["attributes"], *(t.detach() if k in constant else t for k, t in enumerate(x)))
        y = y if isinstance(y, (tuple, list)) else [y]
        self.assertEqual(len(y), row["outputs"])
        for k, expected in enumerate(y):
            self.agree(numbered(f"out{k}"), expected, row["tolerance"], f"output {k}")
        if not row["differentiable"]:
            return
        floating = [t for t in y if t.is_floating_point()]
        pairs = [(t, torch.from_numpy(numbered(f"dout{k}")).to(t.dtype)) for k, t in enumerate(floating)]
        pairs = [(t, seed) for t, seed in pairs if t.requires_grad]
        if pairs:
            torch.autograd.backward(*zip(*pairs))
        for k, tensor in enumerate(x):
            if not tensor.is_floating_point() or k in constant:
                continue
            ours, theirs = numbered(f"din{k}"), tensor.grad
            if ours is None:
                ours = np.zeros(tensor.shape)
            if theirs is None:
                theirs = torch.zeros_like(tensor)
            self.agree(ours, theirs, 2 * row["tolerance"], f"gradient of input {k}")

    def test_every_sample(self):
        for i, row in enumerate(self.rows):
            if foreign(row) or not row["composition"] and (row["op"].endswith(("_grad", "_recurrence")) or row["op"] in WITHOUT_TWIN):
                continue
            with self.subTest(row["what"]):
                self.check(i, row)

    @unittest.skipUnless(hasattr(torch, "_safe_softmax"), "queries that see no key are 0 in newer PyTorch")
    def test_attention_is_what_newer_pytorch_has(self):
        """The twin above against PyTorch's function, forward and backward."""
        rows = [(i, row) for i, row in enumerate(self.rows)
                if row["op"] == "scaled_dot_product_attention" and not foreign(row)]
        self.assertTrue(rows)
        for i, row in rows:
            with self.subTest(row["what"]), torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
                a, results = row["attributes"], []
                for function in "twin", "torch":
                    x = [as_double(self.tensors[f"{i}.in{k}"]) for k in range(row["inputs"])]
                    if function == "twin":
                        y = attention(a, *x)
                    else:
                        shape = torch.empty(*x[0].shape[:3], x[1].shape[2])
                        mask = seen_keys(a, shape.double(), x[3] if len(x) > 3 else None)
                        y = F.scaled_dot_product_attention(*x[:3], mask, scale=a["scale"], enable_gqa=True)
                    y.square().sum().backward()
                    results.append([y.detach(), *(t.grad for t in x if t.is_floating_point())])
                for twin_has, torch_has in zip(*results):
                    torch.testing.assert_close(twin_has, torch_has)


if __name__ == "__main__":
    unittest.main()
