"""`neurim quantize`: that what it writes answers nearly the same, is what it says, and that accuracy is held or nothing is written."""
import csv
import json
import shutil
import tempfile
import unittest
from pathlib import Path

from command import Tensors, TrainedRun, levels, neurim, not_sanitized


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@not_sanitized
class Transformer(unittest.TestCase):
    def test_vision_transformers_too(self):
        with tempfile.TemporaryDirectory() as home:
            levels(Path(home, "data"))
            run = neurim("train", f"data={home}/data", "model=vit_tiny", "imgsz=32", "epochs=1", "batch=16", f"project={home}/runs")
            self.assertEqual(run.returncode, 0, run)
            made = neurim("quantize", f"{home}/runs/train", "max_drop=100", "method=minmax", "--json")
            self.assertEqual(made.returncode, 0, made)
            summary = json.loads(made.stdout.splitlines()[-1])
            rows = rows_of(summary["layers"])
            self.assertEqual((len(rows), {row["precision"] for row in rows}), (2 + 4 * 12, {"int8"}))
            val = neurim("val", summary["model"], f"data={home}/data", f"project={home}/val", "--json")
            self.assertEqual(json.loads(val.stdout.splitlines()[-1])["top1"], summary["top1"])


class Quantize(TrainedRun):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.said = neurim("quantize", cls.folder, "max_drop=100", "--json")
        assert cls.said.returncode == 0, cls.said
        cls.summary = json.loads(cls.said.stdout.splitlines()[-1])
        cls.model = Path(cls.summary["model"])

    def quantized(self, name, *words, code=0):
        out = self.root / f"{name}.neurim"
        run = neurim("quantize", self.folder, f"output={out}", *words, "--json")
        self.assertEqual(run.returncode, code, run)
        return out, json.loads(run.stdout.splitlines()[-1]) if run.stdout else None

    def test_it_is_written_beside_the_exports_and_says_what_val_finds(self):
        self.assertEqual(self.model, self.folder / "export" / "best.int8.neurim")
        self.assertLess(self.model.stat().st_size, (self.folder / "weights" / "best.safetensors").stat().st_size / 2)
        val = neurim("val", self.model, f"project={self.root}/val", "--json")
        self.assertEqual(val.returncode, 0, val)
        self.assertEqual(json.loads(val.stdout.splitlines()[-1])["top1"], self.summary["top1"])
        plain = neurim("val", self.folder, "name=plain", "--json")
        self.assertEqual(json.loads(plain.stdout.splitlines()[-1])["top1"], self.summary["top1_before"])

    def test_the_table_has_each_layer(self):
        rows = rows_of(self.summary["layers"])
        self.assertEqual([row["layer"] for row in rows], ["c1", "c2", "f1", "f2", "f3"])
        self.assertEqual({row["precision"] for row in rows}, {"int8"})
        for row in rows:
            low, high, scale, zero = (float(row[key]) for key in ("low", "high", "scale", "zero_point"))
            self.assertTrue(low <= 0 <= high, row)
            self.assertAlmostEqual(scale, (high - low) / 255, delta=1e-6 * scale)
            self.assertEqual(zero, round(-low / scale))
        self.assertEqual(int(rows[0]["multiply_adds"]), 28 * 28 * 6 * 25)

    def test_answers_stay_near_and_exports_answer_the_same(self):
        source = f"source={self.root}/data/val"

        def shares(model):
            run = neurim("predict", f"model={model}", source, "topk=3", "--json")
            self.assertEqual(run.returncode, 0, run)
            events = [json.loads(line) for line in run.stdout.splitlines()]
            return [{one["label"]: one["prob"] for one in event["predictions"]} for event in events if event["event"] == "prediction"]

        exact, bytes_ = shares(self.folder), shares(self.model)
        self.assertNotEqual(exact, bytes_)
        for a, b in zip(exact, bytes_):
            for label in a:
                self.assertAlmostEqual(a[label], b[label], delta=0.05)
        onnx = self.root / "bytes.onnx"
        run = neurim("export", self.model, f"output={onnx}")
        self.assertEqual(run.returncode, 0, run)
        for word in (b"QuantizeLinear", b"DequantizeLinear"):
            self.assertIn(word, onnx.read_bytes())
        for a, b in zip(bytes_, shares(onnx)):
            for label in a:
                self.assertAlmostEqual(a[label], b[label], delta=0.02)

    def test_statistics_are_kept_and_used_again(self):
        kept = self.folder / "export" / "best.int8.statistics.safetensors"
        self.assertTrue(kept.is_file())
        before = kept.read_bytes()
        _, again = self.quantized("again", f"statistics={kept}", "max_drop=100")
        self.assertEqual(again["top1"], self.summary["top1"])
        self.assertEqual((self.root / "again.neurim").stat().st_size, self.model.stat().st_size)
        self.assertEqual(kept.read_bytes(), before)
        other = neurim("train", *self.words[1:], "name=other", "seed=7")
        self.assertEqual(other.returncode, 0, other)
        run = neurim("quantize", self.root / "runs" / "other", f"statistics={kept}", f"output={self.root}/no.neurim")
        self.assertEqual((run.returncode, "of other weights" in run.stderr), (3, True), run)
        damaged = self.root / "damaged.safetensors"
        damaged.write_bytes(before[:len(before) // 2])
        run = neurim("quantize", self.folder, f"statistics={damaged}", f"output={self.root}/no.neurim")
        self.assertEqual((run.returncode, len(run.stderr.splitlines())), (3, 1), run)

    def test_methods_activations_and_kept_layers(self):
        for method in ("minmax", "percentile", "mse", "entropy"):
            _, summary = self.quantized(method, f"method={method}", "equalize=false", "max_drop=100")
            self.assertEqual((summary["method"], summary["equalized"]), (method, False))
        out, _ = self.quantized("signed", "activations=i8", "max_drop=100", "keep=f3,c1")
        rows = {row["layer"]: row for row in rows_of(self.root / "signed.layers.csv")}
        self.assertEqual({name for name, row in rows.items() if row["precision"] == "f32"}, {"c1", "f3"})
        self.assertEqual({row["zero_point"] for row in rows.values()}, {"0"})
        data = out.read_bytes()
        stored = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
        self.assertEqual((stored["c2.weight"]["dtype"], stored["f3.weight"]["dtype"]), ("I8", "F32"))

    def test_the_other_layers_in_16_bits(self):
        errors = []
        for name in ("f32", "bf16", "f16"):
            out, summary = self.quantized(name, f"others={name}", "keep=c1,f3", "max_drop=100", "method=minmax", "equalize=false")
            rows = rows_of(summary["layers"])
            self.assertEqual({row["layer"] for row in rows if row["precision"] == name}, {"c1", "f3"})
            errors.append([row["logit_error"] for row in rows])
            val = neurim("val", out, f"project={self.root}/val", "--json")
            self.assertEqual(json.loads(val.stdout.splitlines()[-1])["top1"], summary["top1"])
            export = neurim("export", out, f"output={self.root}/{name}.onnx")
            self.assertEqual(export.returncode, 0, export)
        self.assertEqual(errors[0], errors[1])  # of each layer alone, beside others in f32
        self.assertEqual(errors[0], errors[2])
        old = neurim("export", self.root / "bf16.neurim", f"output={self.root}/old.onnx", "opset=17")
        self.assertEqual((old.returncode, "bf16 needs opset 22" in old.stderr), (2, True), old)

    def test_one_image_is_enough(self):
        _, summary = self.quantized("one", "images=1", "max_drop=100")
        self.assertIn("top1", summary)

    def test_weights_alone_in_groups(self):
        sizes = {}
        for bits in ("int8", "int4"):
            out, summary = self.quantized(bits, f"weights_only={bits}", "group=25", "max_drop=100")
            sizes[bits] = out.stat().st_size
            run = neurim("val", out, f"project={self.root}/val", f"name={bits}", "--json")
            self.assertEqual(json.loads(run.stdout.splitlines()[-1])["top1"], summary["top1"])
        plain = (self.folder / "weights" / "best.safetensors").stat().st_size
        self.assertLess(sizes["int8"], plain / 2.5)
        self.assertLess(sizes["int4"], sizes["int8"] / 1.4)

    def test_training_with_the_rounding_in_place(self):
        plain, _ = self.quantized("int4", "weights_only=int4", "group=0", "max_drop=100")
        trained, after = self.quantized("int4qat", "weights_only=int4", "group=0", "max_drop=100", "qat=true", "qat_epochs=2", "qat_lr=0.01")
        self.assertNotEqual(plain.read_bytes(), trained.read_bytes())
        self.assertTrue((self.root / "int4qat.qat" / "results.csv").is_file())
        self.assertEqual({row["precision"] for row in rows_of(after["layers"])}, {"int4"})
        out, summary = self.quantized("qat", "qat=true", "qat_epochs=1", "max_drop=100")
        val = neurim("val", out, f"project={self.root}/val", "name=qat", "--json")
        self.assertEqual(json.loads(val.stdout.splitlines()[-1])["top1"], summary["top1"])

    def test_channels_with_hardly_any_weights_keep_their_bias(self):
        """Runtimes add it as i32 in units of both scales, in which it would not fit."""
        run = self.root / "dead"
        shutil.copytree(self.folder, run)
        tensors = Tensors(run / "weights" / "best.safetensors")
        tensors.change("c2.weight", lambda row, column: 1e-12 if row < 4 else 1)
        tensors.change("c2.bias", lambda row, column: 1)
        tensors.write()
        out = self.root / "dead.neurim"
        made = neurim("quantize", run, f"output={out}", "max_drop=100", "method=minmax", "equalize=false")
        self.assertEqual(made.returncode, 0, made)
        written = Tensors(out)
        scales, bias, read = written["c2.weight_scale"], written["c2.bias"], written["c2.input_scale"][0]
        self.assertTrue(any(abs(value) > 1e-4 for value in bias[:4]), bias)
        for scale, value in zip(scales, bias):
            units = value / scale / read
            self.assertLess(abs(units), 2**31)
            self.assertAlmostEqual(units, round(units), delta=max(1e-3, 1e-6 * abs(units)))
        self.assertLess(max(scales[:4]), 1e-6)

    def test_damaged_weights_write_nothing(self):
        run = self.root / "damaged"
        shutil.copytree(self.folder, run, ignore=shutil.ignore_patterns("reports", "export"))
        weights = run / "weights" / "best.safetensors"
        data = bytearray(weights.read_bytes())
        header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
        start = 8 + int.from_bytes(data[:8], "little") + header["c2.weight"]["data_offsets"][0]
        data[start:start + 4] = b"\x00\x00\xc0\x7f"  # a NaN, under a checksum of before
        weights.write_bytes(data)
        done = neurim("quantize", run, f"output={self.root}/never.neurim")
        self.assertEqual(done.returncode, 3, done)
        self.assertFalse((self.root / "never.neurim").exists())

    def test_options_that_do_not_fit(self):
        for words, said in ((["method=best"], "minmax, percentile"), (["keep=c9"], "c1, c2"), (["weights_only=int2"], "int8, int4"),
                            (["group=8"], "weights_only"), (["weights_only=int8", "method=mse"], "leave it out"), (["images=0"], "at least 1"),
                            (["max_drop=-1"], "at least 0"), (["activations=u4"], "u8, i8")):
            run = neurim("quantize", self.folder, f"output={self.root}/never.neurim", *words)
            self.assertEqual((run.returncode, len(run.stderr.splitlines())), (2, 1), run)
            self.assertIn(said, run.stderr)
        self.assertFalse((self.root / "never.neurim").exists())


class Held(unittest.TestCase):
    """A model of which one layer reads channels of very different size: 8 bits for all of them leave the small ones nothing."""

    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory()
        cls.root = Path(cls.home.name)
        levels(cls.root / "data")
        trained = neurim("train", f"data={cls.root}/data", "model=lenet5", "batch=16", "epochs=30", f"project={cls.root}/runs", "--json")
        assert trained.returncode == 0, trained
        cls.run_folder = cls.root / "runs" / "train"
        cls.stretch(cls.run_folder / "weights" / "best.safetensors", "f1", "f2", 1e5)

    @classmethod
    def tearDownClass(cls):
        cls.home.cleanup()

    @staticmethod
    def stretch(path, first, second, factor):
        """Multiplies what every channel but every eighth of a layer gives by a factor, and divides it out in the next one."""
        tensors = Tensors(path)
        tensors.change(f"{first}.weight", lambda row, column: factor if row % 8 == 0 else 1)
        tensors.change(f"{first}.bias", lambda row, column: factor if row % 8 == 0 else 1)
        tensors.change(f"{second}.weight", lambda row, column: 1 / factor if column % 8 == 0 else 1)
        tensors.write()

    def quantized(self, name, *words, code=0):
        run = neurim("quantize", self.run_folder, f"output={self.root}/{name}.neurim", "method=minmax", *words, "--json")
        self.assertEqual(run.returncode, code, run)
        return json.loads(run.stdout.splitlines()[-1])

    def test_the_layer_becomes_f32_again(self):
        all_layers = self.quantized("all", "equalize=false", "max_drop=100")
        self.assertEqual(all_layers["top1_before"], 1)
        self.assertLess(all_layers["top1"], 0.9)
        held = self.quantized("held", "equalize=false", "max_drop=1")
        self.assertEqual(held["top1"], 1)
        kept = [row["layer"] for row in rows_of(self.root / "held.layers.csv") if row["precision"] == "f32"]
        self.assertEqual(kept, ["f2"])

    def test_without_that_layer_nothing_is_written(self):
        summary = self.quantized("never", "equalize=false", "max_drop=1", "keep=c1,c2,f1,f3", code=5)
        self.assertNotIn("model", summary)
        self.assertFalse((self.root / "never.neurim").exists())

    def test_equal_channels_need_no_such_layer(self):
        summary = self.quantized("equal", "equalize=true", "max_drop=1")
        self.assertEqual((summary["top1"], summary["equalized"]), (1, True))
        self.assertEqual({row["precision"] for row in rows_of(self.root / "equal.layers.csv")}, {"int8"})


if __name__ == "__main__":
    unittest.main()
