"""The command on ONNX files: what export writes, every verb takes; models of others run on raw tensors, and are fine-tuned."""
import json
import struct
import tempfile
import unittest
from pathlib import Path

from command import gray_png, neurim, npy


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, content):
    """A field of protobuf: text, bytes, or a whole number."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    data = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(data)) + data


def tensor(shape, values, name=""):
    """A TensorProto of f32."""
    return b"".join(field(1, size) for size in shape) + field(2, 1) + field(8, name) + field(9, struct.pack(f"<{len(values)}f", *values))


def value_info(name, shape):
    sizes = b"".join(field(1, field(1, size) if isinstance(size, int) else field(2, size)) for size in shape)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, sizes)))


def model(nodes, inputs, outputs, initializers=(), opset=17):
    graph = b"".join(field(1, node) for node in nodes) + field(2, "test") + b"".join(field(5, one) for one in initializers)
    graph += b"".join(field(11, one) for one in inputs) + b"".join(field(12, one) for one in outputs)
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, opset))


def node(op, inputs, outputs, name=""):
    return b"".join(field(1, one) for one in inputs) + b"".join(field(2, one) for one in outputs) + field(3, name) + field(4, op)


class Onnx(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory()
        cls.root = Path(cls.home.name)
        for i in range(24):
            name = ("dark", "light", "mixed")[i % 3]
            row = {"dark": [20 + i] * 28, "light": [200 + i] * 28, "mixed": [20 + i, 220 - i] * 14}[name]
            (cls.root / "photos" / name).mkdir(parents=True, exist_ok=True)
            gray_png(cls.root / "photos" / name / f"{i}.png", [row] * 28)
        cls.train = neurim("train", "model=lenet5", f"data={cls.root}/photos", "epochs=2", "batch=8", f"project={cls.root}/runs", "name=run")
        cls.trained = cls.root / "runs" / "run"
        cls.export = neurim("export", cls.trained, "--json")
        cls.file = cls.trained / "export" / "best.onnx"

    @classmethod
    def tearDownClass(cls):
        cls.home.cleanup()

    def events(self, *words):
        result = neurim(*words, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def test_an_export_is_compared_with_its_model(self):
        self.assertEqual(self.export.returncode, 0, self.export.stderr)
        self.assertEqual((self.file.parent / "labels.txt").read_text(), "dark\nlight\nmixed\n")
        parity = json.loads((self.file.parent / "parity.json").read_text())
        self.assertEqual((parity["top1_agreement"], parity["within"]), (1, True))
        self.assertLessEqual(parity["largest_difference"], 1e-4)
        self.assertIn("of the split val of", parity["inputs"])
        self.assertEqual(parity["accuracy"], parity["exported_accuracy"])
        self.events("export", "lenet5", f"output={self.root}/drawn.onnx")
        self.assertEqual(json.loads((self.root / "drawn.parity.json").read_text())["inputs"], "32 images of several sizes, drawn with seed 0")
        self.events("export", "lenet5", f"output={self.root}/drawn.onnx", "preprocess=external")
        self.assertEqual(json.loads((self.root / "drawn.parity.json").read_text())["inputs"], "32 images drawn with seed 0")
        unlike = neurim("export", self.trained, f"output={self.root}/unlike.onnx", "parity_tol=-1")
        self.assertEqual(unlike.returncode, 5, unlike.stderr)
        self.assertIn("answers otherwise", unlike.stdout)

    def test_every_opset_is_written(self):
        for opset in (13, 15, 17, 20, 23):
            self.events("export", self.trained, f"opset={opset}", f"output={self.root}/of.onnx")

    def test_every_verb_gives_what_it_gives_of_the_run(self):
        for words in (["predict", f"source={self.root}/photos", "topk=3"], ["val", f"data={self.root}/photos"]):
            of_run, of_file = (self.events(words[0], f"model={model}", *words[1:]) for model in (self.trained, self.file))
            self.assertEqual(len(of_run), len(of_file))
            for one, other in zip(of_run, of_file):
                for name in set(one) & {"top1", "path", "pictures", "samples"}:
                    self.assertEqual(one[name], other[name])
                for a, b in zip(one.get("predictions", []), other.get("predictions", [])):
                    self.assertEqual(a["label"], b["label"])
                    self.assertAlmostEqual(a["prob"], b["prob"], places=4)
        self.events("info", self.file)
        self.events("benchmark", self.file, "seconds=0.05", "rounds=1", "batch=3")

    def test_preprocessing_stands_in_the_file_or_outside(self):
        inside, outside = self.root / "inside.onnx", self.root / "outside.onnx"
        said = neurim("export", self.trained, f"output={inside}")
        self.assertIn("input u8(N,height,width,1) of any size, resized to 1x28x28", said.stdout)
        self.assertIn("input 1x28x28", neurim("export", self.trained, "preprocess=external", f"output={outside}").stdout)
        folder, out = self.root / "image", self.root / "image_out"
        folder.mkdir()
        header = "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 28, 28, 1)}".ljust(117) + "\n"
        (folder / "input_0.npy").write_bytes(b"\x93NUMPY\x01\x00v\x00" + header.encode() + bytes([20] * 28) * 28)
        self.events("run", inside, f"inputs={folder}", f"outputs={out}")
        shares = struct.unpack("<3f", (out / "output_0.npy").read_bytes()[-12:])
        self.assertAlmostEqual(sum(shares), 1, places=5)
        expected = self.events("predict", f"model={self.trained}", f"source={self.root}/photos/dark/0.png", "topk=3")[0]["predictions"]
        for one in expected:
            self.assertAlmostEqual(shares[one["index"]], one["prob"], places=4)
        refused = neurim("run", outside, f"inputs={folder}", f"outputs={out}")
        self.assertEqual(refused.returncode, 2, refused.stderr)
        wrong = neurim("export", self.trained, "preprocess=inside")
        self.assertEqual((wrong.returncode, "known are embedded, external" in wrong.stderr), (2, True), wrong.stderr)

    def test_exports_in_16_bits(self):
        sizes = {}
        for half in ("false", "true", "bf16"):
            file = self.root / f"half_{half}.onnx"
            self.events("export", self.trained, f"half={half}", f"output={file}")
            sizes[half] = file.stat().st_size
            parity = json.loads((self.root / f"half_{half}.parity.json").read_text())
            self.assertEqual((parity["tolerance"], parity["within"]), (0.01, True))
            label = self.events("predict", f"model={file}", f"source={self.root}/photos/dark/0.png")[0]["predictions"][0]["label"]
            self.assertEqual(label, self.events("predict", f"model={self.trained}", f"source={self.root}/photos/dark/0.png")[0]["predictions"][0]["label"])
        self.assertLess(sizes["true"], 0.6 * sizes["false"])
        self.assertLess(sizes["bf16"], 0.6 * sizes["false"])
        for words in (["half=bf16", "opset=18"], ["half=f8"]):
            self.assertEqual(neurim("export", self.trained, *words).returncode, 2)

    def test_formats_are_compared(self):
        events = self.events("benchmark", self.trained, "formats=native,onnx,ort", "python=/nonexistent/python", "seconds=0.02", "rounds=2", "batch=2")
        rows = {event["format"]: event for event in events if event["event"] == "format"}
        self.assertEqual(list(rows), ["native", "onnx"])
        for row in rows.values():
            self.assertEqual((row["same_class"], len(row["samples"])), (1, 2))
            self.assertGreater(row["latency_ms"]["p99"], 0)
        self.assertEqual(rows["native"]["accuracy"], rows["onnx"]["accuracy"])
        self.assertEqual((events[-1]["left_out"], "the split val of" in events[-1]["compared_on"]), (["ort"], True))
        self.assertEqual(neurim("benchmark", self.trained, "formats=tf").returncode, 2)
        none = neurim("benchmark", self.trained, "formats=ort", "python=/nonexistent/python")
        self.assertEqual((none.returncode, "none of the formats" in none.stderr), (4, True), none.stderr)

    def test_it_is_fine_tuned(self):
        two = self.root / "two"
        for name in ("dark", "light"):
            (two / name).mkdir(parents=True)
            for image in (self.root / "photos" / name).iterdir():
                (two / name / image.name).write_bytes(image.read_bytes())
        trained = self.events("train", f"model={self.file}", f"data={two}", "epochs=3", "batch=4", "lr=0.01", f"project={self.root}/runs", "name=tuned")
        self.assertTrue(trained)
        run = self.root / "runs" / "tuned"
        prediction = self.events("predict", f"model={run}", f"source={two}/light")[0]
        self.assertEqual(prediction["predictions"][0]["label"], "light")
        self.events("resume", run, "epochs=4")
        self.events("export", run)
        again = self.events("predict", f"model={run}/export/best.onnx", f"source={two}/light")[0]
        self.assertEqual(again["predictions"][0]["label"], "light")

    def test_raw_tensors(self):
        """Two inputs of other names, npy or ONNX's messages; a batch of any size."""
        file = self.root / "sum.onnx"
        file.write_bytes(model([node("Add", ["a", "w"], ["s"]), node("Mul", ["s", "b"], ["y"])],
                               [value_info("a", ["n", 2]), value_info("b", ["n", 2])], [value_info("y", ["n", 2])],
                               [tensor([2], [1, 2], "w")]))
        for rows in (1, 3):
            folder, out = self.root / f"in{rows}", self.root / f"out{rows}"
            folder.mkdir()
            npy(folder / "input_0.npy", (rows, 2), [float(i) for i in range(2 * rows)])
            npy(folder / "input_1.npy", (rows, 2), [2.0] * 2 * rows)
            self.events("run", f"model={file}", f"inputs={folder}", f"outputs={out}")
            values = struct.unpack(f"<{2 * rows}f", (out / "output_0.npy").read_bytes()[-8 * rows:])
            self.assertEqual(list(values), [(i + (1, 2)[i % 2]) * 2.0 for i in range(2 * rows)])
        messages, out = self.root / "messages", self.root / "messages_out"
        messages.mkdir()
        (messages / "input_0.pb").write_bytes(tensor([1, 2], [3, 4]))
        (messages / "input_1.pb").write_bytes(tensor([1, 2], [1, 1]))
        self.events("run", f"model={file}", f"inputs={messages}", f"outputs={out}")
        self.assertIn(struct.pack("<2f", 4, 6), (out / "output_0.pb").read_bytes())
        (messages / "input_1.pb").write_bytes(tensor([1, 3], [1, 1, 1]))
        refused = neurim("run", f"model={file}", f"inputs={messages}", f"outputs={out}")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("input 'b' is f32(1,3), and the model takes f32(n,2)", refused.stderr)

    def test_what_is_not_supported_is_said_at_once(self):
        file = self.root / "odd.onnx"
        file.write_bytes(model([node("Quark", ["a"], ["b"], "first"), node("Gluon", ["b"], ["c"], "second"), node("Relu", ["c"], ["y"])],
                               [value_info("a", [1, 2])], [value_info("y", [1, 2])]))
        result = neurim("info", file)
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("uses operators that are not supported: Gluon (node second); Quark (node first)", result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1)
        for damaged in (self.file.read_bytes()[:-100], b"no model"):
            file.write_bytes(damaged)
            result = neurim("run", f"model={file}", f"inputs={self.root}", f"outputs={self.root}/none")
            self.assertEqual(result.returncode, 3, result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
