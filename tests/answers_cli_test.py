"""What is asked of a trained classifier beyond its accuracy: views, slices, corruptions, calibration, reasons, features, comparisons."""
import array
import csv
import json
import math
import os
import random
import shutil
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

from command import NEURIM, TrainedRun, gray_png, neurim, not_sanitized, png, tensors


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def npy_floats(path):
    data = Path(path).read_bytes()
    begin = 10 + struct.unpack("<H", data[8:10])[0]
    return array.array("f", data[begin:])


class Answers(TrainedRun):
    def ok(self, *words, **more):
        run = neurim(*words, **more)
        self.assertEqual(run.returncode, 0, run)
        return run

    def refused(self, code, part, *words):
        run = neurim(*words)
        self.assertEqual((run.returncode, len(run.stderr.splitlines())), (code, 1), run)
        self.assertIn(part, run.stderr)

    def report(self, name):
        return self.folder / "reports" / name

    def test_slices_hold_all_samples(self):
        table = self.root / "table.csv"
        with open(table, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["file", "label", "split", "camera", "age"])
            for split in ("train", "val"):
                for i, path in enumerate(sorted((self.root / "data" / split).glob("*/*.png"))):
                    writer.writerow([path, path.parent.name, split, f"cam, {i % 3}", i * 1.5])
        for by in ("size", "brightness", "folder", "camera", "age"):
            self.ok("val", self.folder, f"data={table}", f"slice_by={by}", f"name=by_{by}", "exist_ok=true")
            slices = rows_of(self.report(f"by_{by}") / "slices.csv")
            self.assertEqual(sum(int(row["samples"]) for row in slices), 15, by)
            metrics = json.loads((self.report(f"by_{by}") / "metrics.json").read_text())["metrics"]
            right = sum(int(row["samples"]) * float(row["accuracy"]) for row in slices)
            self.assertAlmostEqual(right / 15, metrics["accuracy"]["value"], 12)
            self.assertEqual([float(row["accuracy"]) for row in slices], sorted(float(row["accuracy"]) for row in slices))
            self.assertIn(f"By {by}", (self.report(f"by_{by}") / "report.html").read_text())
            expected = {"size": 1, "brightness": 4, "folder": 3, "camera": 3, "age": 15}[by]
            self.assertEqual(len(slices), expected, slices)
        self.refused(3, "no column is called lens", "val", self.folder, f"data={table}", "slice_by=lens", "name=none")

    def test_views_are_averaged(self):
        words = [self.folder, f"source={self.root}/data/val/middle", "topk=3", "--json"]

        def shares(*more):
            events = map(json.loads, self.ok("predict", *words, *more).stdout.splitlines())
            return [{one["label"]: one["prob"] for one in event["predictions"]} for event in events if event["event"] == "prediction"]

        plain, mirrored = shares(), shares("tta=hflip")
        self.assertEqual(len(plain), len(mirrored))
        self.assertNotEqual(plain, mirrored)
        evaluated = json.loads(self.ok("val", self.folder, "tta=hflip,5crop", "resize=crop", "name=views", "exist_ok=true", "--json").stdout.splitlines()[-1])
        crops = json.loads(self.ok("val", self.folder, "crops=10", "resize=crop", "name=views", "exist_ok=true", "--json").stdout.splitlines()[-1])
        self.assertEqual(evaluated, crops)
        rows = {row["file"]: float(row["confidence"]) for row in rows_of(self.report("views") / "predictions.csv")}
        said = shares("tta=hflip,5crop", "resize=crop")
        threshold = (min(rows.values()) + max(rows.values())) / 2
        events = [json.loads(line) for line in self.ok("val", self.folder, "tta=hflip,5crop", "resize=crop", "name=views", "exist_ok=true",
                                                       f"reject={threshold}", "--json").stdout.splitlines()]
        sure = [confidence >= threshold for confidence in rows.values()]
        self.assertIn(True, sure)
        self.assertAlmostEqual(next(event["coverage"] for event in events if event["event"] == "reject"), sum(sure) / len(sure), 12)
        for event, path in zip(said, sorted((self.root / "data" / "val" / "middle").iterdir(), key=lambda p: str(p))):
            self.assertAlmostEqual(max(event.values()), rows[str(path)], 4)
        self.refused(2, "there is no 'vflip'", "predict", self.folder, f"source={self.root}/data/val", "tta=vflip")

    def test_corruptions_cost_accuracy(self):
        self.ok("val", self.folder, "corruptions=true", "name=worse", "exist_ok=true")
        rows = rows_of(self.report("worse") / "corruptions.csv")
        self.assertEqual(len(rows), 25)
        self.assertEqual({row["corruption"] for row in rows}, {"noise", "blur", "jpeg", "rotation", "darkness"})
        darkest = [float(row["accuracy"]) for row in rows if row["corruption"] == "darkness"]
        self.assertLess(darkest[-1], 1)  # classes are levels: the darkest images are all of one
        self.assertIn("darkness", (self.report("worse") / "report.html").read_text())

    def test_calibration_lowers_the_loss_and_stays(self):
        run = self.root / "calibrated"
        shutil.copytree(self.folder, run, ignore=shutil.ignore_patterns("reports", "export"))
        weights = run / "weights" / "best.safetensors"
        before = tensors(weights)

        def loss(*more):
            self.ok("val", run, "name=c", "exist_ok=true", *more)
            return json.loads((run / "reports" / "c" / "metrics.json").read_text())["metrics"]

        plain = loss()
        fitted = loss("calibrate=true")
        self.assertLess(fitted["log_loss"]["value"], plain["log_loss"]["value"])
        self.assertEqual(fitted["accuracy"], plain["accuracy"])
        stored = loss()
        self.assertAlmostEqual(stored["log_loss"]["value"], fitted["log_loss"]["value"], 5)
        self.assertEqual(tensors(weights), before)
        again = loss("calibrate=true")
        self.assertAlmostEqual(again["log_loss"]["value"], fitted["log_loss"]["value"], 4)
        # The reject threshold is one of the probabilities as they are now.
        said = [json.loads(line) for line in self.ok("val", run, "name=c", "exist_ok=true", "reject=auto", "--json").stdout.splitlines()]
        threshold = next(event["threshold"] for event in said if event["event"] == "reject")
        sure = sorted((float(row["confidence"]) for row in rows_of(run / "reports" / "c" / "predictions.csv") if row["correct"] == "1"), reverse=True)
        self.assertAlmostEqual(threshold, sure[math.ceil(0.95 * len(sure)) - 1], 3)
        image = self.root / "data" / "val" / "middle" / "0.png"
        native = json.loads(self.ok("predict", run, image, "--json").stdout.splitlines()[0])["predictions"][0]["prob"]
        for kind in ("onnx", "neurim"):
            exported = self.root / f"calibrated.{kind}"
            self.ok("export", run, f"format={kind}", f"output={exported}")
            other = json.loads(self.ok("predict", exported, image, "--json").stdout.splitlines()[0])["predictions"][0]["prob"]
            self.assertAlmostEqual(native, other, 5, kind)
        refused = neurim("val", self.root / "calibrated.neurim", f"data={self.root}/data", "calibrate=true", f"project={self.root}/c", "--dry-run")
        self.assertEqual((refused.returncode, "keeps no temperature" in refused.stderr), (2, True), refused)  # before the evaluation
        self.refused(2, "keeps no temperature", "val", self.root / "calibrated.neurim", f"data={self.root}/data", "calibrate=true", f"project={self.root}/c")

    def test_images_are_sorted_and_annotated(self):
        source, into, shown = self.root / "data" / "val", self.root / "sorted", self.root / "shown"
        run = self.ok("predict", self.folder, source, f"sort_into={into}", f"annotated={shown}", "--json")
        said = [json.loads(line) for line in run.stdout.splitlines()][:-1]
        files = sorted(path.relative_to(into) for path in into.rglob("*.png"))
        self.assertEqual(len(files), 15)
        for event in said:
            copies = [path for path in (into / event["predictions"][0]["label"]).iterdir() if path.read_bytes() == Path(event["path"]).read_bytes()]
            self.assertEqual(len(copies), 1, event)
        self.assertEqual(len(list(shown.glob("*.jpg"))), 15)
        self.refused(2, "is there and not empty", "predict", self.folder, source, f"sort_into={into}")

    def test_images_are_named_by_lists(self):
        images = sorted((self.root / "data" / "val" / "dark").iterdir())[:3]
        listed = self.root / "data" / "val" / "some.txt"
        listed.write_text("dark/0.png\r\n\ndark/1.png\n")
        run = self.ok("predict", self.folder, listed)
        self.assertEqual([line.split("  ")[0] for line in run.stdout.splitlines()], [str(listed.parent / "dark" / f"{i}.png") for i in range(2)])
        run = subprocess.run([NEURIM, "predict", self.folder, "-"], input="\n".join(map(str, images)), capture_output=True, text=True, check=False)
        self.assertEqual([line.split("  ")[0] for line in run.stdout.splitlines()], list(map(str, images)), run)
        listed.write_text("dark/0.png\ndark/none.png\n")
        self.refused(3, "some.txt:2: there is no file", "predict", self.folder, listed)
        listed.write_text("\n")
        self.refused(3, "names no image", "predict", self.folder, listed)
        listed.unlink()
        self.refused(2, "is no address", "predict", self.folder, "@ftp://nowhere/x.png")

    def test_features_and_neighbours(self):
        self.ok("embed", self.folder, "split=train", "name=features", "exist_ok=true")
        folder = self.report("features")
        samples = rows_of(folder / "samples.csv")
        self.assertEqual(len(samples), 42)
        features = npy_floats(folder / "features.npy")
        size = len(features) // 42
        unit = []
        for i in range(42):
            row = features[i * size:(i + 1) * size]
            length = math.sqrt(sum(x * x for x in row))
            unit.append([x / length for x in row])
        place = {row["file"]: i for i, row in enumerate(samples)}
        for row in rows_of(folder / "neighbours.csv")[:50]:
            a, b = unit[place[row["file"]]], unit[place[row["neighbour"]]]
            self.assertAlmostEqual(float(row["similarity"]), sum(x * y for x, y in zip(a, b)), 4)
            most = max(sum(x * y for x, y in zip(a, other)) for other in unit if other is not a)
            self.assertGreaterEqual(most + 1e-5, float(row["similarity"]))
        for chart in ("pca", "tsne"):
            self.assertIn("<svg", (folder / f"{chart}.svg").read_text()[:400])
        for row in rows_of(folder / "duplicates.csv"):
            self.assertGreaterEqual(float(row["similarity"]), 0.999)

    def test_runs_are_listed_and_compared(self):
        other = self.root / "runs" / "other"
        self.ok(*(word for word in self.words if word != "epochs=2"), "name=other", "exist_ok=true", "epochs=1", "lr=0.0001")
        events = [json.loads(line) for line in self.ok("runs", self.root / "runs", "--json").stdout.splitlines()]
        listed = {event["run"]: event for event in events if event["event"] == "run"}
        self.assertEqual({str(self.folder), str(other)} - set(listed), set())
        self.assertEqual((listed[str(self.folder)]["epochs"], listed[str(other)]["epochs"]), (2, 1))
        for run in (self.folder, other):
            self.ok("val", run, "name=compared", "exist_ok=true")
        events = [json.loads(line) for line in self.ok("runs", "diff", self.folder, other, "--json").stdout.splitlines()]
        options = {event["name"]: (event["a"], event["b"]) for event in events if event["event"] == "option"}
        self.assertEqual(options["epochs"], ("2", "1"))
        self.assertEqual(float(options["lr"][1]), 0.0001)
        self.assertNotIn("batch", options)
        summary = events[-1]
        right = [{row["file"]: row["correct"] == "1" for row in rows_of(run / "reports" / "compared" / "predictions.csv")} for run in (self.folder, other)]
        self.assertEqual(summary["samples"], 15)
        self.assertEqual(summary["only_a"], sum(right[0][file] and not right[1][file] for file in right[0]))
        self.assertEqual(summary["only_b"], sum(right[1][file] and not right[0][file] for file in right[0]))
        n, k = summary["only_a"] + summary["only_b"], min(summary["only_a"], summary["only_b"])
        self.assertAlmostEqual(summary["p_value"], min(1, 2 * sum(math.comb(n, i) for i in range(k + 1)) / 2**n), 9)
        self.assertTrue(summary["same_data"])
        self.refused(3, "is no run folder", "runs", "diff", self.folder, self.root)
        self.refused(2, "diff compares two runs", "runs", "diff", self.folder)

    def test_reasons_are_refused_or_written(self):
        image = self.root / "data" / "val" / "bright" / "0.png"
        run = self.ok("explain", self.folder, image, "method=all", "class=dark", "save_npy=true", "name=why", "exist_ok=true", "--json")
        events = [json.loads(line) for line in run.stdout.splitlines()]
        self.assertEqual([event["method"] for event in events[:-1]], ["gradcam", "layercam", "integrated_gradients", "occlusion"])
        self.assertEqual({event["label"] for event in events[:-1]}, {"dark"})
        for event in events[:-1]:
            heat = npy_floats(self.report("why") / f"0-{event['method']}.npy")
            self.assertEqual(len(heat), 28 * 28)
            self.assertTrue(0 <= min(heat) and max(heat) in (0, 1), event)
        self.assertEqual((self.report("why") / "0.jpg").read_bytes()[:2], b"\xff\xd8")
        self.refused(2, "the model has no 'none'", "explain", self.folder, image, "class=none")
        self.refused(2, "there is no 'guess'", "explain", self.folder, image, "method=guess")
        bad = self.root / "bad.png"
        bad.write_bytes(b"no image")
        self.refused(3, str(bad), "explain", self.folder, bad, "name=bad")


