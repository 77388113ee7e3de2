"""The command on series and texts."""
import csv
import json
import random
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from command import NEURIM, neurim, npy, tensors


class Sequences(unittest.TestCase):
    """A series with a season of 7 days that is forecast, and a text that is gone on with."""

    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory()
        cls.root = Path(cls.home.name)
        chance = random.Random(1)
        cls.series, cls.text = cls.root / "sales.csv", cls.root / "story.txt"
        rows = [f"2024-{i},{50 + 10 * (i % 7) + chance.random()},{chance.random()}" for i in range(200)]
        cls.series.write_text("Date,Sold,Rain\n" + "\n".join(rows) + "\n")
        cls.text.write_text("the cat sat on the mät.\n" * 40)
        cls.words = ["train", f"project={cls.root}/runs", "batch=32", "hidden_size=16", "lr=0.01"]
        cls.forecasting = [*cls.words, "model=lstm", f"data={cls.series}", "target=sold", "window=14", "horizon=2", "season=7"]
        cls.writing = [*cls.words, "model=gru", f"data={cls.text}", "window=16"]
        cls.forecast = neurim(*cls.forecasting, "epochs=40", "name=forecast", "--json")
        cls.language = neurim(*cls.writing, "epochs=30", "name=text", "--json")
        cls.forecaster, cls.writer = cls.root / "runs" / "forecast", cls.root / "runs" / "text"

    @classmethod
    def tearDownClass(cls):
        cls.home.cleanup()

    def test_train_says_how_good_the_naive_forecast_is(self):
        self.assertEqual(self.forecast.returncode, 0, self.forecast.stderr)
        *epochs, summary = map(json.loads, self.forecast.stdout.splitlines())
        self.assertEqual(len(epochs), 40)
        self.assertLess(summary["mae"], 0.5 * summary["naive_mae"])
        self.assertLess(summary["seasonal_naive_mae"], 1)
        self.assertEqual(summary["samples"], 20)
        self.assertIn("sequences_per_second", epochs[0])
        self.assertRegex(self.forecast.stderr, r"Best: epoch \d+  MAE [\d.]+  RMSE [\d.]+  last value [\d.]+ \(ours 0\.\d+ of it\)  last season")
        with open(self.forecaster / "results.csv", newline="") as file:
            self.assertEqual(min(float(row["val_mae"]) for row in csv.DictReader(file)), summary["mae"])
        with open(self.forecaster / "forecasts.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        errors = [abs(float(row["forecast"]) - float(row["actual"])) for row in rows]
        self.assertAlmostEqual(sum(errors) / len(errors), summary["mae"], 9)
        self.assertEqual(rows[-1]["step"], "200")

    def test_the_series_is_not_written_over(self):
        before = self.series.read_text()
        run = neurim("predict", f"model={self.forecaster}", f"save_csv={self.series}")
        self.assertEqual((run.returncode, len(run.stderr.splitlines())), (2, 1), run)
        self.assertIn("nothing is written over what is read", run.stderr)
        own = self.root / "runs" / "own"
        own.mkdir()
        (own / "results.csv").write_text(before)
        words = [f"data={own}/results.csv", f"project={self.root}/runs", "name=own", "exist_ok=true"]
        for run in (neurim(*[word for word in self.forecasting if not word.startswith(("data=", "project="))], *words),
                    neurim("val", self.forecaster, *words)):
            self.assertEqual(run.returncode, 2, run)
        self.assertEqual((self.series.read_text(), (own / "results.csv").read_text(), list(own.iterdir())),
                         (before, before, [own / "results.csv"]))

    def test_val_gives_the_runs_figures(self):
        for trained, run in ((self.forecast, self.forecaster), (self.language, self.writer)):
            self.assertEqual(trained.returncode, 0, trained.stderr)
            judged = neurim("val", run, f"project={self.root}/val", "--json")
            self.assertEqual(judged.returncode, 0, judged.stderr)
            before, after = (json.loads(run.stdout.splitlines()[-1]) for run in (trained, judged))
            for key in set(before) - {"run", "model"}:
                self.assertEqual(before[key], after[key], key)
        self.assertEqual((self.root / "val" / "val" / "forecasts.csv").read_text(), (self.forecaster / "forecasts.csv").read_text())
        self.assertIn("has no sample", neurim("val", self.writer, "split=test").stderr)
        self.assertIn("'z'", neurim("val", self.writer, f"data={self.other('zoo')}").stderr)

    def other(self, content):
        path = self.root / "other.txt"
        path.write_text(content)
        return path

    def test_predict_forecasts_behind_the_end(self):
        out = self.root / "next.csv"
        run = neurim("predict", f"model={self.forecaster}", f"save_csv={out}")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stdout, out.read_text())
        with open(out, newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([row["ahead"] for row in rows], ["1", "2"])
        for i, row in enumerate(rows):
            self.assertLess(abs(float(row["sold"]) - (50.5 + 10 * ((200 + i) % 7))), 8)
        shorter = self.root / "shorter.csv"
        shorter.write_text("\n".join(self.series.read_text().splitlines()[:-3]) + "\n")
        event = json.loads(neurim("predict", shorter, f"model={self.forecaster}", "--json").stdout)
        self.assertLess(abs(event["values"][0] - (50.5 + 10 * (197 % 7))), 8)

    def test_predict_writes_text(self):
        summary = json.loads(self.language.stdout.splitlines()[-1])
        self.assertLess(summary["bits_per_character"], summary["bigram_bits_per_character"])
        words = ["predict", f"model={self.writer}", "prompt=the cat", "length=40"]
        run = neurim(*words, "seed=3")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertTrue(run.stdout.startswith("the cat"), run.stdout)
        self.assertEqual(len(run.stdout), 7 + 40 + 1)
        self.assertEqual(neurim(*words, "seed=3").stdout, run.stdout)
        hot = json.loads(neurim(*words, "seed=4", "temperature=9", "--json").stdout)
        self.assertEqual((hot["prompt"], len(hot["text"])), ("the cat", 40))
        self.assertNotEqual(hot["prompt"] + hot["text"] + "\n", run.stdout)
        self.assertTrue(neurim("predict", f"model={self.writer}").stdout.startswith("\n"))

    def test_a_text_without_lines_begins_with_its_first_character(self):
        run = neurim(*self.words, "model=rnn", f"data={self.other('abcab' * 60)}", "window=8", "epochs=1", "name=line")
        self.assertEqual(run.returncode, 0, run.stderr)
        run = neurim("predict", f"model={self.root}/runs/line", "length=9")
        self.assertEqual(run.returncode, 0, run.stderr)
        note, written = run.stdout.splitlines()
        self.assertIn("knows no line break, so the text begins with 'a'", note)
        self.assertRegex(written, "^a[abc]{9}$")

    def test_steps_that_no_forecast_covers_are_said(self):
        said = "not judged in the val split: 6 steps that no whole forecast of 7 covers"
        run = neurim(*(word.replace("horizon=2", "horizon=7") for word in self.forecasting), "epochs=1", "name=week")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn(said, run.stdout)
        judged = neurim("val", self.root / "runs" / "week", f"project={self.root}/val", "name=week")
        self.assertIn(said, judged.stdout)
        self.assertEqual(len((self.root / "val" / "week" / "forecasts.csv").read_text().splitlines()), 1 + 14)
        self.assertNotIn("not judged", self.forecast.stderr)  # 20 steps, 2 a forecast

    def test_resume_ends_like_an_uninterrupted_run(self):
        for name, words in (("series", self.forecasting), ("story", self.writing)):
            words = [*words, "epochs=20", "plots=false"]
            with subprocess.Popen([NEURIM, *words, f"name={name}", "--json"], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True) as process:
                process.stdout.readline()
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=60)
            self.assertEqual(process.returncode, 130)
            whole = neurim(*words, f"name=whole-{name}")
            self.assertEqual(whole.returncode, 0, whole.stderr)
            resumed = neurim("resume", self.root / "runs" / name)
            self.assertEqual(resumed.returncode, 0, resumed.stderr)
            for file in ("best.safetensors", "last.safetensors", "last.opt.safetensors"):
                self.assertEqual(tensors(self.root / "runs" / name / "weights" / file),
                                 tensors(self.root / "runs" / f"whole-{name}" / "weights" / file), file)

    def test_export_info_and_models(self):
        for run, parts in ((self.forecaster, (b"forecast", b'["sold","rain"]', b"rnn.weight_ih_l0")), (self.writer, (b"language", b"window"))):
            exported = neurim("export", run)
            self.assertEqual(exported.returncode, 0, exported.stderr)
            for part in parts:
                self.assertIn(part, (run / "export" / "best.onnx").read_bytes())
        self.assertIn("input f32(1,14,2)", neurim("export", self.forecaster).stdout)
        self.assertRegex(neurim("info", self.forecaster).stdout, r"lstm  [\d,]+ parameters  input f32\(1,14,2\)  2 values of sold\n")
        self.assertRegex(neurim("info", self.writer, "--plan", "batch=2").stdout, r"\d+ tasks, arena")
        self.assertEqual(neurim("models", "lstm").stdout.count("series and texts"), 1)
        self.assertIn("train one", neurim("info", "lstm").stderr)

    def test_run_on_arrays(self):
        inputs = self.root / "in"
        inputs.mkdir()
        npy(inputs / "input_0.npy", "(1, 14, 2)", [60.0] * 28)
        run = neurim("run", f"model={self.forecaster}", f"inputs={inputs}", f"outputs={self.root}/out")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn(b"'shape': (1,2,)", (self.root / "out" / "output_0.npy").read_bytes())

    def test_what_is_wrong_is_one_line_and_leaves_no_run(self):
        for words, code, said in (
                ([f"data={self.series}", "model=lstm"], 2, "target=sold"),
                ([f"data={self.series}", "model=lstm", "target=date"], 2, "no column of numbers is called date"),
                ([f"data={self.series}", "model=lstm", "target=sold", "window=190"], 3, "takes 191"),
                ([f"data={self.series}", "model=lstm", "target=sold", "horizon=21"], 3, "val_split"),
                ([f"data={self.series}", "model=lstm", "target=sold", "window=0"], 2, "window is 0"),
                ([f"data={self.series}", "model=lstm", "target=sold", "hflip=0.5"], 2, "option of pictures"),
                ([f"data={self.series}", "model=lstm", "target=sold", "precision=bf16"], 2, "option of pictures"),
                ([f"data={self.series}", "model=lenet5"], 3, "sales.csv"),
                ([f"data={self.other('short')}", "model=rnn", "window=16"], 3, "takes 17"),
                ([f"data={self.root}", "model=rnn"], 3, "is a folder"),
                ([f"data={self.root}/none.txt", "model=rnn"], 3, "none.txt"),
                ([f"data={self.text}", "model=ltsm"], 2, "did you mean 'lstm'")):
            run = neurim("train", f"project={self.root}/runs", "name=never", *words)
            self.assertEqual((run.returncode, len(run.stderr.splitlines())), (code, 1), run)
            self.assertIn(said, run.stderr)
            self.assertFalse((self.root / "runs" / "never").exists())
        for words, said in ((["predict", f"model={self.writer}", "prompt=dog"], "'d'"), (["predict", f"model={self.writer}", "source=x"], "a text"),
                            (["predict", f"model={self.forecaster}", "prompt=x"], "a series"), (["predict", f"model={self.forecaster}", "topk=2"], "a series"),
                            (["predict", f"model={self.forecaster}", f"source={self.other('Sold,Rain')}.csv"], "other.txt.csv"),
                            (["val", self.writer, "crops=5"], "a text"), (["export", self.forecaster, "imgsz=32"], "a series"),
                            (["benchmark", self.forecaster], "a series")):
            run = neurim(*words)
            self.assertIn(run.returncode, (2, 3), run)
            self.assertEqual(len(run.stderr.splitlines()), 1, run)
            self.assertIn(said, run.stderr)


if __name__ == "__main__":
    unittest.main()
