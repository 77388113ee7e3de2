"""What predict and val do with files, names and classes that are not as a model expects them."""
import csv
import json
import shutil
import statistics
import unittest

from command import TrainedRun, neurim, png


class Predict(TrainedRun):
    def test_a_class_called_unknown_is_no_rejected_picture(self):
        data = self.root / "animals"
        for name, level in (("cat", 10), ("unknown", 200)):
            for i in range(4):
                png(data / name / f"{i}.png", 28, 28, level + i)
        run = neurim("train", f"data={data}", "model=lenet5", "batch=4", "epochs=1", "plots=false", f"project={self.root}/runs", "name=animals")
        self.assertEqual(run.returncode, 0, run)
        self.assertIn("a class is called unknown", run.stdout)
        words = ["predict", f"model={self.root}/runs/animals", data / "unknown" / "0.png", f"save_csv={self.root}/animals.csv", "--json"]
        for reject, rejected in (("reject=1", True), ("reject=0", False)):
            run = neurim(*words, reject)
            self.assertEqual(run.returncode, 0, run)
            self.assertEqual(run.stderr.count("a class of the model is called unknown"), 1, run)
            self.assertIs(json.loads(run.stdout.splitlines()[0])["rejected"], rejected)
            self.assertIn(f",{str(rejected).lower()}\n", (self.root / "animals.csv").read_text())
        self.assertNotIn("called unknown", neurim(*words).stderr)

    def test_brackets_in_names_are_no_pattern(self):
        for name in ("run[1]/mine.png", "run1/other.png", "run[1]/in*/[x]1.png", "run[1]/inner/2.png", "we?rd/x[1].png", "weird/x1.png"):
            png(self.root / "named" / name, 28, 28, 50)
        for pattern, named in (("run[1]/*.png", ["run[1]/mine.png"]), ("run[1]/in*/*.png", ["run[1]/in*/[x]1.png"]),
                               ("we?rd/x[1].png", ["we?rd/x[1].png"]), ("we?rd/x[1]*", ["we?rd/x[1].png"]), ("we?rd/x[[]1].png", ["we?rd/x[1].png"]),
                               ("run[0-9]/*.png", ["run1/other.png"]), ("*/x[0-9].png", ["weird/x1.png"]), ("run[[]1]/mine*", ["run[1]/mine.png"])):
            run = neurim("predict", f"source={self.root}/named/{pattern}", f"model={self.folder}")
            found = [line.split("  ")[0] for line in run.stdout.splitlines()]
            self.assertEqual(found, [f"{self.root}/named/{name}" for name in named], (pattern, run))

    def test_predict_says_what_it_leaves_out(self):
        mixed = self.root / "mixed"
        for i in range(5):
            png(mixed / f"{i}.png", 28, 28, 50)
        for name in ("a.jp2", "b.tga", "c.ico", "inner/d.pcx"):
            (mixed / name).parent.mkdir(exist_ok=True)
            (mixed / name).write_bytes(b"nothing that is known")
        run = neurim("predict", f"source={mixed}", f"model={self.folder}", "--json")
        self.assertEqual(run.returncode, 0, run)
        self.assertIn(f"left out as no images: 4 files, such as {mixed}/a.jp2", run.stderr)
        self.assertEqual(json.loads(run.stdout.splitlines()[-1]), {"event": "summary", "pictures": 5, "unreadable": 0, "left_out": 4})
        for i in range(3):
            (mixed / f"{i}.png").write_bytes(b"x")
        out = self.root / "mixed.csv"
        run = neurim("predict", f"source={mixed}", f"model={self.folder}", f"save_csv={out}")
        self.assertEqual((run.returncode, len(run.stderr.splitlines())), (3, 1), run)
        self.assertIn(f"3 of 5 images cannot be read, more than the 1 that max_bad allows, such as {mixed}/0.png", run.stderr)
        self.assertEqual(len(out.read_text().splitlines()), 3)
        for allowed, code in (("0.6", 0), ("3", 0), ("2", 3), ("0.5", 3)):
            self.assertEqual(neurim("predict", f"source={mixed}", f"model={self.folder}", f"max_bad={allowed}").returncode, code, allowed)

    def test_val_on_fewer_classes(self):
        some = self.root / "some"
        for name in ("dark", "bright"):
            shutil.copytree(self.root / "data" / "val" / name, some / "val" / name)
        words = ["val", self.folder, f"data={some}", f"project={self.root}/runs", "--json"]
        run = neurim(*words)
        self.assertEqual((run.returncode, len(run.stderr.splitlines())), (3, 1), run)
        self.assertIn("has images of the classes [bright, dark], and the model knows [bright, dark, middle]", run.stderr)
        run = neurim(*words, "allow_subset=true", "name=some")
        self.assertEqual(run.returncode, 0, run)
        self.assertIn("val has no images of [middle]: macro averages leave these out", run.stderr)
        with open(self.root / "runs" / "some" / "per_class.csv", newline="") as file:
            scores = {row["class"]: row for row in csv.DictReader(file)}
        self.assertEqual(scores["middle"]["support"], "0")
        mean = statistics.mean(float(scores[name]["f1"]) for name in ("dark", "bright"))
        self.assertAlmostEqual(json.loads(run.stdout.splitlines()[-1])["f1_macro"], mean)


if __name__ == "__main__":
    unittest.main()
