"""Runs our ONNX files with ONNX Runtime and compares the results with ours.

ctest sets NEURIM_BUILD (the build folder, whose tests/onnx_test writes the files). Exit code 77: not here.
"""
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
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

WRITER = os.path.join(os.environ.get("NEURIM_BUILD", "build"), "tests", "onnx_test")
DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16, "I64": np.int64,
          "I32": np.int32, "I16": np.int16, "I8": np.int8, "U64": np.uint64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8,
          "BOOL": np.bool_}


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


def runner(path):
    """A function from inputs by name to outputs: ONNX Runtime, or for bf16 ONNX's own evaluator.

    ONNX Runtime exchanges NumPy arrays with Python, and NumPy has no bf16.
    """
    if "-bf16" in path:
        evaluator = ReferenceEvaluator(path)
        return lambda inputs: evaluator.run(None, inputs)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(None, inputs)


class Onnx(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        subprocess.run([WRITER, "--gtest_brief=1"], env={**os.environ, "NEURIM_ONNX": cls.folder}, check=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def check(self, name, input_name="in{}"):
        """Checks the model, and its results in every run that was written for it."""
        onnx.checker.check_model(self.path(name + ".onnx"), full_check=True)
        run_model = runner(self.path(name + ".onnx"))
        runs = glob.glob(glob.escape(self.path(name)) + ".run*.safetensors")
        self.assertTrue(runs, name)
        for run in runs:
            tensors, metadata = read_safetensors(run)
            count = sum(key.startswith("in") for key in tensors)
            results = run_model({input_name.format(i): tensors[f"in{i}"] for i in range(count)})
            self.assertEqual(len(results), len(tensors) - count)
            for i, actual in enumerate(results):
                with self.subTest(metadata.get(f"out{i}", name), run=os.path.basename(run)):
                    self.compare(actual, tensors[f"out{i}"], float(metadata["tolerance"]))

    def compare(self, actual, expected, tolerance):
        """Floating values may differ by the tolerance times the largest magnitude; all others are equal."""
        self.assertEqual((actual.shape, actual.dtype), (expected.shape, expected.dtype))
        wide, reference = actual.astype(np.float64), expected.astype(np.float64)
        exact = expected.dtype == np.bool_ or np.issubdtype(expected.dtype, np.integer)
        largest = 0 if exact else np.max(np.abs(reference), initial=0)
        np.testing.assert_allclose(wide, reference, rtol=0, atol=tolerance * largest)

    def test_models(self):
        for name in ["lenet5", "resnet20", "resnet18"]:
            self.check(name, input_name="input")

    def test_weights_beside_the_model(self):
        self.check("beside", input_name="input")
        inside, beside, parts = (onnx.load(self.path(name), load_external_data=whole).graph.initializer for name, whole in (
            ("lenet5.onnx", True), ("beside.onnx", True), ("beside.onnx", False)))
        for expected, whole, part in zip(inside, beside, parts, strict=True):
            self.assertEqual((whole.name, whole.data_type, whole.dims), (expected.name, expected.data_type, expected.dims))
            self.assertEqual(whole.raw_data, expected.raw_data, whole.name)
            where = {entry.key: entry.value for entry in part.external_data}
            self.assertEqual(bool(where), len(expected.raw_data) >= 1024, whole.name)
            if where:
                self.assertEqual((where["location"], int(where["offset"]) % 65536, int(where["length"])),
                                 ("beside.onnx.data", 0, len(expected.raw_data)))

    def test_what_a_model_says_of_itself(self):
        model = onnx.load(self.path("resnet20.onnx"))
        self.assertEqual({entry.key: entry.value for entry in model.metadata_props},
                         {"names": '["cat","dög"]', "imgsz": "32"})
        self.assertIn("layer2.0.bn1.running_mean", [weight.name for weight in model.graph.initializer])
        (image,), (logits,) = model.graph.input, model.graph.output
        sizes = [dim.dim_param or dim.dim_value for dim in image.type.tensor_type.shape.dim]
        self.assertEqual((image.name, sizes, logits.name), ("input", ["batch", 3, 32, 32], "logits"))

    def test_what_is_constant_is_an_initializer(self):
        """As tools that quantize weights need them."""
        paths = glob.glob(self.path("forecaster-*.onnx"))
        self.assertEqual(len(paths), 3)
        for path in paths:
            graph = onnx.load(path).graph
            constants = {weight.name for weight in graph.initializer}
            self.assertEqual([node.name for node in graph.node if constants.issuperset(filter(None, node.input))], [], path)
            recurrent = [node for node in graph.node if node.op_type in ("LSTM", "GRU", "RNN")]
            self.assertEqual([constants.issuperset(node.input[1:4]) for node in recurrent], [True, True], path)

    def test_sizes_that_follow_the_batch(self):
        names = [os.path.basename(run).split(".")[0] for run in glob.glob(self.path("*.run4.safetensors"))]
        self.assertGreater(len(names), 5)
        for name in names:
            self.check(name)

    def test_ops(self):
        names = [os.path.basename(path)[: -len(".onnx")] for path in glob.glob(self.path("*-opset*.onnx"))]
        self.assertGreater(len(names), 2 * 50)
        for name in sorted(names):
            with self.subTest(name):
                self.check(name)


if __name__ == "__main__":
    unittest.main()