class Reasons(unittest.TestCase):
    """Of an image of two halves, what explains a class lies on the half that shows it."""

    @not_sanitized
    def test_heat_lies_on_the_half_of_the_class(self):
        with tempfile.TemporaryDirectory() as home:
            root, chance = Path(home), random.Random(3)

            def stripes(across, y, x):
                return 220 if ((y if across else x) // 2) % 2 else 30

            def drawn(left, right):
                rows = [[120 + chance.randrange(-20, 20) for _ in range(32)] for _ in range(32)]
                for across, begin in ((left, 0), (right, 16)):
                    if across is not None:
                        for y in range(4, 28):
                            for x in range(begin + 2, begin + 14):
                                rows[y][x] = stripes(across, y, x)
                return rows

            for name, across in (("across", True), ("down", False)):
                for split, count in (("train", 80), ("val", 20)):
                    for i in range(count):
                        side = (across, None) if chance.random() < 0.5 else (None, across)
                        gray_png(root / "data" / split / name / f"{i}.png", drawn(*side))
            run = neurim("train", f"data={root}/data", "model=resnet20", "batch=16", "epochs=6", "imgsz=32", "plots=false", f"project={root}/runs", "name=halves",
                         "augment=false", "seed=1")
            self.assertEqual(run.returncode, 0, run)
            shares = []
            for i in range(6):
                left = i % 2 == 0
                gray_png(root / "both" / f"{i}.png", drawn(left, not left))
            for name, across in (("across", True), ("down", False)):
                run = neurim("explain", f"{root}/runs/halves", f"{root}/both", f"class={name}", "save_npy=true", f"project={root}/why", f"name={name}")
                self.assertEqual(run.returncode, 0, run)
                for i in range(6):
                    heat = npy_floats(root / "why" / name / f"{i}-gradcam.npy")
                    on_left = sum(heat[y * 32 + x] for y in range(32) for x in range(16))
                    left = (i % 2 == 0) == across
                    shares.append((on_left if left else sum(heat) - on_left) / max(sum(heat), 1e-9))
            self.assertGreaterEqual(sum(shares) / len(shares), 0.7, shares)


if __name__ == "__main__":
    unittest.main()
