"""The command on images of several classes."""
import csv
import json
import math
import random
import tempfile
import unittest
from pathlib import Path

from command import gray_png, instead, neurim, tensors


def boxes(root, count):
    """A table of noisy images in which up to three boxes are bright, and its labels name them."""
    chance, corners = random.Random(1), {"left": (2, 2), "low": (18, 10), "right": (2, 18)}
    lines = ["path,label,split"]
    for i in range(count):
        rows = [[chance.randrange(90) for _ in range(28)] for _ in range(28)]
        names = [name for name in corners if chance.random() < 0.4]
        for top, left in map(corners.get, names):
            for y in range(8):
                for x in range(8):
                    rows[top + y][left + x] = chance.randrange(60, 256)
        gray_png(root / "images" / f"{i}.png", rows)
        lines.append(f"images/{i}.png,{'|'.join(names)},{'val' if i % 4 == 0 else 'train'}")
    (root / "boxes.csv").write_text("\n".join(lines) + "\n")
    return root / "boxes.csv"


class MultiLabel(unittest.TestCase):
    """One run over images that have any number of classes."""

    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory()
        cls.root = Path(cls.home.name)
        cls.table = boxes(cls.root, 160)
        cls.words = ["train", "model=lenet5", "batch=16", "epochs=6", f"project={cls.root}/runs", f"data={cls.table}"]
        cls.result = neurim(*cls.words, "monitor=loss", "--json")
        cls.folder = cls.root / "runs" / "train"

    @classmethod
    def tearDownClass(cls):
        cls.home.cleanup()

    def test_learns_and_says_what_it_learned(self):
        self.assertEqual(self.result.returncode, 0, self.result.stderr)
        *epochs, summary = map(json.loads, self.result.stdout.splitlines())
        self.assertGreater(summary["map"], 0.95)
        self.assertGreater(summary["exact_match"], 0.8)
        last = json.loads((self.folder / "metrics.jsonl").read_text().splitlines()[-1])
        for line in (summary, epochs[-1], last):
            self.assertTrue({"map", "f1_macro", "f1_micro", "exact_match"} <= set(line), line)
            self.assertFalse({"top1", "top5", "train_top1"} & set(line), line)
        with open(self.folder / "results.csv", newline="") as file:
            self.assertEqual(float(list(csv.DictReader(file))[-1]["val_map"]), last["map"])
        self.assertIn("multi-label", (self.folder / "log.txt").read_text())
        with open(self.folder / "per_class.csv", newline="") as file:
            classes = list(csv.DictReader(file))
        self.assertEqual([row["class"] for row in classes], ["left", "low", "right"])
        precisions = [float(row["average_precision"]) for row in classes]
        self.assertAlmostEqual(sum(precisions) / 3, summary["map"])
        self.assertTrue((self.folder / "results.png").is_file())
        self.assertFalse((self.folder / "confusion_matrix.png").exists())
        counts = json.loads((self.folder / "data.json").read_text())["val"]["classes"]
        self.assertEqual([int(row["support"]) for row in classes], list(counts.values()))

    def test_val_predict_and_export_use_the_thresholds_of_the_model(self):
        card = json.loads((self.folder / "weights" / "model.json").read_text())
        thresholds = dict(zip(card["label_names"], card["neurim"]["thresholds"]))
        self.assertEqual(len(set(thresholds.values())), 3)
        run = neurim("val", self.folder, "--json", f"project={self.root}/runs")
        self.assertEqual(run.returncode, 0, run.stderr)
        evaluated, trained = (json.loads(text.splitlines()[-1]) for text in (run.stdout, self.result.stdout))
        for key in ("map", "f1_macro", "f1_micro", "exact_match", "loss", "samples"):
            self.assertEqual(evaluated[key], trained[key], key)
        self.assertEqual((Path(evaluated["run"]) / "per_class.csv").read_text(), (self.folder / "per_class.csv").read_text())

        out = self.root / "out.csv"
        run = neurim("predict", f"model={self.folder}", f"source={self.root}/images", f"save_csv={out}", "--json")
        self.assertEqual(run.returncode, 0, run.stderr)
        found = {Path(event["path"]).stem: event["predictions"] for event in map(json.loads, run.stdout.splitlines()[:-1])}
        with open(self.table, newline="") as file:
            truths = {Path(row["path"]).stem: set(filter(None, row["label"].split("|")))
                      for row in csv.DictReader(file) if row["split"] == "val"}
        right = sum({one["label"] for one in found[name]} == truth for name, truth in truths.items())
        self.assertEqual(right / len(truths), trained["exact_match"])
        self.assertEqual({len(predictions) for predictions in found.values()}, {0, 1, 2, 3})
        for predictions in found.values():
            self.assertEqual(sorted((one["prob"] for one in predictions), reverse=True), [one["prob"] for one in predictions])
            for one in predictions:
                self.assertGreaterEqual(one["prob"], thresholds[one["label"]] - 1e-6)
        self.assertEqual(len(out.read_text().splitlines()), 1 + sum(map(len, found.values())))

        run = neurim("export", self.folder, "--json")
        self.assertEqual(run.returncode, 0, run.stderr)
        exported = (self.folder / "export" / "best.onnx").read_bytes()
        self.assertIn(json.dumps(card["neurim"]["thresholds"], separators=(",", ":")).encode(), exported)
        self.assertIn(b"multi-label", exported)

    def test_the_files_of_val_agree(self):
        run = neurim("val", self.folder, "--json", f"project={self.root}/runs", "name=files")
        self.assertEqual(run.returncode, 0, run.stderr)
        report = self.root / "runs" / "files"
        metrics = json.loads((report / "metrics.json").read_text())["metrics"]
        with open(report / "predictions.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        card = json.loads((self.folder / "weights" / "model.json").read_text())
        thresholds = dict(zip(card["label_names"], card["neurim"]["thresholds"]))
        losses, wrong, hits, size = [], [], 0, 0
        for row in rows:
            truth = set(filter(None, row["labels"].split("|")))
            p = {name: float(row[f"p:{name}"]) for name in thresholds}
            said = {name for name in thresholds if p[name] >= thresholds[name]}
            self.assertEqual(set(filter(None, row["predicted"].split("|"))), said)
            self.assertEqual(row["correct"], str(int(said == truth)))
            losses.append(-sum(math.log(p[name] if name in truth else 1 - p[name]) for name in p) / len(p))
            self.assertAlmostEqual(float(row["loss"]), losses[-1], 6)
            hits, size = hits + 2 * len(said & truth), size + len(said) + len(truth)
            if said != truth:
                wrong.append((-losses[-1], row["file"]))
        self.assertAlmostEqual(metrics["f1_micro"]["value"], hits / size, 12)
        self.assertAlmostEqual(metrics["exact_match"]["value"], 1 - len(wrong) / len(rows), 12)
        self.assertEqual(metrics["map"]["value"], json.loads(run.stdout.splitlines()[-1])["map"])
        for name, one in metrics.items():
            self.assertTrue(one["low"] <= one["value"] <= one["high"], name)
            self.assertLess(one["low"], one["high"])
        with open(report / "mistakes.csv", newline="") as file:
            self.assertEqual([row["file"] for row in csv.DictReader(file)], [file for _, file in sorted(wrong)])
        page = (report / "report.html").read_text()
        for chart in ("class_scores", "roc", "precision_recall"):
            self.assertTrue((report / f"{chart}.png").is_file() and (report / f"{chart}.svg").is_file(), chart)
        self.assertIn(f"{100 * metrics['map']['value']:.2f} %", page)

    def test_options_that_mean_something_else_here(self):
        for words, said in ((["sampler=balanced"], "one class an image"), (["monitor=top1"], "f1_micro"),
                            (["multi_label=false"], "no label")):
            run = neurim(*self.words, *words, "name=never")
            self.assertIn(run.returncode, (2, 3), run)
            self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)
            self.assertIn(said, run.stderr)
            self.assertFalse((self.root / "runs" / "never").exists())
        for words in (["topk=2"], ["reject=auto"]):
            run = neurim("predict", f"model={self.folder}", f"source={self.root}/images", *words)
            self.assertEqual((run.returncode, len(run.stderr.splitlines())), (2, 1), run)
            self.assertIn("multi-label", run.stderr)
        run = neurim("data", "convert", self.table, "to=wds", f"out={self.root}/shards")
        self.assertEqual((run.returncode, len(run.stderr.splitlines())), (2, 1), run)
        words = [*instead(self.words, "epochs=1"), "cutmix=1", "mixup=0.2", "class_weights=sqrt", "label_smoothing=0.1", "name=more"]
        run = neurim(*words, "folds=2")
        self.assertIn("val split of its own", run.stderr)
        run = neurim(*words)
        self.assertEqual(run.returncode, 0, run.stderr)

    def test_packed_and_split_tables_train_alike(self):
        packed, again = self.root / "boxes.pack", self.root / "again.csv"
        for words in (["pack", self.table, f"out={packed}"], ["split", self.table, f"out={again}"]):
            run = neurim("data", *words)
            self.assertEqual(run.returncode, 0, run.stderr)
        for data in (packed, again):
            run = neurim(*instead(self.words, f"data={data}"), "monitor=loss", f"name={data.stem}-{data.suffix[1:]}")
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertEqual(tensors(self.root / "runs" / f"{data.stem}-{data.suffix[1:]}" / "weights" / "best.safetensors"),
                             tensors(self.folder / "weights" / "best.safetensors"))


if __name__ == "__main__":
    unittest.main()
