"""The command from outside: grammar, exit codes, JSON lines, and a run through the verbs."""
import json
import os
import re
import signal
import statistics
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

from command import DATA_TASKS, NEURIM, VERBS, TrainedRun, best_row, instead, neurim, npy, npy_picture, png, tensors, without_checksums


class Grammar(unittest.TestCase):
    def refused(self, *words, code=2):
        run = neurim(*words)
        self.assertEqual(run.returncode, code, run)
        self.assertEqual(run.stdout, "")
        self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)
        return run.stderr

    def test_version(self):
        self.assertRegex(neurim("version").stdout, r"^neurim \d+\.\d+\.\d+\n$")
        self.assertEqual(neurim("--version").stdout, neurim("version").stdout)
        self.assertIn("version", json.loads(neurim("version", "--json").stdout))

    def test_every_verb_has_help_with_three_examples(self):
        usage = neurim()
        self.assertEqual(usage.returncode, 0)
        for verb in VERBS:
            self.assertIn(verb, usage.stdout)
            run = neurim(verb, "--help")
            self.assertEqual(run.returncode, 0, run)
            self.assertEqual(neurim("help", verb).stdout, run.stdout)
            examples = re.findall(rf"\n  (?:neurim|(?:neurim launch|mpirun|srun) .*) {verb}", run.stdout)
            self.assertGreaterEqual(len(examples), 2 if verb == "version" else 3, run.stdout)

    def test_help_names_the_exit_codes(self):
        for code in ("2 wrong options", "3 bad data", "130 after Ctrl-C", "75 after SIGTERM, SIGHUP, SIGUSR1"):
            self.assertIn(code, neurim("--help").stdout)

    def test_every_data_task_has_help_with_three_examples(self):
        for task in DATA_TASKS:
            run = neurim("data", task, "--help")
            self.assertEqual(run.returncode, 0, run)
            self.assertGreaterEqual(run.stdout.count("\n  neurim "), 3, run.stdout)
        self.assertIn("did you mean 'scan'", self.refused("data", "scn"))

    def test_did_you_mean(self):
        self.assertIn("did you mean 'train'", self.refused("trian"))
        self.assertIn("did you mean 'epochs'", self.refused("train", "epoch=3"))
        self.assertIn("did you mean 'epochs'", self.refused("train", "--epohcs", "3"))
        self.assertIn("did you mean 'resnet18'", self.refused("info", "resnte18"))

    def test_wrong_words(self):
        self.assertIn("epochs", self.refused("train", "epochs=many"))
        self.assertIn("--epochs needs a value", self.refused("train", "--epochs"))
        self.assertIn("epochs=VALUE", self.refused("train", "epochs", "3"))
        self.assertIn("data=DIR", self.refused("train", "model=lenet5"))
        self.assertIn("did you mean 'lenet5'", self.refused("train", "data=/nowhere", "model=lenet6"))  # before the data
        self.assertIn("1 to", self.refused("train", "data=x", "model=lenet5", "threads=100000"))
        self.assertIn("lists all", self.refused("models", "x*"))
        self.assertNotIn("\n ", self.refused("train", "data=a\nb\x1b[2J", "model=lenet5", code=3))

    def test_both_ways_to_write_an_option(self):
        for words in (["label_smoothing=0.1", "epochs=7"], ["--epochs", "7", "--label-smoothing", "0.1"],
                      ["--epochs=7", "smoothing=0.1"], ["--epochs", "7", "--label_smoothing=0.1"]):
            run = neurim("train", "classify", *words, "--print-config")
            self.assertEqual(run.returncode, 0, run)
            self.assertIn("epochs: 7\n", run.stdout)
            self.assertIn("label_smoothing: 0.1\n", run.stdout)

    def test_a_full_stdout_ends_with_4(self):
        for words in ([], ["version"], ["train", "--help"], ["train", "--print-config"], ["data"], ["models", "le*"], ["info", "lenet5", "--json"]):
            with open("/dev/full", "w") as full:
                run = subprocess.run([NEURIM, *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
            self.assertEqual(run.returncode, 4, (words, run))
            self.assertIn("stdout: cannot write: No space left on device", run.stderr.splitlines()[-1])
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "w") as closed:
            run = subprocess.run([NEURIM, "models", "le*"], stdout=closed, stderr=subprocess.PIPE, timeout=120, check=False)
        self.assertEqual((run.returncode, run.stderr), (-signal.SIGPIPE, b""))

    def test_paths_that_lead_nowhere_are_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            loop, pipe = Path(folder, "loop"), Path(folder, "pipe")
            loop.symlink_to("loop")
            os.mkfifo(pipe)
            onnx = Path(folder, "x.onnx")
            onnx.write_bytes(bytes.fromhex("08081206") + b"neurim" * 20)
            for words in (["train", f"data={loop}", "model=lenet5"], ["val", f"model={loop}"], ["info", loop], ["resume", loop],
                          ["data", "scan", loop]):
                self.assertIn("loop", self.refused(*words, code=3))
            for words in (["val", f"model={pipe}"], ["train", f"data={pipe}", "model=lenet5"]):
                self.assertIn("pipe", self.refused(*words, code=3))
            for words in (["val", f"model={onnx}"], ["run", f"model={onnx}", f"inputs={folder}", f"outputs={folder}"]):
                self.assertIn("is no ONNX model", self.refused(*words, code=3))

    def test_a_failed_export_removes_what_it_made_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            mine = Path(folder, "mine")
            mine.mkdir()
            for output in ("mine/x.onnx", "mine/a/b/x.onnx"):
                said = self.refused("export", "model=lenet5", f"output={folder}/{output}", "imgsz=3")
                self.assertIn("c2: conv2d", said)
                self.assertIn("lenet5 is made for one size of images: give imgsz=28", said)
                self.assertEqual((mine.is_dir(), list(mine.iterdir())), (True, []))
            (mine / "target.onnx").touch()
            (mine / "link.onnx").symlink_to("target.onnx")
            run = neurim("export", "model=lenet5", f"output={mine}/link.onnx")
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertTrue((mine / "link.onnx").is_symlink())
            self.assertGreater((mine / "target.onnx").stat().st_size, 100_000)

    def test_an_onnx_file_is_called_one(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("call it", self.refused("export", "model=lenet5", f"output={folder}/shop"))
            self.assertEqual(list(Path(folder).iterdir()), [])

    def test_an_export_goes_where_nothing_can_be_replaced(self):
        for more in ([], ["--dry-run"]):
            run = neurim("export", "model=lenet5", "output=/dev/null", "--json", *more)
            self.assertEqual(run.returncode, 0, run)
            self.assertGreater(json.loads(run.stdout.splitlines()[-1])["bytes"], 100_000)

    def test_flags_take_all_words_for_true_and_false(self):
        for word, truth in (("no", "false"), ("0", "false"), ("off", "false"), ("False", "false"), ("yes", "true"), ("1", "true"), ("on", "true")):
            printed = neurim("train", "--deterministic", word, "--print-config").stdout
            self.assertIn(f"\ndeterministic: {truth}\n", printed)
        self.assertIn("\nmulti_label: auto\n", neurim("train", "--multi-label", "auto", "--print-config").stdout)

    def test_names_that_are_too_long(self):
        with tempfile.TemporaryDirectory() as folder:
            for i in range(8):
                png(Path(folder, "data", "ab"[i % 2], f"{i}.png"), 28, 28, 30 * i)
            for more in ([], ["--dry-run"]):
                said = self.refused("train", f"data={folder}/data", "model=lenet5", f"project={folder}/runs", "name=" + 300 * "x", *more)
                self.assertIn("name has 300 bytes", said)

    def test_an_option_is_no_value_of_another(self):
        self.assertIn("--name needs a value", self.refused("train", "data=none", "--name", "--quiet"))
        self.assertIn("--name needs a value", self.refused("train", "data=none", "--name", "--epochs=3"))
        self.assertIn("name: --json\n", neurim("train", "name=--json", "--print-config").stdout)

    def test_comments_in_a_file_of_options(self):
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder, "config.yaml")
            config.write_text("# all\nname:  # my run\ntarget:\t# none\nproject: here # there\nepochs: 3   # few\nmodel: 'a # b'\n")
            printed = neurim("train", "--config", config, "--print-config").stdout
            for line in ('name: ""', 'target: ""', "project: here", "epochs: 3", 'model: "a # b"'):
                self.assertIn(f"\n{line}\n", "\n" + printed)

    def test_no_option_is_given_twice(self):
        self.assertIn("epochs is given twice: 1 and 2", self.refused("train", "epochs=1", "--epochs", "2"))
        self.assertIn("batch is given twice: 8 and 9", self.refused("train", "batch=8", "batch_size=9"))
        self.assertIn("model is given twice: runA and runB", self.refused("info", "model=runA", "m=runB"))
        self.assertIn("epochs: 7\n", neurim("train", "epochs=7", "--epochs=7", "--print-config").stdout)
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder, "config.yaml")
            config.write_text("batch: 8\nepochs: 3\n")
            self.assertIn("epochs: 4\n", neurim("train", "epochs=4", "--config", config, "--print-config").stdout)
            for lines, said in (("batch: 8\nb: 9\n", "line 2: batch is given twice: 8 and 9"), ("lr: 1\nlr: 1\n", "line 2: lr is given twice: 1 and 1"),
                                ("# mine\nhelp: true\n", "line 2: help is for the command line alone"), ("print_config: false\n", "line 1: print_config is for"),
                                ("topk: 3\n", "line 1: there is no option 'topk'"), ("augment: true\n  hflip: 1\n", "line 2: is indented"), ("epochs\n", "line 1: expected 'name: value'"),
                                (": 3\n", "line 1: expected 'name: value'"), ("model: 'a\n", "line 1: the quote ' is not closed"),
                                ("\nepochs: \"3\" 4\n", "line 2: '4' stands behind the closing quote")):
                config.write_text(lines)
                self.assertIn(f"{config}: {said}", self.refused("train", "--config", config))

    def test_refusals_say_what_is_possible(self):
        for words, said in ((["epochs=99999999999999999999"], "is out of range; it is a whole number from"),
                            (["seed=18446744073709551615"], "to 9223372036854775807"), (["fold=2"], "there are no folds; give folds=K"),
                            (["resize=foo"], "squash, letterbox, shortest"), (["min_lr=-1"], "min_lr is -1"), (["warmup_lr=-1"], "warmup_lr is -1"),
                            (["milestones=5,7"], "milestones is an option of sched=multistep, and sched is cosine; give sched=multistep"),
                            (["step_epochs=3", "sched=multistep", "milestones=5"], "step_epochs is an option of sched=step, and sched is multistep"),
                            (["gamma=0.5"], "gamma is an option of sched=step and multistep"), (["power=2"], "give sched=polynomial"),
                            (["val_split=0.3", "folds=5"], "leave val_split out")):
            self.assertIn(said, self.refused("train", "data=none", "model=lenet5", *words))
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("epochs is 0", self.refused("demo", "epochs=0", f"project={folder}"))
            self.assertEqual(list(Path(folder).iterdir()), [])

    def test_bad_data(self):
        with tempfile.TemporaryDirectory() as folder:
            self.refused("train", f"data={folder}/none", "model=lenet5", f"project={folder}", code=3)
            self.refused("train", f"data={folder}", "model=lenet5", f"project={folder}", code=3)
            png(Path(folder, "one", "only", "a.png"), 28, 28, 3)
            self.assertIn("only", self.refused("train", f"data={folder}/one", "model=lenet5", f"project={folder}", code=3))
            self.refused("val", f"{folder}/none.safetensors", code=3)
            self.refused("resume", f"{folder}/none", code=3)
            png(Path(folder, "odd", "a\nb", "a.png"), 28, 28, 3)
            png(Path(folder, "odd", "c", "a.png"), 28, 28, 3)
            self.assertIn("line break", self.refused("train", f"data={folder}/odd", "model=lenet5", f"project={folder}", code=3))


