"""Compares multi-head attention, the layers of transformers and stacks of them with PyTorch's modules of the same weights,
and the ViT block with timm's form of it, forward and backward.

PyTorch computes in double precision. ctest sets NEURIM_BUILD (the build folder, whose tests/attention_layers runs our
side). Exit code 77: not here.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np
    import torch
    from torch import nn
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import safetensors_files
import torch_models

RUNNER = os.path.join(os.environ.get("NEURIM_BUILD", "build"), "tests", "attention_layers")
TOLERANCE = 1e-5  # of the largest magnitude of a tensor
WIDTH, HEADS, INNER = 12, 3, 16


def transformer(row):
    """A layer, or a stack with a norm behind it."""
    name = row["module"]
    layer = getattr(nn, name if name.endswith("Layer") else name + "Layer")(
        WIDTH, HEADS, INNER, 0.0, row["activation"], 1e-3, batch_first=True, norm_first=row["norm_first"])
    if name.endswith("Layer"):
        return layer
    options = {"enable_nested_tensor": False} if name == "TransformerEncoder" else {}
    return getattr(nn, name)(layer, row["layers"], nn.LayerNorm(WIDTH, 1e-3), **options)


def twin(row):
    if row["module"] == "MultiheadAttention":
        return nn.MultiheadAttention(WIDTH, HEADS, bias=row["bias"], kdim=row.get("kdim"), vdim=row.get("vdim"),
                                     batch_first=True)
    if row["module"] == "ViTBlock":
        return torch_models.TimmBlock(WIDTH, HEADS, scaled=row["scaled"])
    return transformer(row)


def run(row, module, inputs, padding, hidden):
    if row["module"] == "MultiheadAttention":
        query, key, value = inputs if len(inputs) == 3 else inputs * 3
        return module(query, key, value, padding, need_weights=False, attn_mask=hidden)[0]
    if row["module"] == "ViTBlock":
        return module(*inputs)
    if row["module"].startswith("TransformerDecoder"):
        return module(*inputs, tgt_mask=hidden, memory_key_padding_mask=padding)
    return module(*inputs, hidden, src_key_padding_mask=padding)


class AttentionLayers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "cases.safetensors")
            output = subprocess.run([RUNNER, path], stdout=subprocess.PIPE, check=True).stdout
            cls.rows, cls.tensors = json.loads(output), safetensors_files.read(path)

    def agree(self, actual, expected, what):
        expected = expected.detach().numpy()
        self.assertEqual(actual.shape, expected.shape, what)
        np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE * np.max(np.abs(expected)), err_msg=what)

    def check(self, i, row):
        prefix = f"{i}."
        case = {name[len(prefix):]: value for name, value in self.tensors.items() if name.startswith(prefix)}
        module = twin(row).double()
        self.assertEqual(row["weights"], [name for name, _ in module.named_parameters()])
        module.load_state_dict({name: torch.from_numpy(case["weight." + name]).double() for name in row["weights"]})
        inputs = [torch.from_numpy(case["in." + name]).double().requires_grad_() for name in row["inputs"]]
        padding, hidden = (torch.from_numpy(case[name]) if name in case else None
                           for name in ("mask.key_padding_mask", "mask.attn_mask"))
        if hidden is not None and hidden.is_floating_point():
            hidden = hidden.double()
        if row["causal"]:
            length = inputs[0].shape[1]
            positions = inputs[1].shape[1] if row["module"] == "MultiheadAttention" and len(inputs) > 1 else length
            hidden = torch.ones(length, positions).triu(1).bool()
        out = run(row, module, inputs, padding, hidden)
        self.agree(case["out"], out, "output")
        out.backward(torch.from_numpy(case["dout"]).double())
        for name, tensor in [*zip(row["inputs"], inputs), *module.named_parameters()]:
            self.agree(case["d." + name], tensor.grad, f"gradient of {name}")

    def test_every_case(self):
        self.assertEqual(len(self.rows), 8 * 6 + 4 * (5 + 2) + 2)
        for i, row in enumerate(self.rows):
            with self.subTest(row):
                self.check(i, row)


if __name__ == "__main__":
    unittest.main()
