"""The command on series and texts."""
import csv
import datetime
import json
import math
import random
import signal
import struct
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
        estimate, *epochs, summary = map(json.loads, self.forecast.stdout.splitlines())
        self.assertEqual(estimate["event"], "estimate")
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
        written = []
        for trained, run in ((self.forecast, self.forecaster), (self.language, self.writer)):
            self.assertEqual(trained.returncode, 0, trained.stderr)
            evaluated = neurim("val", run, f"project={self.root}/val", "--json")
            self.assertEqual(evaluated.returncode, 0, evaluated.stderr)
            before, after = (json.loads(run.stdout.splitlines()[-1]) for run in (trained, evaluated))
            for key in set(before) - {"run", "model", "validation"}:
                self.assertEqual(before[key], after[key], key)
            written.append(json.loads(Path(after["run"], "metrics.json").read_text())["metrics"])
        self.assertEqual((self.root / "val" / "val" / "forecasts.csv").read_text(), (self.forecaster / "forecasts.csv").read_text())
        forecast, language = written
        with open(self.forecaster / "forecasts.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        actual, said = ([float(row[key]) for row in rows] for key in ("actual", "forecast"))
        errors = [abs(a - b) for a, b in zip(actual, said)]
        with open(self.series, newline="") as file:
            sold = [float(row["Sold"]) for row in csv.DictReader(file)]
        trained_on = sold[:int(rows[0]["step"]) - 1]
        scale = sum(abs(b - a) for a, b in zip(trained_on, trained_on[1:])) / (len(trained_on) - 1)
        mean = sum(actual) / len(actual)
        for key, value in (("mae", sum(errors) / len(errors)), ("rmse", math.sqrt(sum(e * e for e in errors) / len(errors))),
                           ("mape", sum(e / abs(a) for e, a in zip(errors, actual)) / len(errors)),
                           ("mase", sum(errors) / len(errors) / scale),
                           ("r2", 1 - sum(e * e for e in errors) / sum((a - mean) ** 2 for a in actual))):
            self.assertAlmostEqual(forecast[key]["value"], value, 9, key)
            if key != "r2":
                self.assertTrue(forecast[key]["low"] < value < forecast[key]["high"], key)
        self.assertAlmostEqual(language["perplexity"]["value"], 2 ** language["bits_per_character"]["value"], 9)
        self.assertTrue(language["perplexity"]["low"] < language["perplexity"]["value"] < language["perplexity"]["high"])
        for run, metric in ((self.forecaster, "mae"), (self.writer, "val_loss")):
            listed = json.loads(neurim("runs", run, "--json").stdout.splitlines()[0])
            epochs = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
            epochs = [one for one in epochs if one["event"] == "epoch"]
            self.assertEqual((listed["monitor"], listed["value"]), (metric, min(one[metric] for one in epochs)))
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
        said = "not evaluated in the val split: 6 steps that no whole forecast of 7 covers"
        run = neurim(*(word.replace("horizon=2", "horizon=7") for word in self.forecasting), "epochs=1", "name=week")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn(said, run.stdout)
        evaluated = neurim("val", self.root / "runs" / "week", f"project={self.root}/val", "name=week")
        self.assertIn(said, evaluated.stdout)
        self.assertEqual(len((self.root / "val" / "week" / "forecasts.csv").read_text().splitlines()), 1 + 14)
        self.assertNotIn("not evaluated", self.forecast.stderr)  # 20 steps, 2 a forecast

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
        self.assertNotIn(b"Cast", (self.forecaster / "export" / "best.onnx").read_bytes())  # all of it is f32
        self.assertRegex(neurim("info", self.forecaster).stdout, r"lstm  [\d,]+ parameters  input f32\(1,14,2\)  2 values of sold\n")
        self.assertRegex(neurim("info", self.writer, "--plan", "batch=2").stdout, r"\d+ tasks, arena")
        self.assertEqual(neurim("models", "lstm").stdout.count("series and texts"), 1)
        self.assertIn("train one", neurim("info", "lstm").stderr)

    def trained(self, name, content, *more, suffix="csv"):
        """A short run on a series of that content, and the words of a command that trains it."""
        data = self.root / f"{name}.{suffix}"
        data.write_text(content)
        words = ["train", f"project={self.root}/runs", f"name={name}", f"data={data}", "target=sold", "model=gru", "hidden_size=4",
                 "window=6", "horizon=2", "epochs=1", "plots=false", *more]
        return data, neurim(*words)

    @staticmethod
    def rows(values, days=None):
        days = days or [datetime.date(2024, 1, 1) + datetime.timedelta(i) for i in range(len(values))]
        return "day,sold\n" + "".join(f"{day},{value}\n" for day, value in zip(days, values))

    def test_a_large_level_is_kept_from_the_file_to_the_forecast(self):
        values = [100000000 + (i * 37 % 11) + i % 7 / 8 for i in range(60)]
        data, run = self.trained("level", self.rows(values))
        self.assertEqual(run.returncode, 0, run.stderr)
        forecasts = self.root / "runs" / "level" / "forecasts.csv"
        with open(forecasts, newline="") as file:
            for row in csv.DictReader(file):
                self.assertEqual(float(row["actual"]), values[int(row["step"]) - 1])
                self.assertNotEqual(float(row["forecast"]), float(row["naive"]))
        event = json.loads(neurim("val", self.root / "runs" / "level", f"project={self.root}/val", "name=level", "--json").stdout)
        naive = [abs(values[54 + i] - values[53 + i // 2 * 2]) for i in range(6)]
        self.assertAlmostEqual(event["naive_mae"], sum(naive) / 6, 9)
        before = self.root / "before.csv"  # the last forecast of validation again
        before.write_text("".join(f"{line}\n" for line in data.read_text().splitlines()[:-2]))
        predicted = neurim("predict", f"model={self.root}/runs/level", f"source={before}")
        self.assertEqual([line.split(",")[1] for line in predicted.stdout.splitlines()[1:]],
                         [line.split(",")[3] for line in forecasts.read_text().splitlines()[-2:]])
        exported = neurim("export", self.root / "runs" / "level")
        self.assertRegex(exported.stdout, r"note: f32, .*rounds values of sold near 1e\+08 to steps of 8, and they change by ")
        self.assertNotIn("note", neurim("export", self.forecaster).stdout)
        small = self.rows([f"{i * 37 % 11}e-60" for i in range(60)])
        self.assertEqual(self.trained("small", small)[1].returncode, 0)
        exported = neurim("export", self.root / "runs" / "small")
        self.assertEqual((exported.returncode, len(exported.stderr.splitlines())), (3, 1), exported)
        self.assertIn("which f32 cannot hold", exported.stderr)

    def test_columns_of_the_console_never_touch(self):
        for power in (-300, -9, 9, 30, 300):
            _, run = self.trained(f"power{power}", self.rows([f"{1 + i * 37 % 11}e{power}" for i in range(60)]))
            self.assertEqual(run.returncode, 0, run.stderr)
            for said in (run.stdout, (self.root / "runs" / f"power{power}" / "log.txt").read_text()):
                row = next(line for line in said.splitlines() if line.strip().startswith("1/1"))
                self.assertRegex(row, r"^ +1/1( +[\d.]+(e[-+]\d+)?){7} +0:0\d  best$")
                for figure in row.split()[3:5]:
                    self.assertRegex(figure, rf"e[-+]0*{abs(power) - 1}|e[-+]0*{abs(power)}|e[-+]0*{abs(power) + 1}|^\d")

    def test_rows_out_of_order_are_said_by_every_verb(self):
        values, days = [i * 37 % 11 for i in range(60)], [(datetime.date(2024, 1, 1) + datetime.timedelta(i)).strftime("%d.%m.%Y") for i in range(60)]
        said = "the time (day) falls in line 32 (29.02.2024, then 01.01.2024)"
        data, run = self.trained("swapped", self.rows(values, days[30:] + days[:30]), "columns=sold")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn(said, run.stdout)
        self.assertIn(said, (self.root / "runs" / "swapped" / "log.txt").read_text())
        self.assertIn(said, neurim("val", self.root / "runs" / "swapped", f"project={self.root}/val", "name=swapped").stdout)
        predicted = neurim("predict", f"model={self.root}/runs/swapped")
        self.assertEqual((predicted.returncode, len(predicted.stderr.splitlines())), (0, 1), predicted)
        self.assertIn(f"note: {said}", predicted.stderr)
        self.assertEqual(len(predicted.stdout.splitlines()), 3)
        data.write_text(self.rows(values, days))
        self.assertEqual(neurim("predict", f"model={self.root}/runs/swapped").stderr, "")

    def test_tables_of_spreadsheets(self):
        values = [i * 37 % 11 + 0.5 for i in range(60)]
        plain = self.rows(values)
        _, run = self.trained("plain", plain)
        forecasts = (self.root / "runs" / "plain" / "forecasts.csv").read_text()
        for name, separator in (("semicolons", ";"), ("tabs", "\t"), ("bars", "|")):
            data, run = self.trained(name, plain.replace(",", separator))
            self.assertEqual(run.returncode, 0, run.stderr)
            folder = self.root / "runs" / name
            self.assertEqual((folder / "forecasts.csv").read_text(), forecasts)
            self.assertEqual(neurim("val", folder, f"project={self.root}/val", f"name={name}").returncode, 0)
            self.assertEqual(neurim("predict", f"model={folder}").stdout, neurim("predict", f"model={self.root}/runs/plain").stdout)
            data.write_text(plain.replace(",", separator).replace(".5\n", ",5\n"))
            for run in (neurim("val", folder), neurim("predict", f"model={folder}"), self.trained("no", data.read_text())[1]):
                self.assertEqual((run.returncode, len(run.stderr.splitlines())), (3, 1), run)
                self.assertRegex(run.stderr, r"\.csv:2: the column sold holds '0,5' .*a point for decimals")

    def test_run_keeps_the_doubles_of_a_series(self):
        self.assertEqual(self.trained("doubles", self.rows([1e9 + i * 37 % 11 for i in range(60)]))[1].returncode, 0)
        inputs = self.root / "doubles"
        inputs.mkdir()
        header = "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 6, 1), }".ljust(117) + "\n"
        window = [1e9 + i * 37 % 11 for i in range(54, 60)]
        (inputs / "input_0.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack("<6d", *window))
        run = neurim("run", f"model={self.root}/runs/doubles", f"inputs={inputs}", f"outputs={inputs}/out")
        self.assertEqual(run.returncode, 0, run.stderr)
        out = struct.unpack("<2d", (inputs / "out" / "output_0.npy").read_bytes()[-16:])
        predicted = neurim("predict", f"model={self.root}/runs/doubles").stdout.splitlines()
        self.assertEqual([float(line.split(",")[1]) for line in predicted[1:]], list(out))

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
                ([f"data={self.series}", "model=lstm", "target=date"], 3, "sales.csv:2: the column date holds '2024-0' where a finite number is needed"),
                ([f"data={self.series}", "model=lstm", "target=sold", "columns=rain, Rain"], 2, "columns names rain twice"),
                ([f"data={self.series}", "model=lstm", "target=sold", "window=190"], 3, "takes 191"),
                ([f"data={self.series}", "model=lstm", "target=sold", "horizon=21"], 3, "val_split"),
                ([f"data={self.series}", "model=lstm", "target=sold", "window=0"], 2, "window is 0"),
                ([f"data={self.series}", "model=lstm", "target=sold", "hflip=0.5"], 2, "option of images"),
                ([f"data={self.series}", "model=lstm", "target=sold", "precision=bf16"], 2, "option of images"),
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
