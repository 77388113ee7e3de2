"""What a first run with defaults says and chooses."""
import csv
import json
import re
import tempfile
import unittest
from pathlib import Path

from command import best_row, neurim, png


class FirstRun(unittest.TestCase):
    def setUp(self):
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        self.root = Path(home.name)

    def images(self, name, a_class, side):
        for label, level in (("dark", 10), ("middle", 90), ("bright", 170)):
            for i in range(a_class):
                png(self.root / name / label / f"{i}.png", side, side, level + i % 40)
        return f"data={self.root}/{name}"

    def run_of(self, *words):
        run = neurim("train", *words, f"project={self.root}/runs", "plots=false", "exist_ok=true", "--json")
        self.assertEqual(run.returncode, 0, run)
        return run, [json.loads(line) for line in run.stdout.splitlines()]

    def test_few_images_make_twenty_steps_an_epoch(self):
        for a_class, batch in ((3, 2), (30, 4), (150, 20)):  # a tenth of them is for validation
            with self.subTest(a_class=a_class):
                config = neurim("train", self.images(f"of{a_class}", a_class, 28), "model=lenet5", f"project={self.root}/runs", "epochs=1", "plots=false", "exist_ok=true")
                self.assertEqual(config.returncode, 0, config)
                self.assertRegex((self.root / "runs" / "train" / "args.yaml").read_text(), rf"(?m)^batch: {batch}$")

    def test_the_time_of_a_run_is_estimated_before_its_first_epoch(self):
        run, events = self.run_of(self.images("small", 20, 28), "model=lenet5", "epochs=3")
        self.assertEqual([event["event"] for event in events], ["estimate", "epoch", "epoch", "epoch", "summary"])
        self.assertGreater(events[0]["epoch_seconds"], 0)
        self.assertGreaterEqual(events[0]["seconds_left"], 0)
        self.assertGreater(events[0]["peak_rss_mib"], 10)
        lines = run.stderr.splitlines()
        line = next(i for i, line in enumerate(lines) if line.startswith("  time "))
        self.assertRegex(lines[line], r"^  time    about \d+:\d\d an epoch; 3 epochs until \d{4}-\d\d-\d\d \d\d:\d\d \(\d+:\d\d\); memory [\d,]+ MiB$")
        self.assertRegex(lines[line + 1], "^ +Epoch ")
        self.assertRegex(lines[line + 2], r"^ +1/3 ")

    def test_images_much_smaller_than_the_input_are_named(self):
        small, large = self.images("small", 4, 28), self.images("large", 4, 120)
        for words, expected in (((small, "model=resnet18"), r"28 pixels .* enlarged to 224: imgsz=64 takes about 1/12 of the time; model=resnet20"),
                                ((small, "model=resnet18", "imgsz=64"), None), ((small, "model=lenet5"), None), ((large, "model=resnet18"), None)):
            with self.subTest(words=words):
                run = neurim("train", *words, "epochs=1", "--dry-run")
                self.assertEqual(run.returncode, 0, run)
                note = re.search("(?m)^  data    the median image .*$", run.stdout)
                self.assertEqual(bool(note), bool(expected), run.stdout)
                if expected:
                    self.assertRegex(note[0], expected)

    def test_the_loss_breaks_ties_of_the_best_epoch(self):
        _, events = self.run_of(self.images("easy", 40, 28), "model=lenet5", "epochs=8", "lr=0.002")
        results = self.root / "runs" / "train" / "results.csv"
        with open(results, newline="") as file:
            tied = [row for row in csv.DictReader(file) if float(row["val_top1"]) == 1]
        self.assertGreater(len(tied), 1, "no tie to break")
        self.assertNotEqual(best_row(results), tied[0], "the first is the best by the loss too")
        self.assertEqual(events[-1]["loss"], float(best_row(results)["val_loss"]))


if __name__ == "__main__":
    unittest.main()
