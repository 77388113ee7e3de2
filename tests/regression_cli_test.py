"""The command on images with numbers: regression."""
import csv
import json
import random
import struct
import tempfile
import unittest
import zipfile
from pathlib import Path

from command import Tensors, gray_png, instead, neurim, npy


def squares(root, count):
    """A table of noisy images with a bright square, whose side and column are numbers, in units far from 0 and 1."""
    chance = random.Random(1)
    lines = ["path,side_mm,column,split"]
    for i in range(count):
        side, left, top = chance.randint(4, 16), chance.randint(0, 11), chance.randint(0, 11)
        rows = [[chance.randrange(60) for _ in range(28)] for _ in range(28)]
        for y in range(side):
            for x in range(side):
                rows[top + y][left + x] = chance.randrange(160, 256)
        gray_png(root / "images" / f"{i}.png", rows)
        lines.append(f"images/{i}.png,{1000 + 25 * side},{left},{'val' if i % 5 == 0 else 'train'}")
    (root / "squares.csv").write_text("\n".join(lines) + "\n")
    return root / "squares.csv"


def table(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


class Regression(unittest.TestCase):
    """One run over images with two numbers each."""

    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory()
        cls.root = Path(cls.home.name)
        cls.table = squares(cls.root, 200)
        cls.words = ["train", "model=lenet5", "batch=16", "epochs=10", f"project={cls.root}/runs", f"data={cls.table}",
                     "target=side_mm,column"]
        cls.result = neurim(*cls.words, "--json")
        cls.folder = cls.root / "runs" / "train"

    @classmethod
    def tearDownClass(cls):
        cls.home.cleanup()

    def summary(self, run):
        self.assertEqual(run.returncode, 0, run.stderr)
        return json.loads(run.stdout.splitlines()[-1])

    def refused(self, run, code, *said):
        self.assertEqual((run.returncode, len(run.stderr.splitlines())), (code, 1), run)
        for word in said:
            self.assertIn(word, run.stderr)

    def test_learns_in_the_units_of_the_data(self):
        summary = self.summary(self.result)
        self.assertGreater(summary["r2"], 0.8)
        self.assertTrue(1 < summary["mae"] < 25, summary)  # of a spread of about 90 mm
        self.assertFalse({"top1", "f1_macro"} & set(summary), summary)
        last = table(self.folder / "results.csv")[-1]
        self.assertEqual({"train_mae", "val_mae", "val_rmse", "val_r2"} - set(last), set())
        targets = table(self.folder / "per_target.csv")
        self.assertEqual([row["target"] for row in targets], ["side_mm", "column"])
        self.assertTrue((self.folder / "results.png").is_file() and (self.folder / "train_batch0.jpg").is_file())
        self.assertFalse((self.folder / "labels.png").exists() or (self.folder / "confusion_matrix.png").exists())
        self.assertIn("not flipped or cropped at random", (self.folder / "log.txt").read_text())

    def test_val_gives_the_metrics_of_its_files(self):
        summary, trained = self.summary(neurim("val", self.folder, "--json")), self.summary(self.result)
        for key in ("loss", "mae", "rmse", "r2", "samples"):
            self.assertEqual(summary[key], trained[key], key)
        report = Path(summary["run"])
        metrics = json.loads((report / "metrics.json").read_text())["metrics"]
        truths = {str(self.root / row["path"]): row for row in table(self.table)}
        rows, r2, squares, absolute = table(report / "predictions.csv"), [], [], []
        for name in ("side_mm", "column"):
            pairs = [(float(row[name]), float(row[f"{name}_predicted"])) for row in rows]
            self.assertEqual([one for one, _ in pairs], [float(truths[row["file"]][name]) for row in rows])
            mean = sum(true for true, _ in pairs) / len(pairs)
            squares.append(sum((true - said) ** 2 for true, said in pairs) / len(pairs))
            absolute.append(sum(abs(true - said) for true, said in pairs) / len(pairs))
            r2.append(1 - squares[-1] * len(pairs) / sum((true - mean) ** 2 for true, _ in pairs))
            self.assertAlmostEqual(metrics[f"r2.{name}"]["value"], r2[-1], 6)
            self.assertAlmostEqual(metrics[f"mae.{name}"]["value"], absolute[-1], 4)
        self.assertAlmostEqual(summary["r2"], sum(r2) / 2, 6)
        self.assertAlmostEqual(summary["rmse"], (sum(squares) / 2) ** 0.5, 4)
        self.assertAlmostEqual(summary["mae"], sum(absolute) / 2, 4)
        page = (report / "report.html").read_text()
        self.assertIn("R2, side_mm", page)
        for file in ("predicted_over_true_1.png", "predicted_over_true_2.svg", "worst.jpg"):
            self.assertTrue((report / file).is_file(), file)

    def test_predict_and_exports_give_the_same_numbers(self):
        image, out = self.root / "images" / "0.png", self.root / "out.csv"
        run = neurim("predict", self.folder, image, f"save_csv={out}", "--json")
        self.assertEqual(run.returncode, 0, run.stderr)
        values = json.loads(run.stdout.splitlines()[0])["values"]
        self.assertEqual(list(values), ["side_mm", "column"])
        (row,) = table(out)
        self.assertEqual([float(row[name]) for name in values], list(values.values()))
        self.assertTrue(1050 < values["side_mm"] < 1450, values)
        for name, *words in (("plain.onnx", "preprocess=external"), ("whole.onnx",), ("best.neurim", "format=neurim")):
            summary = self.summary(neurim("export", self.folder, *words, f"output={self.root}/export/{name}", "--json"))
            self.assertLess(summary.get("largest_difference", 0), 1e-4)
        run = neurim("predict", summary["path"], image, "--json")
        for name, value in json.loads(run.stdout.splitlines()[0])["values"].items():
            self.assertAlmostEqual(value, values[name], delta=1e-3 * max(1, abs(values[name])))
        of_function = self.summary(neurim("val", summary["path"], f"data={self.table}", "--json", f"project={self.root}/runs"))
        self.assertAlmostEqual(of_function["loss"], self.summary(self.result)["loss"], 5)

    def test_resumed_and_with_two_processes(self):
        words = [*instead(self.words, "epochs=2"), "deterministic=true", "mixup=0.2", "loss=huber", "val_split=0.1"]
        whole = self.summary(neurim(*words, "name=whole", "--json"))
        self.summary(neurim(*instead(words, "epochs=1"), "sched=constant", "name=part", "--json"))
        weights = self.root / "runs" / "part" / "weights" / "last.safetensors"
        scale = json.loads(Tensors(weights).header["__metadata__"]["targets"])
        before = self.table.read_text()
        self.table.write_text(before + "images/0.png,9000,2,train\n")
        self.assertEqual(neurim("resume", self.root / "runs" / "part", "epochs=2").returncode, 0)
        self.table.write_text(before)
        self.assertEqual(json.loads(Tensors(weights).header["__metadata__"]["targets"]), scale)
        self.summary(neurim("launch", "np=2", "--", *words, "name=two", "--json"))
        one, two = (Tensors(self.root / "runs" / name / "weights" / "last.safetensors") for name in ("whole", "two"))
        name = next(name for name in one.header if name != "__metadata__")
        self.assertEqual(one[name], two[name])
        self.assertFalse(whole["loss"] != whole["loss"])

    def test_arrays_with_floating_labels(self):
        chance = random.Random(2)
        pixels, numbers = bytearray(), []
        for _ in range(120):
            level = chance.randrange(200)
            pixels += bytes(min(255, level + chance.randrange(40)) for _ in range(28 * 28))
            numbers.append(level / 100)
        header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (120, 28, 28), }"
        header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
        npy(self.root / "y.npy", "(120, 1)", numbers)
        data = self.root / "levels.npz"
        with zipfile.ZipFile(data, "w") as file:
            file.writestr("x.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(pixels))
            file.write(self.root / "y.npy", "y.npy")
        words = instead(self.words, f"data={data}", "target=level", "epochs=8")
        summary = self.summary(neurim(*words, "name=arrays", "--json"))
        self.assertGreater(summary["r2"], 0.8)
        self.refused(neurim(*(word for word in words if not word.startswith("target=")), "name=never"), 3, "<f4", "target")
        self.refused(neurim(*instead(words, "target=a,b"), "name=never"), 3, "(n, 2)")

    def test_wrong_data_and_options(self):
        for words, code, said in (
                (["target=side_mm,wide"], 3, "no column is called wide"), (["target=side_mm,side_mm"], 2, "each column once"),
                (["target=path"], 3, "is no number"), (["loss=hubr"], 2, "did you mean 'huber'"),
                (["sampler=balanced"], 2, "sampler"), (["label_smoothing=0.1"], 2, "label_smoothing"),
                (["cutmix=1"], 2, "cutmix"), (["monitor=top1"], 2, "known are"), (["horizon=2"], 2, "horizon")):
            self.refused(neurim(*instead(self.words, *words), "name=never"), code, said)
        level = self.root / "level.csv"
        level.write_text("".join(f"{line.rsplit(',', 3)[0]},{'n' if i == 0 else 5}\n" for i, line in enumerate(self.table.read_text().splitlines())))
        self.refused(neurim(*instead(self.words, f"data={level}", "target=n"), "name=never"), 3, "nothing to learn")
        large = self.root / "large.csv"
        large.write_text("".join(line.replace(",5\n", f",{100000000 + i % 2 * 8}\n") for i, line in enumerate(level.read_text().splitlines(True))))
        self.refused(neurim(*instead(self.words, f"data={large}", "target=n"), "name=never"), 3, "subtract")
        self.assertFalse((self.root / "runs" / "never").exists())
        for verb in ("quantize", "explain", "embed", "prune"):
            words = [f"source={self.root}/images/0.png"] if verb == "explain" else []
            self.refused(neurim(verb, f"model={self.folder}", *words), 2, "is for models of classes")
        for words in (["topk=2"], ["reject=0.5"], [f"sort_into={self.root}/sorted"]):
            self.refused(neurim("predict", self.folder, self.root / "images", *words), 2, "is for models of classes")
        self.refused(neurim("export", self.folder, "format=timm"), 2, "scale of the numbers")
        self.refused(neurim("val", self.folder, "tta=flip"), 2, "tta")


if __name__ == "__main__":
    unittest.main()
