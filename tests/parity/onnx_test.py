"""Runs our ONNX files with ONNX Runtime and compares the results with ours.

ctest sets NEURIM_BUILD (the build folder, whose tests/onnx_test writes the files). Exit code 77: not here.
"""
import collections
import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest

try:
    import ml_dtypes
    import numpy as np
    import onnx
    import onnxruntime
    from onnx.reference import ReferenceEvaluator
    from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

WRITER = os.path.join(os.environ.get("NEURIM_BUILD", "build"), "tests", "onnx_test")
DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16, "I64": np.int64,
          "I32": np.int32, "I8": np.int8, "U8": np.uint8, "BOOL": np.bool_}


def read_safetensors(path):
    """The tensors by name, and the metadata."""
    with open(path, "rb") as file:
        data = file.read()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = np.frombuffer(data[start + begin:start + end], DTYPES[entry["dtype"]])
        tensors[name] = values.reshape(entry["shape"])
    return tensors, metadata


class Runner:
    """ONNX Runtime, or ONNX's own evaluator for the types that ONNX Runtime has no kernel of."""

    def __init__(self, path):
        types = [value.type.tensor_type.elem_type for value in (model := onnx.load(path)).graph.input]
        types += [value.type.tensor_type.elem_type for value in model.graph.output]
        self.session, self.why = None, "bfloat16"
        if onnx.TensorProto.BFLOAT16 not in types:  # NumPy has none, so ONNX Runtime's Python takes none
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = 1
            options.log_severity_level = 3
            try:
                self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            except NoKernel:
                self.why = "no kernel"
        if self.session is None:
            self.evaluator = ReferenceEvaluator(model)

    def __call__(self, inputs):
        if self.session is None:
            return self.evaluator.run(None, inputs)
        return self.session.run(None, inputs)


class Onnx(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        subprocess.run([WRITER, "--gtest_brief=1"], env={**os.environ, "NEURIM_ONNX": cls.folder.name}, check=True)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def compare(self, names):
        """Checks each model and runs it; gives the number of models that ONNX Runtime did not run, by operation."""
        elsewhere = collections.Counter()
        for name in names:
            runs = glob.glob(glob.escape(self.path(name)) + ".run*.safetensors")
            self.assertTrue(runs, name)
            onnx.checker.check_model(self.path(name + ".onnx"), full_check=True)
            runner = Runner(self.path(name + ".onnx"))
            if runner.session is None:
                elsewhere[name.split("-")[0]] += 1
            for run in runs:
                tensors, metadata = read_safetensors(run)
                with self.subTest(metadata["what"], file=os.path.basename(run)):
                    self.compare_run(runner, tensors, float(metadata["tolerance"]))
        return elsewhere

    def compare_run(self, runner, tensors, tolerance):
        inputs = {name: value for name, value in tensors.items() if name.startswith("in")}
        if "in0" in inputs and runner.session and runner.session.get_inputs()[0].name == "input":
            inputs = {"input": inputs["in0"]}
        results = runner(inputs)
        self.assertEqual(len(results), len(tensors) - len(inputs))
        for i, actual in enumerate(results):
            expected = tensors[f"out{i}"]
            self.assertEqual(actual.shape, expected.shape)
            self.assertEqual(actual.dtype, expected.dtype)
            if expected.dtype == np.bool_ or np.issubdtype(expected.dtype, np.integer):
                np.testing.assert_array_equal(actual, expected)
                continue
            wide, reference = actual.astype(np.float64), expected.astype(np.float64)
            largest = np.max(np.abs(reference), initial=0)
            np.testing.assert_allclose(wide, reference, rtol=0, atol=tolerance * largest)

    def test_models(self):
        self.assertFalse(self.compare(["lenet5", "resnet20", "resnet18"]))
        model = onnx.load(self.path("resnet20.onnx"))
        self.assertEqual({entry.key: entry.value for entry in model.metadata_props},
                         {"names": '["cat","dög"]', "imgsz": "32"})
        self.assertIn("layer2.0.bn1.running_mean", [weight.name for weight in model.graph.initializer])
        (logits,), (image,) = model.graph.output, model.graph.input
        sizes = [dim.dim_param or dim.dim_value for dim in image.type.tensor_type.shape.dim]
        self.assertEqual((image.name, sizes, logits.name), ("input", ["batch", 3, 32, 32], "logits"))

    def test_batch_sizes(self):
        names = [os.path.basename(run)[:-len(".run4.safetensors")] for run in glob.glob(self.path("*.run4.safetensors"))]
        self.assertGreater(len(names), 5)
        self.assertFalse(self.compare(sorted(names)))

    def test_ops(self):
        names = [os.path.basename(path)[:-len(".onnx")] for path in glob.glob(self.path("*-opset*.onnx"))]
        self.assertGreater(len({name.split("-")[0] for name in names}), 50)
        elsewhere = self.compare(sorted(names))
        print("not run by ONNX Runtime:", dict(elsewhere))
        self.assertLess(sum(elsewhere.values()), len(names) // 10)


if __name__ == "__main__":
    unittest.main()