class Trained(TrainedRun):
    def test_train_reports(self):
        self.assertEqual(self.result.returncode, 0, self.result.stderr)
        lines = [json.loads(line) for line in self.result.stdout.splitlines()]
        self.assertEqual([line["event"] for line in lines], ["estimate", "epoch", "epoch", "summary"])
        summary = lines[-1]
        for key in ("top1", "top5", "loss", "f1_macro"):
            self.assertIsInstance(summary[key], (int, float))
        self.assertEqual(Path(summary["run"]), self.folder)
        self.assertTrue(Path(summary["model"]).is_file())
        self.assertNotIn("\x1b", (self.folder / "log.txt").read_text())
        config = neurim("train", "--config", self.folder / "args.yaml", "--print-config")
        self.assertIn("batch: 16\n", config.stdout)
        env = json.loads((self.folder / "env.json").read_text())
        self.assertEqual(env["command"][1:], [*self.words, "--json"])
        best = best_row(self.folder / "results.csv")
        self.assertEqual(float(best["val_f1_macro"]), summary["f1_macro"])
        self.assertTrue(0 <= float(best["data_pct"]) <= 100, best)
        splits = json.loads((self.folder / "data.json").read_text())
        self.assertEqual(splits["train"]["classes"], {"bright": 14, "dark": 14, "middle": 14})
        self.assertRegex(splits["val"]["sha256"], "^[0-9a-f]{64}$")
        self.assertRegex(splits["val"]["bytes_sha256"], "^[0-9a-f]{64}$")
        for name in ("train_batch0.jpg", "train_batch1.jpg", "train_batch2.jpg"):
            self.assertTrue((self.folder / name).read_bytes().startswith(b"\xff\xd8\xff"))
        self.assertTrue((self.folder / "labels.png").read_bytes().startswith(b"\x89PNG"))

    def test_val_gives_the_runs_figures(self):
        run = neurim("val", self.folder, "--json", f"project={self.root}/runs")
        self.assertEqual(run.returncode, 0, run.stderr)
        trained, evaluated = (json.loads(text.splitlines()[-1]) for text in (self.result.stdout, run.stdout))
        for key in ("top1", "top5", "loss", "f1_macro", "samples"):
            self.assertEqual(trained[key], evaluated[key], key)
        self.assertTrue(Path(evaluated["run"], "confusion_matrix.png").is_file())

    def test_crops_and_other_inputs(self):
        run = neurim("val", self.folder, "--json", "crops=10", "crop_pct=0.8", "interpolation=bicubic", f"project={self.root}/runs")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(json.loads(run.stdout.splitlines()[-1])["samples"], 15)
        # Of a crop that keeps everything all parts are the same, and five of them say what one does.
        one, five = (json.loads(neurim("val", self.folder, "--json", f"crops={n}", f"project={self.root}/runs").stdout.splitlines()[-1])
                     for n in (1, 5))
        self.assertEqual([one[key] for key in ("top1", "f1_macro")], [five[key] for key in ("top1", "f1_macro")])
        self.assertAlmostEqual(one["loss"], five["loss"], 4)
        self.assertIn("there is no '7'", neurim("val", self.folder, "crops=7", f"project={self.root}/runs").stderr)
        self.assertIn("resize=crop", neurim("val", self.folder, "crops=5", "resize=squash", f"project={self.root}/runs").stderr)
        for words in (["predict", f"model={self.folder}", f"source={self.root}/data/val"], ["val", self.folder]):
            self.assertIn("did you mean", neurim(*words, "interpolation=bicubc").stderr)

    def test_sizes_that_are_not_square(self):
        words = [f"data={self.root}/data", "model=resnet20", "batch=16", "epochs=1", "imgsz=16x32", f"project={self.root}/runs", "name=wide"]
        run = neurim("train", *words)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("input 3x16x32", run.stdout)
        self.assertIn("cuts off 50 %", run.stdout)
        wide = self.root / "runs" / "wide"
        self.assertIn("resized to 3x16x32", neurim("export", wide).stdout)
        self.assertIn(b"[16, 32]", (wide / "export" / "best.onnx").read_bytes())
        self.assertIn("input 3x32x16", neurim("val", wide, "imgsz=32x16", f"project={self.root}/runs").stdout)
        self.assertEqual(neurim("predict", f"model={wide}", f"source={self.root}/data/val", "imgsz=24x40").returncode, 0)
        self.assertEqual(neurim("benchmark", "resnet20", "imgsz=16x32", "seconds=0.02", "rounds=1").returncode, 0)
        data = neurim("benchmark", "mode=data", f"data={self.root}/data", "imgsz=16x32", "batch=8", "seconds=0.02", "rounds=1", "--json")
        self.assertEqual(json.loads(data.stdout.splitlines()[-1])["imgsz"], [16, 32], data)
        self.assertIn("height x width", neurim("train", *words, "imgsz=16x").stderr)

    def test_many_channels(self):
        data = self.root / "bands"
        for i in range(24):
            npy_picture(data / ("low", "high")[i % 2] / f"{i}.npy", 30, 34, 6, (20, 220)[i % 2] + i)
        words = ["model=resnet20", "batch=8", "epochs=1", "imgsz=32", f"project={self.root}/runs"]
        run = neurim("train", f"data={data}", *words, "name=bands")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("input 6x32x32", run.stdout)
        pack = self.root / "bands.pack"
        neurim("data", "pack", data, f"out={pack}")
        self.assertEqual(neurim("val", self.root / "runs" / "bands", f"data={pack}", "split=train", f"project={self.root}/runs").returncode, 0)
        named = neurim("predict", f"model={self.root}/runs/bands", f"source={data}")
        self.assertEqual((named.returncode, len(named.stdout.splitlines())), (0, 24), named)
        self.assertEqual(neurim("export", self.root / "runs" / "bands").returncode, 0)
        self.assertEqual(neurim("data", "preview", data, "in_chans=6", "imgsz=32", "augment=hflip", f"out={self.root}/bands.jpg").returncode, 0)
        wrong = neurim("train", f"data={data}", *words, "channels=rgb", "name=three")
        self.assertEqual(wrong.returncode, 3)
        self.assertIn("the images have 6 channels and the model takes 3", wrong.stderr)
        self.assertIn("give in_chans=6", wrong.stderr)
        self.assertIn("takes images of 1, 3 or 4 channels", neurim("train", f"data={data}", *words, "changes=trivial", "name=no").stderr)
        self.assertIn("gray, la, rgb or rgba", neurim("train", f"data={data}", *words, "channels=rbg").stderr)
        clear = neurim("train", f"data={self.root}/data", *words, "channels=rgba", "name=clear")
        self.assertIn("input 4x32x32", clear.stdout, clear)
        self.assertEqual(neurim("train", f"data={self.root}/data", *words, "alpha_bg=300").returncode, 2)

    def test_predict(self):
        run = neurim("predict", f"model={self.folder}", f"source={self.root}/data/val", "topk=2", f"save_csv={self.root}/out.csv", "--json")
        self.assertEqual(run.returncode, 0, run.stderr)
        lines = [json.loads(line) for line in run.stdout.splitlines()]
        self.assertEqual(lines[-1]["pictures"], 15)
        self.assertEqual([len(line["predictions"]) for line in lines[:-1]], [2] * 15)
        self.assertEqual(len((self.root / "out.csv").read_text().splitlines()), 31)
        beside = neurim("predict", f"model={self.folder}", f"source={self.root}/data/val", "save_csv=/dev/stdout", "--quiet")
        self.assertEqual((beside.returncode, len(beside.stdout.splitlines())), (0, 16), beside)
        with open(self.root / "all.txt", "w") as file:
            subprocess.run([NEURIM, "predict", f"model={self.folder}", f"source={self.root}/data/val", "save_csv=/dev/stdout"], stdout=file,
                           timeout=120, check=True)
        self.assertEqual(len((self.root / "all.txt").read_text().splitlines()), 15 + 16)

    def test_reject(self):
        card = json.loads((self.folder / "weights" / "model.json").read_text())["neurim"]
        threshold = card["reject_threshold"]
        run = neurim("val", self.folder, "reject=auto", "--json", f"project={self.root}/runs")
        self.assertEqual(run.returncode, 0, run.stderr)
        reject, summary = map(json.loads, run.stdout.splitlines())
        self.assertEqual((reject["event"], reject["threshold"]), ("reject", threshold))
        right = round(summary["top1"] * 15)
        self.assertGreaterEqual(round(reject["accuracy"] * reject["coverage"] * 15), 0.95 * right)
        self.assertLess(round(reject["accuracy"] * reject["coverage"] * 15, 6), right + 0.5)

        def events(*words):
            run = neurim("predict", f"model={self.folder}", f"source={self.root}/data/val", "topk=2", *words, "--json")
            self.assertEqual(run.returncode, 0, run.stderr)
            return [json.loads(line) for line in run.stdout.splitlines()[:-1]]

        plain = events()
        self.assertNotIn("label", plain[0])
        middle = statistics.median(event["predictions"][0]["prob"] for event in plain)
        for words, value in (([f"reject={middle}"], middle), (["reject=auto"], threshold), (["reject_threshold=1"], 1)):
            for event, other in zip(events(*words), plain):
                best = other["predictions"][0]
                self.assertEqual(event["predictions"], other["predictions"])
                self.assertEqual(event["label"], best["label"] if best["prob"] >= value else "unknown")
                self.assertEqual(event["rejected"], best["prob"] < value)
        one = f"{self.root}/data/val/dark/1.png"
        out = self.root / "rejected.csv"
        run = neurim("predict", one, f"model={self.folder}", "topk=3", "reject=1", f"save_csv={out}")
        self.assertRegex(run.stdout, r"1\.png  unknown \(\w+ [\d.]+ %, \w+ [\d.]+ %, \w+ [\d.]+ %\)\n")
        self.assertRegex(out.read_text(), r"^path,rank,class,probability,rejected\n[^\n]*1\.png,1,unknown,0\.\d+,true\n$")
        for words, said in ((["reject=2"], "[0, 1]"), (["reject=maybe"], "auto")):
            wrong = neurim("predict", one, f"model={self.folder}", *words)
            self.assertEqual((wrong.returncode, len(wrong.stderr.splitlines())), (2, 1), wrong)
            self.assertIn(said, wrong.stderr)
        run = neurim("export", self.folder, f"output={self.root}/reject.onnx")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn(f"reject_threshold\x12{chr(len(str(threshold)))}{threshold}".encode(), (self.root / "reject.onnx").read_bytes())
        alone = neurim(*instead(self.words, f"data={self.root}/data/train", "epochs=1"), "name=alone", "val_split=0", "plots=false")
        self.assertEqual(alone.returncode, 0, alone.stderr)
        wrong = neurim("predict", one, f"model={self.root}/runs/alone", "reject=auto")
        self.assertIn("has no reject threshold", wrong.stderr)

    def test_predict_takes_patterns_and_many_words(self):
        run = neurim("predict", f"{self.root}/data/val/*/1.png", f"model={self.folder}")
        self.assertEqual((run.returncode, len(run.stdout.splitlines())), (0, 3), run)
        images = [self.root / "data" / "val" / name / "2.png" for name in ("dark", "bright")]
        run = neurim("predict", *images, f"model={self.folder / 'weights'}")
        self.assertEqual([line.split("  ")[0] for line in run.stdout.splitlines()], [str(p) for p in images], run)
        run = neurim("predict", f"{self.root}/data/val/*/none.png", f"model={self.folder}")
        self.assertEqual((run.returncode, run.stdout), (3, ""), run)

    def test_answers_that_are_no_numbers_are_none(self):
        weights = self.root / "nan" / "nan.safetensors"
        weights.parent.mkdir()
        content = without_checksums((self.folder / "weights" / "best.safetensors").read_bytes())
        weights.write_bytes(content[:-12 - 4 * 252] + struct.pack("<f", 3e38) * 252 + content[-12:])  # of the last layer, before its biases
        image = self.root / "data" / "val" / "dark" / "2.png"
        run = neurim("predict", f"model={weights}", f"source={image}")
        self.assertEqual((run.returncode, len(run.stderr.splitlines())), (3, 1), run)
        self.assertRegex(run.stdout, r"^note: .*nan\.safetensors: has no checksum, .*\n$")
        self.assertIn(f"{image}: the model gives NaN for it", run.stderr)

    def test_names_that_are_not_utf8(self):
        coffee, tea = (os.fsdecode(name) for name in (b"caf\xe9", b"th\xe9"))
        folder = self.root / coffee
        png(folder / f"{tea}.png", 28, 28, 10)
        for words, key in ((["data", "scan", folder], "file"), (["predict", f"model={self.folder}", folder], "path")):
            run = neurim(*words, "--json", errors="surrogateescape")
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertTrue(json.loads(run.stdout.splitlines()[0])[key].endswith("th\ufffd.png"), run.stdout)
        classes = self.root / "drinks"
        for name, level in ((coffee, 10), (tea, 200)):
            for i in range(4):
                png(classes / name / f"{i}.png", 28, 28, level + i)
        run = neurim(*instead(self.words, f"data={classes}", "epochs=1"), "name=drinks", errors="surrogateescape")
        self.assertEqual((run.returncode, len(run.stderr.splitlines())), (3, 1), run)
        self.assertIn('"caf\\xE9" is no UTF-8', run.stderr)
        self.assertFalse((self.root / "runs" / "drinks").exists())

    def test_names_of_files_steer_no_terminal(self):
        data = self.root / "steering"
        for i in range(8):
            png(data / "ab"[i % 2] / f"{i}.png", 28, 28, 30 * i)
        (data / "a" / "x\n\x1b[31m\x9b.png").write_bytes(b"x")
        run = neurim("train", f"data={data}", "model=lenet5", "batch=4", "epochs=1", "max_bad=1", "val_split=0", "plots=false",
                     f"project={self.root}/runs", "name=steering")
        self.assertEqual(run.returncode, 0, run)
        for said in (run.stdout, (self.root / "runs" / "steering" / "log.txt").read_text()):
            self.assertIn(f"skipped: {data}/a/x  [31m  .png: ", said)
            self.assertEqual(set(said) & set("\x1b\x9b"), set())

    def test_run_on_arrays(self):
        inputs = self.root / "in"
        inputs.mkdir(exist_ok=True)
        npy(inputs / "input_0.npy", "(2, 1, 28, 28)", [i % 5 / 5 for i in range(2 * 784)])
        run = neurim("run", f"model={self.folder}", f"inputs={inputs}", f"outputs={self.root}/out")
        self.assertEqual(run.returncode, 0, run.stderr)
        out = (self.root / "out" / "output_0.npy").read_bytes()
        self.assertIn(b"'shape': (2,3,)", out)
        npy(inputs / "input_0.npy", "(2, 3, 28, 28)", [0] * (6 * 784))
        wrong = neurim("run", f"model={self.folder}", f"inputs={inputs}", f"outputs={self.root}/out")
        self.assertEqual(wrong.returncode, 2, wrong)
        self.assertIn("c1", wrong.stderr)
        self.assertEqual(len(wrong.stderr.splitlines()), 1)

    def test_precision(self):
        inputs = self.root / "pixels"
        inputs.mkdir(exist_ok=True)
        npy(inputs / "input_0.npy", "(2, 3, 32, 32)", [i * 7 % 19 / 19 for i in range(2 * 3072)])

        def logits(*words):
            run = neurim("run", "model=resnet20", f"inputs={inputs}", f"outputs={self.root}/logits", *words)
            self.assertEqual(run.returncode, 0, run.stderr)
            file = (self.root / "logits" / "output_0.npy").read_bytes()
            return struct.unpack("<20f", file[10 + int.from_bytes(file[8:10], "little"):])

        exact = logits()
        for kind, most in (("bf16", 0.03), ("fp16", 0.004)):
            furthest = max(abs(a - b) for a, b in zip(exact, logits(f"precision={kind}")))
            self.assertGreater(furthest, 0)
            self.assertLess(furthest, most * max(map(abs, exact)))
        evaluated = [neurim("val", self.folder, f"project={self.root}/runs", f"precision={kind}", "--json") for kind in ("f32", "bf16", "fp16")]
        for run in evaluated:
            self.assertEqual(run.returncode, 0, run.stderr)
        words = [*instead(self.words, "model=resnet20", "epochs=2"), "imgsz=32", "amp=fp16", "name=scaled", "plots=false", "--json"]
        run = neurim(*words)
        self.assertEqual(run.returncode, 0, run.stderr)
        last = [json.loads(line) for line in run.stdout.splitlines()][2]
        self.assertEqual((last["event"], last["epoch"]), ("epoch", 2), run.stdout)
        self.assertEqual(last["loss_scale"], 65536 / 2 ** last["skipped_steps"])
        chosen = neurim("run", "model=resnet20", f"inputs={inputs}", f"outputs={self.root}/logits", "precision=auto")
        self.assertEqual(chosen.returncode, 0, chosen.stderr)
        self.assertRegex(chosen.stdout, "^precision: (f32|bf16|fp16), of which this machine multiplies the most\n")
        run = neurim(*instead(self.words, "epochs=1"), "amp=auto", "name=chosen", "plots=false")
        self.assertEqual(run.returncode, 0, run.stderr)
        kind = re.search(r"^  precision +(f32|bf16|fp16), of which", run.stdout, re.MULTILINE)
        self.assertTrue(kind, run.stdout)
        self.assertIn(f"precision: {kind[1]}\n", (self.root / "runs" / "chosen" / "args.yaml").read_text())
        for words, part in ((["val", self.folder, "precision=fp8"], "precision: there is no 'fp8'; known are f32, bf16, fp16, auto"),
                            (["val", self.folder, "precision=bf16", "crops=5", f"project={self.root}/runs"], "leave out precision"),
                            (["benchmark", "mode=data", f"data={self.root}", "precision=bf16"], "precision: is not for mode=data"),
                            (["info", "lenet5", "precision=bf16"], "precision: is of a plan; write --plan precision=bf16"),
                            ([*self.words, "amp=true", "name=never"], "precision: there is no 'true'; known are f32, bf16, fp16, auto"),
                            (["benchmark", "lenet5", "deterministic=true"], "deterministic: is for mode=train")):
            run = neurim(*words)
            self.assertEqual((run.returncode, len(run.stderr.splitlines())), (2, 1), run)
            self.assertIn(part, run.stderr)

    def test_kernels_are_measured_once(self):
        known = self.root / "known" / "tuning.json"
        for words, code, part in ((["benchmark", "lenet5", "tuning=locked", f"tuning_file={known}"], 3, "measure with tuning=on"),
                                  (["benchmark", "lenet5", "tuning=fast"], 2, "tuning: there is no 'fast'; known are off, locked, on"),
                                  (["benchmark", "lenet5", f"tuning_file={known}"], 2, "tuning_file: is for tuning=on and tuning=locked"),
                                  (["benchmark", "mode=data", f"data={self.root}", "tuning=on"], 2, "tuning: is not for mode=data"),
                                  (["info", "lenet5", "tuning=on"], 2, "tuning: is of a plan; write --plan tuning=on"),
                                  ([*self.words, "tuning=locked", f"tuning_file={known}", "name=never"], 3, "measure with tuning=on")):
            run = neurim(*words)
            self.assertEqual((run.returncode, len(run.stderr.splitlines())), (code, 1), run)
            self.assertIn(part, run.stderr)
        dry = neurim("benchmark", "lenet5", "tuning=on", f"tuning_file={known}", "--dry-run")
        self.assertEqual(dry.returncode, 0, dry.stderr)
        self.assertFalse(known.exists())
        self.assertFalse((self.root / "runs" / "never").exists())
        words = ["info", "lenet5", "--plan", "mode=train", "batch=4", f"tuning_file={known}"]
        self.assertEqual(neurim(*words, "tuning=on").returncode, 0)
        measured = known.read_bytes()
        for mode in ("on", "locked"):
            self.assertEqual(neurim(*words, f"tuning={mode}").returncode, 0)
            self.assertEqual(known.read_bytes(), measured, mode)
        known.write_text("{}")
        broken = neurim(*words, "tuning=on")
        self.assertEqual((broken.returncode, len(broken.stderr.splitlines())), (3, 1), broken)
        self.assertIn(f"{known}: is no file of kernels that were measured", broken.stderr)

    def test_pictures_and_batches_that_cannot_be_trained_on_show_before_the_run(self):
        for more in ([], ["--dry-run"]):
            run = neurim(*self.words, "in_chans=5", "name=never", *more)
            self.assertEqual((run.returncode, len(run.stderr.splitlines())), (3, 1), run)
            self.assertIn("the images have 1 channel and the model takes 5", run.stderr)
            run = neurim(*instead(self.words, "model=resnet18", "batch=1"), "imgsz=32", "name=never", *more)
            self.assertEqual(run.returncode, 2, run)
            self.assertRegex(run.stderr, r"layer\d\.\d\.bn\d: batch_norm: .* one value per channel")
        self.assertFalse((self.root / "runs" / "never").exists())

    def test_a_picture_that_cannot_be_read_is_named_and_skipped(self):
        data = self.root / "spoilt"
        for name, level in (("a", 10), ("b", 200)):
            for i in range(8):
                png(data / name / f"{i}.png", 28, 28, level + i)
        (data / "a" / "broken.png").write_bytes((data / "a" / "0.png").read_bytes()[:60])
        words = ["train", f"data={data}", "model=lenet5", "batch=4", "epochs=1", f"project={self.root}/runs", "name=spoilt"]
        run = neurim(*words, "max_bad=1")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("broken.png", run.stdout)
        run = neurim(*words, "max_bad=0")
        self.assertEqual(run.returncode, 3, run)
        self.assertIn("broken.png", run.stderr)
        evaluate = ["val", self.root / "runs" / "spoilt", "split=train", f"project={self.root}/runs"]
        run = neurim(*evaluate, "max_bad=0")
        self.assertEqual(run.returncode, 3, run)
        self.assertIn("raise max_bad", run.stderr)
        run = neurim(*evaluate)
        self.assertEqual(run.returncode, 0, run)
        self.assertIn("broken.png", run.stdout)
        for i in range(8):
            (data / "a" / f"x{i}.png").write_bytes(b"x")
        run = neurim(*words, "max_bad=9", "val_split=0")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stdout.count("skipped: "), 9, run.stdout)
        self.assertIn("9 of 25 train images cannot be read", run.stdout)
        for image in data.rglob("*.png"):
            image.write_bytes(b"x")
        run = neurim(*words, "max_bad=100", "val_split=0")
        self.assertEqual(run.returncode, 3, run)
        self.assertIn("the train split has no sample that can be decoded, of 25: ", run.stderr)
        self.assertIn(" | and 20 more; repair", run.stderr)
        self.assertNotIn("max_bad", run.stderr)

    def test_pictures_that_lie_on_their_side(self):
        for i in range(8):
            for name, level in (("a", 10), ("b", 200)):
                png(self.root / "turned" / name / f"{i}.png", 28, 28, level + i, orientation=6 if i % 2 else 1)
        words = ["train", f"data={self.root}/turned", "model=lenet5", "epochs=1", "val_split=0", f"project={self.root}/runs",
                 "plots=false", "augment=false"]
        upright = neurim(*words, "name=upright")
        self.assertIn("EXIF says to turn 8 training images", upright.stdout)
        left = neurim(*words, "name=left", "exif=false")
        self.assertEqual(left.returncode, 0, left.stderr)
        self.assertNotIn("EXIF", left.stdout)
        weights = [tensors(self.root / "runs" / name / "weights" / "last.safetensors") for name in ("upright", "left")]
        self.assertNotEqual(*weights)
        # What is left lying in training is left lying afterwards.
        for i, orientation in enumerate((1, 6)):
            png(self.root / "same" / f"{i}.png", 28, 28, 90, orientation)
        for name, same in (("upright", False), ("left", True)):
            run = neurim("predict", self.root / "same", f"model={self.root}/runs/{name}", "topk=2", "--json")
            answers = [json.loads(line)["predictions"] for line in run.stdout.splitlines()[:2]]
            self.assertEqual(answers[0] == answers[1], same, run)

    def test_a_plug_in_that_is_missing_ends_with_2(self):
        none = {**os.environ, "NEURIM_DALI_PLUGIN": f"{self.root}/none.so"}
        run = neurim("train", f"data={self.root}/data", "model=lenet5", "loader=dali", f"project={self.root}/runs", "name=dali", env=none)
        self.assertEqual(run.returncode, 2, run)
        self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)
        self.assertIn("scripts/dali", run.stderr)
        self.assertFalse((self.root / "runs" / "dali").exists())

    def test_a_rate_that_is_too_high_is_rounded(self):
        run = neurim(*self.words, "lr=1e25", "opt=sgd", "name=high")
        self.assertEqual(run.returncode, 1, run)
        self.assertIn("try lr=1e+24; ", run.stderr)

    def test_demo(self):
        run = neurim("demo", "epochs=1", "train_images=8", "val_images=3", f"project={self.root}/demo")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertTrue((self.root / "demo" / "demo" / "export" / "best.onnx").is_file())
        self.assertTrue((self.root / "demo" / "demo" / "confusion_matrix.png").is_file())
        self.assertTrue(run.stdout.splitlines()[-1].strip().startswith("neurim train"))
        self.assertEqual({path.name for path in (self.root / "demo").iterdir()}, {"demo", "digits-42-8-3.pack"})
        pack = self.root / "demo" / "digits-42-8-3.pack"
        self.assertIn(f"Drawing 110 digits into {pack}\n", run.stdout)
        before = pack.stat()
        again = neurim("demo", "epochs=1", "train_images=8", "val_images=3", f"project={self.root}/demo")
        self.assertEqual((again.returncode, pack.stat().st_mtime_ns, "Drawing" in again.stdout), (0, before.st_mtime_ns, False), again)
        self.assertEqual(neurim("resume", self.root / "demo" / "demo", "epochs=2").returncode, 0)


if __name__ == "__main__":
    unittest.main()
