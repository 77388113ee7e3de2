"""Compares LSTM, GRU and RNN with PyTorch's modules of the same weights, forward and backward.

PyTorch computes in double precision. ctest sets NEURIM_BUILD (the build folder, whose tests/recurrent_layers runs our
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
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import safetensors_files

RUNNER = os.path.join(os.environ.get("NEURIM_BUILD", "build"), "tests", "recurrent_layers")
TOLERANCE = 1e-5  # of the largest magnitude of a tensor


class RecurrentLayers(unittest.TestCase):
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
        double = lambda name: torch.from_numpy(case[name]).double().requires_grad_()
        weights = {name: case["weight." + name] for name in row["weights"]}
        x, lstm = double("x"), row["cell"] == "LSTM"
        hidden = weights["weight_hh_l0"].shape[0] // {"LSTM": 4, "GRU": 3, "RNN": 1}[row["cell"]]
        options = {"proj_size": weights["weight_hh_l0"].shape[1]} if row["projection"] else {}
        if row["cell"] == "RNN":
            options["nonlinearity"] = row["nonlinearity"]
        twin = getattr(torch.nn, row["cell"])(x.shape[2], hidden, row["layers"], bias=row["bias"],
                                              batch_first=row["batch_first"], bidirectional=row["bidirectional"],
                                              dtype=torch.float64, **options)
        self.assertEqual(list(weights), [name for name, _ in twin.named_parameters()])
        twin.load_state_dict({name: torch.from_numpy(value).double() for name, value in weights.items()})

        states = [double(name) for name in ("h0", "c0") if name in case]
        given = x
        if row["lengths"]:
            given = pack_padded_sequence(x, torch.from_numpy(case["lengths"]), row["batch_first"], enforce_sorted=False)
        y, last = twin(given, tuple(states) if lstm and states else states[0] if states else None)
        if row["lengths"]:
            y, _ = pad_packed_sequence(y, row["batch_first"], total_length=x.shape[int(row["batch_first"])])
        out = [y, *last] if lstm else [y, last]
        for k, expected in enumerate(out):
            self.agree(case[f"out{k}"], expected, f"output {k}")
        torch.autograd.backward(out, [torch.from_numpy(case[f"dout{k}"]).double() for k in range(len(out))])
        for name, tensor in [("x", x), *zip(("h0", "c0"), states), *twin.named_parameters()]:
            self.agree(case[f"d.{name}"], tensor.grad, f"gradient of {name}")

    def test_every_case(self):
        self.assertEqual(len(self.rows), 5 * 2 ** 4)
        for i, row in enumerate(self.rows):
            with self.subTest(row):
                self.check(i, row)


if __name__ == "__main__":
    unittest.main()
