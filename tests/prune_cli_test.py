"""`neurim prune`: what it writes has as few multiply-adds as asked, is a model like others, and is written only where accuracy holds."""
import csv
import json
import unittest
from pathlib import Path

from command import TrainedRun, instead, neurim


class Prune(TrainedRun):
    def pruned(self, name, *words, code=0):
        out = self.root / f"{name}.neurim"
        run = neurim("prune", self.folder, f"output={out}", *instead(["multiple=2"], *words), "--json")
        self.assertEqual(run.returncode, code, run)
        return out, json.loads(run.stdout.splitlines()[-1]) if run.stdout else None

    def test_the_model_is_smaller_and_like_others(self):
        out, summary = self.pruned("half", "macs=0.5", "epochs=1")
        self.assertLessEqual(summary["macs"], 0.5 * summary["macs_before"])
        self.assertEqual(summary["model"], str(out))
        val = neurim("val", out, f"project={self.root}/val", "--json")
        self.assertEqual(val.returncode, 0, val)
        self.assertEqual(json.loads(val.stdout.splitlines()[-1])["top1"], summary["top1"])
        self.assertTrue((self.root / "half.training" / "results.csv").is_file())
        with open(summary["channels"], newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertTrue(any(int(row["kept"]) < int(row["channels"]) for row in rows), rows)
        for row in rows:
            self.assertTrue(int(row["kept"]) % 2 == 0 or row["kept"] == row["channels"], row)
        exported = neurim("export", out, f"output={self.root}/half.onnx")
        self.assertEqual(exported.returncode, 0, exported)
        again = neurim("quantize", out, "max_drop=100", f"data={self.root}/data", f"output={self.root}/half.int8.neurim", "--json")
        self.assertEqual(again.returncode, 0, again)

    def test_without_training_the_data_are_only_measured_on(self):
        out, summary = self.pruned("bare", "macs=0.9", "epochs=0")
        self.assertTrue(out.is_file())
        self.assertFalse((self.root / "bare.training").exists())
        self.assertEqual(summary["top1_before"], json.loads(self.result.stdout.splitlines()[-1])["top1"])

    def test_the_schedule_of_training_does_not_matter(self):
        words = [word for word in self.words if not word.startswith("epochs")]
        run = neurim(*words, "epochs=2", "sched=multistep", "milestones=1", "gamma=0.5", "warmup_epochs=0", "name=steps")
        self.assertEqual(run.returncode, 0, run)
        pruned = neurim("prune", self.root / "runs" / "steps", "multiple=2", "macs=0.8", "epochs=1")
        self.assertEqual(pruned.returncode, 0, pruned)
        aware = neurim("quantize", self.root / "runs" / "steps", "max_drop=100", "qat=true", "qat_epochs=1")
        self.assertEqual(aware.returncode, 0, aware)

    def test_a_drop_writes_nothing(self):
        out = self.root / "never.neurim"
        run = neurim("prune", self.folder, f"output={out}", "multiple=1", "macs=0.06", "least=0", "epochs=0", "max_drop=0")
        self.assertEqual((run.returncode, out.exists(), (self.root / "never.channels.csv").exists()), (5, False, False), run)
        self.assertIn("no model is written", run.stderr)
        _, summary = self.pruned("never", "multiple=1", "macs=0.06", "least=0", "epochs=0", "max_drop=0", code=5)
        self.assertFalse({"model", "channels"} & set(summary), summary)

    def test_wrong_options_are_said(self):
        for words, said in ((["macs=2"], "between 0 and 1"), (["macs=0.00001"], "at least"), (["epochs=-1"], "epochs is -1"), (["multiple=0"], "multiple is 0"), (["max_drop=-1"], "max_drop is -1"),
                            (["split=test"], "no test split"), (["epochs=0", "lr=1"], "leave it out")):
            run = neurim("prune", self.folder, f"output={self.root}/wrong.neurim", *words)
            self.assertIn(run.returncode, (2, 3), run)
            self.assertIn(said, run.stderr)
            self.assertEqual(len(run.stderr.strip().splitlines()), 1, run.stderr)
            self.assertFalse(Path(self.root, "wrong.neurim").exists())


if __name__ == "__main__":
    unittest.main()
