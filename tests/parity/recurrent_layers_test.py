"""Compares LSTM, GRU and RNN, with every combination of their options, with PyTorch's modules of the same weights, forward
and backward; and with their formula where PyTorch has not the option.

PyTorch computes in double precision. ctest sets NEURIM_BUILD (the build folder, whose tests/recurrent_layers runs our
side). Exit code 77: not here.
"""
import collections
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

import recurrent_formula
import safetensors_files

RUNNER = os.path.join(os.environ.get("NEURIM_BUILD", "build"), "tests", "recurrent_layers")
TOLERANCE = 1e-5  # of the largest magnitude of a tensor


def foreign(row):
    """Whether PyTorch has no module for it."""
    return row["peephole"] or not row["reset_after"]


def built(row, weights, inputs, by_formula):
    """The module of a row, in double precision."""
    hidden = weights["weight_hh_l0"].shape[0] // {"LSTM": 4, "GRU": 3, "RNN": 1}[row["cell"]]
    options = {"num_layers": row["layers"], **{name: row[name] for name in ("bias", "batch_first", "bidirectional")}}
    if row["projection"]:
        options["proj_size"] = weights["weight_hh_l0"].shape[1]
    if row["cell"] == "RNN":
        options["nonlinearity"] = row["nonlinearity"]
    if by_formula:
        module = recurrent_formula.Recurrent(row["cell"], inputs, hidden, peephole=row["peephole"],
                                             reset_after=row["reset_after"], **options)
    else:
        module = getattr(torch.nn, row["cell"])(inputs, hidden, **options)
    module.double().load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    return module


def run(row, case, by_formula):
    """Outputs, last h and last c of the case, and by name what has a gradient."""
    double = lambda name: torch.from_numpy(case[name]).double().requires_grad_()
    leaves = {name: double(name) for name in ("x", "h0", "c0") if name in case}
    x, *states = leaves.values()
    twin = built(row, {name: case["weight." + name] for name in row["weights"]}, x.shape[2], by_formula)
    leaves.update(twin.named_parameters())
    given = tuple(states) if len(states) > 1 else states[0] if states else None
    lengths = torch.from_numpy(case["lengths"]) if row["lengths"] else None
    if by_formula:
        y, last = twin(x, given, lengths)
    elif lengths is None:
        y, last = twin(x, given)
    else:
        packed = pack_padded_sequence(x, lengths, row["batch_first"], enforce_sorted=False)
        y, last = twin(packed, given)
        y, _ = pad_packed_sequence(y, row["batch_first"], total_length=x.shape[int(row["batch_first"])])
    return [y, *last] if row["cell"] == "LSTM" else [y, last], leaves


class RecurrentLayers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "cases.safetensors")
            output = subprocess.run([RUNNER, path], stdout=subprocess.PIPE, check=True).stdout
            cls.rows, cls.cases = json.loads(output), collections.defaultdict(dict)
            for name, value in safetensors_files.read(path).items():
                number, _, what = name.partition(".")
                cls.cases[int(number)][what] = value

    def agree(self, actual, expected, what, tolerance=TOLERANCE):
        expected = expected.detach().numpy()
        self.assertEqual(actual.shape, expected.shape, what)
        np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * np.max(np.abs(expected)), err_msg=what)

    def check(self, row, case):
        out, leaves = run(row, case, foreign(row))
        names = [name for name in leaves if name not in ("x", "h0", "c0")]
        self.assertEqual(row["weights"], names)
        for k, expected in enumerate(out):
            self.agree(case[f"out{k}"], expected, f"output {k}")
        torch.autograd.backward(out, [torch.from_numpy(case[f"dout{k}"]).double() for k in range(len(out))])
        for name, tensor in leaves.items():
            self.agree(case[f"d.{name}"], tensor.grad, f"gradient of {name}")

    def test_every_case(self):
        self.assertEqual(len(self.rows), 8 * 2 ** 6)
        for i, row in enumerate(self.rows):
            with self.subTest(row):
                self.check(row, self.cases[i])

    def test_the_formula_is_pytorchs(self):
        rows = [(i, row) for i, row in enumerate(self.rows) if not foreign(row) and row["layers"] == 2 and row["lengths"]
                and row["bidirectional"] and row["states"] and row["bias"]]
        self.assertEqual(len(rows), 5 * 2)
        for i, row in rows:
            with self.subTest(row):
                found, expected = (run(row, self.cases[i], by_formula)[0] for by_formula in (True, False))
                for k, (one, other) in enumerate(zip(found, expected)):
                    self.agree(one.detach().numpy(), other, f"output {k}", 1e-12)


if __name__ == "__main__":
    unittest.main()
