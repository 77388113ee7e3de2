"""The command from outside: grammar, exit codes, JSON lines, stopping and resuming."""
import json
import os
import pickle
import random
import re
import shutil
import signal
import statistics
import struct
import subprocess
import tempfile
import time
import unittest
import zlib
from pathlib import Path

from command import DATA_TASKS, NEURIM, ROOT, VERBS, TrainedRun, best_row, in_terminal, instead, neurim, npy, npy_picture, on_a_full_disk, png, tensors


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
            self.assertGreaterEqual(run.stdout.count(f"\n  neurim {verb}"), 2 if verb == "version" else 3, run.stdout)

    def test_help_names_the_exit_codes(self):
        for code in ("2 wrong options", "3 bad data", "130 after Ctrl-C", "75 after SIGTERM"):
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
                self.assertIn("is an ONNX file", self.refused(*words, code=3))

    def test_a_failed_export_removes_what_it_made_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            mine = Path(folder, "mine")
            mine.mkdir()
            for output in ("mine/x.onnx", "mine/a/b/x.onnx"):
                said = self.refused("export", "model=lenet5", f"output={folder}/{output}", "imgsz=3")
                self.assertIn("c2: conv2d", said)
                self.assertIn("lenet5 is made for one size of pictures: give imgsz=28", said)
                self.assertEqual((mine.is_dir(), list(mine.iterdir())), (True, []))
            (mine / "target.onnx").touch()
            (mine / "link.onnx").symlink_to("target.onnx")
            run = neurim("export", "model=lenet5", f"output={mine}/link.onnx")
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertTrue((mine / "link.onnx").is_symlink())
            self.assertGreater((mine / "target.onnx").stat().st_size, 100_000)

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
        self.assertIn("--name needs a value", self.refused("train", "data=none", "--name", "--json"))
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
        self.assertIn("model is given twice: runA and runB", self.refused("val", "runA", "model=runB"))
        self.assertIn("epochs: 7\n", neurim("train", "epochs=7", "--epochs=7", "--print-config").stdout)
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder, "config.yaml")
            config.write_text("batch: 8\nepochs: 3\n")
            self.assertIn("epochs: 4\n", neurim("train", "epochs=4", "--config", config, "--print-config").stdout)
            for lines, said in (("batch: 8\nb: 9\n", "line 2: batch is given twice: 8 and 9"), ("epochs\n", "line 1: expected 'name: value'"),
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
        self.assertEqual([line["event"] for line in lines], ["epoch", "epoch", "summary"])
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
        trained, judged = (json.loads(text.splitlines()[-1]) for text in (self.result.stdout, run.stdout))
        for key in ("top1", "top5", "loss", "f1_macro", "samples"):
            self.assertEqual(trained[key], judged[key], key)
        self.assertTrue(Path(judged["run"], "confusion_matrix.png").is_file())

    def test_crops_and_other_inputs(self):
        run = neurim("val", self.folder, "--json", "crops=10", "crop_pct=0.8", "interpolation=bicubic", f"project={self.root}/runs")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(json.loads(run.stdout.splitlines()[-1])["samples"], 15)
        # Of a crop that keeps everything all parts are the same, and five of them say what one does.
        one, five = (json.loads(neurim("val", self.folder, "--json", f"crops={n}", f"project={self.root}/runs").stdout.splitlines()[-1])
                     for n in (1, 5))
        self.assertEqual([one[key] for key in ("top1", "f1_macro")], [five[key] for key in ("top1", "f1_macro")])
        self.assertAlmostEqual(one["loss"], five["loss"], 4)
        self.assertIn("crops is 7", neurim("val", self.folder, "crops=7", f"project={self.root}/runs").stderr)
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
        self.assertIn("input 3x16x32", neurim("export", wide).stdout)
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
        self.assertIn("the pictures have 6 channels and the model takes 3", wrong.stderr)
        self.assertIn("give in_chans=6", wrong.stderr)
        self.assertIn("takes pictures of 1, 3 or 4 channels", neurim("train", f"data={data}", *words, "changes=trivial", "name=no").stderr)
        self.assertIn("gray, la, rgb or rgba", neurim("train", f"data={data}", *words, "channels=rbg").stderr)
        clear = neurim("train", f"data={self.root}/data", *words, "channels=rgba", "name=clear")
        self.assertIn("input 4x32x32", clear.stdout, clear)
        self.assertEqual(neurim("train", f"data={self.root}/data", *words, "alpha_bg=300").returncode, 2)

    def test_sixteen_bits(self):
        """Two classes that differ by a quarter of a level of 8 bits."""
        data = self.root / "deep"
        for i in range(64):
            rows = b"".join(b"\0" + struct.pack(">28H", *(30000 + (64 if i % 2 and 8 < x < 20 else 0) + (x * y + i) % 3 for x in range(28))) for y in range(28))
            def chunk(kind, content):
                return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
            path = data / ("plain", "marked")[i % 2] / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 28, 28, 16, 0, 0, 0, 0))
                             + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
        words = ["train", f"data={data}", "model=lenet5", "batch=8", "epochs=12", "val_split=0.25", "mean=0.458", "std=0.0005", "plots=false",
                 f"project={self.root}/runs", "--json"]
        found = {}
        for bits in ("auto", "8"):
            run = neurim(*words, f"bits={bits}", f"name=deep{bits}")
            self.assertEqual(run.returncode, 0, run.stderr)
            found[bits] = json.loads(run.stdout.splitlines()[-1])["top1"]
        self.assertEqual(found["auto"], 1)
        self.assertLess(found["8"], 0.8)
        self.assertIn("bits: 16\n", (self.root / "runs" / "deepauto" / "args.yaml").read_text())
        self.assertEqual(neurim("predict", f"model={self.root}/runs/deepauto", f"source={data}").returncode, 0)
        self.assertIn("bits=8", neurim(*words, "bits=16", "changes=trivial", "name=no").stderr)
        self.assertEqual(neurim(*words, "bits=12").returncode, 2)

    def test_model_file(self):
        """A run of a network that a file describes needs the run folder alone."""
        file = self.root / "mine" / "net.toml"
        file.parent.mkdir(exist_ok=True)
        text = """# mine
args = { width = 8 }
layers = [
  { layer = "Conv2d", out = "$width", stride = 2, name = "stem" },
  { layer = "ReLU" },
  { layer = "Flatten" },
  { layer = "Linear", out = "$classes" },
]
"""
        file.write_text(text)
        run = neurim("train", f"data={self.root}/data", f"model={file}", "in_chans=1", "imgsz=20x24", "batch=16", "epochs=2",
                     f"project={self.root}/runs", "name=mine")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("net  ", run.stdout)
        self.assertIn("input 1x20x24", run.stdout)
        mine = self.root / "runs" / "mine"
        whole = tensors(mine / "weights" / "last.safetensors")
        self.assertEqual((mine / "model.toml").read_text(), text)
        shutil.rmtree(file.parent)
        for words in (["val", mine], ["predict", f"model={mine}", f"source={self.root}/data/val"], ["export", mine],
                      ["info", mine], ["benchmark", mine, "seconds=0.02", "rounds=1"], ["resume", mine, "epochs=3"]):
            more = [f"project={self.root}/runs"] if words[0] == "val" else []
            done = neurim(*words, *more)
            self.assertEqual(done.returncode, 0, (words, done.stderr))
        self.assertIn(b"stem.weight", (mine / "export" / "best.onnx").read_bytes())
        self.assertNotEqual(tensors(mine / "weights" / "last.safetensors"), whole)
        folder = self.root / "mine_folder"
        folder.mkdir()
        shutil.copy(mine / "weights" / "best.safetensors", folder / "model.safetensors")
        shutil.copy(mine / "weights" / "model.json", folder / "config.json")
        self.assertIn("stem.weight", neurim("info", folder).stdout)
        again = neurim("train", f"data={self.root}/data", f"model={mine}/model.toml", "in_chans=1", "imgsz=20x24", "batch=16", "epochs=2",
                       f"project={self.root}/runs", "name=again")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(tensors(self.root / "runs" / "again" / "weights" / "last.safetensors"), whole)

    def test_model_file_of_pictures_in_memory(self):
        """Size and channels come from arrays where the file does not say them."""
        data = self.root / "arrays"
        data.mkdir()
        pixels = [random.Random(i).randrange(256) for i in range(40 * 12 * 10)]
        for split, name in (("train", "train"), ("val", "t10k")):
            (data / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, 40, 12, 10) + bytes(pixels))
            (data / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, 40) + bytes(i % 4 for i in range(40)))
        file = self.root / "flat.toml"
        file.write_text('layers = [ { layer = "Flatten" }, { layer = "Linear", out = "$classes" } ]')
        run = neurim("train", f"data={data}", f"model={file}", "batch=8", "epochs=1", f"project={self.root}/runs", "name=flat")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("input 1x12x10", run.stdout)
        self.assertIn("484 parameters", run.stdout)  # 120 x 4 and 4

    def test_broken_model_files(self):
        file = self.root / "broken.toml"
        for text, words in (("layers = [", "broken.toml:1: "), ("layers = [ { layer = 'Conv2' } ]", "did you mean 'Conv2d'?"),
                            ("layers = [ { layer = 'Conv2d' } ]", "broken.toml:1: layer 0 (Conv2d): out is missing"),
                            ("layers = [ { layer = 'ReLU' } ]", "{ layer = \"Flatten\" }")):
            file.write_text(text)
            for command in (["info", file], ["train", f"data={self.root}/data", f"model={file}", f"project={self.root}/runs", "name=broken"]):
                run = neurim(*command)
                self.assertEqual((run.returncode, len(run.stderr.splitlines())), (3, 1), run)
                self.assertIn(words, run.stderr)
        self.assertFalse((self.root / "runs" / "broken").exists())
        self.assertEqual(neurim("info", self.root / "none.toml").returncode, 3)

    def test_plugins(self):
        plugin = Path(os.environ["NEURIM_BUILD"], "libsquareplus.so")
        file = ROOT / "examples" / "squareplus.toml"
        without = neurim("info", file)
        self.assertEqual(without.returncode, 3)
        self.assertIn("plugins=FILE", without.stderr)
        words = ["train", f"data={self.root}/data", f"model={file}", f"plugins={plugin}", "batch=16", "epochs=1", f"project={self.root}/runs"]
        run = neurim(*words, "name=plugged")
        self.assertEqual(run.returncode, 0, run.stderr)
        plugged = self.root / "runs" / "plugged"
        self.assertIn("there is no layer 'Squareplus'", neurim("info", plugged).stderr)
        for verb in ("info", "export"):
            done = neurim(verb, plugged, f"plugins={plugin}")
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"Sqrt", (plugged / "export" / "best.onnx").read_bytes())
        self.assertIn("Squareplus", neurim("layers", f"plugins={plugin}").stdout)
        self.assertEqual(neurim("layers", "plugins=none.so").returncode, 2)

    def test_layers(self):
        run = neurim("layers", "conv2*", "--json")
        self.assertEqual(run.returncode, 0, run.stderr)
        layer, summary = map(json.loads, run.stdout.splitlines())
        self.assertEqual((layer["name"], summary["layers"]), ("Conv2d", 1))
        self.assertTrue(layer["options"].startswith("out=0 kernel=[3,3] stride=[1,1] pad=0,0 padding_mode=zeros"), layer)
        self.assertIn("lists all", neurim("layers", "nothing").stderr)

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
        one = f"{self.root}/data/val/dark/1.png"
        out = self.root / "rejected.csv"
        run = neurim("predict", one, f"model={self.folder}", "topk=3", "reject=1", f"save_csv={out}")
        self.assertRegex(run.stdout, r"1\.png  unknown \(\w+ [\d.]+ %, \w+ [\d.]+ %, \w+ [\d.]+ %\)\n")
        self.assertRegex(out.read_text(), r"^path,rank,class,probability\n[^\n]*1\.png,1,unknown,0\.\d+\n$")
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
        pictures = [self.root / "data" / "val" / name / "2.png" for name in ("dark", "bright")]
        run = neurim("predict", *pictures, f"model={self.folder / 'weights'}")
        self.assertEqual([line.split("  ")[0] for line in run.stdout.splitlines()], [str(p) for p in pictures], run)
        run = neurim("predict", f"{self.root}/data/val/*/none.png", f"model={self.folder}")
        self.assertEqual((run.returncode, run.stdout), (3, ""), run)

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

    def test_what_fails_before_the_first_step_leaves_no_run(self):
        run = neurim(*self.words, "imgsz=8", "name=never")
        self.assertEqual(run.returncode, 2, run)
        self.assertIn("c2: conv2d", run.stderr)
        for words in (["val", self.folder], ["predict", f"model={self.folder}", f"source={self.root}/data/val"], ["info", "lenet5"],
                      ["benchmark", "lenet5"]):
            for size in (8, 32):
                wrong = neurim(*words, f"imgsz={size}")
                self.assertEqual((wrong.returncode, "lenet5 is made for one size of pictures: give imgsz=28" in wrong.stderr),
                                 (2, True), wrong)
        small = neurim("info", "alexnet", "imgsz=8")
        self.assertEqual((small.returncode, "imgsz=8 is too small for alexnet, which is made for 224: give a larger one" in small.stderr),
                         (2, True), small)
        self.assertFalse((self.root / "runs" / "never").exists())

    def test_progress_fits_into_the_terminal(self):
        code, shown = in_terminal(50, *self.words, "name=terminal")
        self.assertEqual(code, 0, shown)
        drawn = [line.split("\x1b[K")[0] for line in shown.splitlines() if "%" in line and "\x1b[K" in line]
        self.assertTrue(drawn, shown)
        self.assertLess(max(map(len, drawn)), 50)
        self.assertIn("next: neurim export", shown)

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

    def test_export_info_and_models(self):
        run = neurim("export", self.folder, "--json")
        self.assertEqual(run.returncode, 0, run.stderr)
        summary, path = json.loads(run.stdout.splitlines()[-1]), str(self.folder / "export" / "best.onnx")
        self.assertEqual((summary["path"], summary["files"]), (path, [path]))
        self.assertGreater((self.folder / "export" / "best.onnx").stat().st_size, 100_000)
        info = neurim("info", self.folder).stdout
        self.assertIn("c1.weight", info)
        self.assertRegex(info, r"c2 +conv2d +\(1,16,10,10\) +2,416 +240,000\n")
        plan = neurim("info", "lenet5", "--plan", "mode=train", "batch=2")
        self.assertEqual(plan.returncode, 0, plan.stderr)
        self.assertIn("kernel", plan.stdout)
        with_dropout = neurim("info", "squeezenet1_1", "--plan", "mode=train", "imgsz=32")
        self.assertRegex(with_dropout.stdout, r" dropout ")
        self.assertRegex(neurim("models", "le*").stdout, r"lenet5 +61,706 +416,520 +25 +1x28x28 +10\n")
        layers = [json.loads(line) for line in neurim("info", "resnet18", "--json").stdout.splitlines()]
        self.assertEqual(sum(layer.get("multiply_adds", 0) for layer in layers), 1_814_073_344)
        self.assertEqual(neurim("models", "x*").returncode, 2)

    def test_roofline(self):
        layers = [json.loads(line) for line in neurim("info", "resnet18", "imgsz=32", "--json").stdout.splitlines()]
        layers = [layer for layer in layers if layer["event"] == "layer"]
        forward = sum(layer["multiply_adds"] for layer in layers)
        for mode, expected in (("infer", 2 * forward), ("train", 2 * (3 * forward - layers[0]["multiply_adds"]))):
            run = neurim("info", "resnet18", "--plan", "--roofline", f"mode={mode}", "imgsz=32", "batch=2", "threads=2", "--json")
            self.assertEqual(run.returncode, 0, run.stderr)
            rows = [json.loads(line) for line in run.stdout.splitlines()]
            peaks, = (row for row in rows if row["event"] == "peaks")
            self.assertEqual(peaks["threads"], 2)
            rates = {level["name"]: level["read_bytes_per_second"] for level in peaks["memory"]}
            tasks = [row for row in rows if row["event"] == "task"]
            for task in tasks:
                least = (2 * task["multiply_adds"] / peaks["fp32_operations_per_second"] if task["bound"] == "fp32"
                         else task["bytes"] / rates[task["bound"]])
                self.assertAlmostEqual(task["roof_ms"], 1e3 * least, delta=1e-6 * task["roof_ms"], msg=task)
                self.assertAlmostEqual(task["share"], task["roof_ms"] / task["ms"], delta=1e-6 * task["share"], msg=task)
                self.assertEqual(task["kind"] == "memory-bound", task["bound"] != "fp32", task)
            self.assertEqual(sum(task["multiply_adds"] for task in tasks), expected)
            self.assertIn([2, 64, 8, 8], [shape for task in tasks for shape in task["in"]])
            kinds = {row["kind"]: row for row in rows if row["event"] == "kind"}
            self.assertEqual(set(kinds), {task["kind"] for task in tasks} | {"all"})
            for name, kind in kinds.items():
                own = [task for task in tasks if name in ("all", task["kind"])]
                self.assertEqual(kind["tasks"], len(own))
                self.assertEqual(kind["multiply_adds"], sum(task["multiply_adds"] for task in own))
                self.assertAlmostEqual(kind["ms"], sum(task["ms"] for task in own), delta=1e-6 * kind["ms"])
            self.assertRegex(run.stderr, r"(?m)^  2 threads at once: fp32 \d+ GFLOP/s, .*DRAM \d+\.\d GB/s$")
            self.assertRegex(run.stderr, r"(?m)^  all +%d " % len(tasks))
        alone = neurim("info", "resnet18", "--roofline")
        self.assertEqual((alone.returncode, alone.stdout), (2, ""))
        self.assertIn("--plan --roofline", alone.stderr)

    def test_doctor(self):
        told = json.loads(neurim("doctor", "--json").stdout)
        self.assertNotIn("peaks", told)
        run = neurim("doctor", "--bench", "--json")
        self.assertEqual(run.returncode, 0, run.stderr)
        measured = json.loads(run.stdout)
        self.assertEqual(told["caches"], measured["caches"])
        self.assertEqual([peaks["threads"] for peaks in measured["peaks"]],
                         [1, measured["threads"]] if measured["threads"] > 1 else [1])
        for peaks in measured["peaks"]:
            rates = {one["name"]: one["operations_per_second"] for one in peaks["arithmetic"]}
            self.assertGreater(rates["fp32"], 1e8)
            self.assertEqual(peaks["memory"][-1]["name"], "DRAM")
            for level, cache in zip(peaks["memory"], measured["caches"]):
                self.assertEqual(level["name"], f"L{cache['level']}")
                copies = -(-peaks["threads"] // min(peaks["threads"], cache["cpus"]))
                self.assertEqual(level["capacity_bytes"], copies * cache["bytes"])
                self.assertGreater(level["read_bytes_per_second"], 1e7)
        self.assertGreater(measured["page_fault_seconds"], 0)

    def test_folders_with_a_config(self):
        folder = self.root / "published"
        folder.mkdir()
        shutil.copy(self.folder / "weights" / "best.safetensors", folder / "model.safetensors")
        card = json.loads((self.folder / "weights" / "model.json").read_text())
        (folder / "config.json").write_text(json.dumps(card))
        self.assertEqual(neurim("info", folder).stdout, neurim("info", self.folder).stdout)
        figures = [json.loads(neurim("val", model, f"data={self.root}/data", "--json", cwd=self.root).stdout.splitlines()[-1])
                   for model in (folder, self.folder)]
        self.assertEqual(figures[0]["top1"], figures[1]["top1"])
        picture = self.root / "data" / "val" / "dark" / "0.png"
        run = neurim("predict", f"model={folder}", picture)
        self.assertEqual((run.returncode, run.stdout), (0, neurim("predict", f"model={self.folder}", picture).stdout), run.stderr)
        self.assertEqual(neurim("export", folder).returncode, 0)
        self.assertTrue((folder / "model.onnx").exists())

        del card["label_names"]
        (folder / "config.json").write_text(json.dumps(card))
        run = neurim("val", folder, f"data={self.root}/data", cwd=self.root)
        self.assertEqual(run.returncode, 3)
        self.assertIn("[0, 1, 2]", run.stderr)
        run = neurim("val", folder, f"data={self.root}/data", "classes=bright,dark,middle", "--json", cwd=self.root)
        self.assertEqual(json.loads(run.stdout.splitlines()[-1])["top1"], figures[1]["top1"])
        run = neurim("val", folder, f"data={self.root}/data", "classes=bright,dark", cwd=self.root)
        self.assertEqual((run.returncode, "classes names 2 classes, the model has 3" in run.stderr), (2, True), run.stderr)

        card["num_classes"], card["label_names"] = 2, ["a", "b"]
        (folder / "config.json").write_text(json.dumps(card))
        run = neurim("info", folder)
        self.assertEqual(run.returncode, 3)
        for part in ("model.safetensors", "f3.weight", "(2,84) here"):
            self.assertIn(part, run.stderr)

    def test_pickles_are_not_run(self):
        owned = self.root / "owned"
        class Trap:
            def __reduce__(self):
                return os.system, (f"touch {owned}",)
        header = bytes.fromhex("80028a0a6cfc9c46f9206aa850192e80024de9032e")
        machine = pickle.dumps({"little_endian": True}, protocol=2)
        path = self.root / "trap.pth"
        path.write_bytes(header + machine + pickle.dumps({"state_dict": Trap()}, protocol=2))
        run = neurim("info", path)
        self.assertEqual(run.returncode, 3)
        self.assertIn("posix.system", run.stderr)
        self.assertEqual(run.stderr.count("\n"), 1)
        self.assertFalse(owned.exists())

    def test_models_page(self):
        """docs/models.md has a row for every model, with its figures and a measured difference."""
        page = (ROOT / "docs" / "models.md").read_text()
        rows = {row[0]: row[1:] for row in re.findall(
            r"^\| `(\S+)`" + 5 * r" \| (\S+)" + r"(?: \(PyTorch's (\S+)\))? \|$", page, re.MULTILINE)}
        models = [json.loads(line) for line in neurim("models", "--json").stdout.splitlines()]
        models = {model["name"]: model for model in models if model["event"] == "model"}
        self.assertEqual(set(rows), set(models))
        for name, (parameters, multiply_adds, _, image, difference, own) in rows.items():
            model, size = models[name], models[name]["imgsz"]
            self.assertEqual(parameters, f"{model['parameters']:,}")
            self.assertEqual(multiply_adds, f"{model['multiply_adds'] / 1e6:,.1f}")
            self.assertEqual(image, f"{model['in_chans']}x{size}x{size}")
            self.assertLessEqual(float(difference), max(1e-4, 3.5 * float(own or 0)))

    def test_benchmark(self):
        run = neurim("benchmark", "lenet5", "mode=train", "batch=4", "seconds=0.05", "rounds=2", "--json")
        self.assertEqual(run.returncode, 0, run.stderr)
        summary = json.loads(run.stdout.splitlines()[-1])
        self.assertEqual(len(summary["samples"]), 2)
        self.assertAlmostEqual(summary["images_per_second"], statistics.median(summary["samples"]))
        self.assertEqual(set(summary["latency_ms"]), {"p50", "p90", "p99"})
        for key in ("peak_rss_mib", "threads", "precision"):
            self.assertIn(key, summary)

    def test_benchmark_serves(self):
        run = neurim("benchmark", "lenet5", "batch=2", "serve=true", input="go bs2 0.02\ngo bs2 0.01\nquit\n")
        self.assertEqual(run.returncode, 0, run.stderr)
        hello, first, second, last = map(json.loads, run.stdout.splitlines())
        self.assertEqual((hello["ready"], hello["keys"]), (1, {"bs2": 2}))
        self.assertTrue(first["times"] and second["times"])
        self.assertGreater(last["peak_rss_mib"], 1)

    def stopped(self, number, name):
        """A run of many epochs that gets a signal after its first; then resumed to the end."""
        words = [*instead(self.words, "epochs=12"), f"name={name}", "--json"]
        with subprocess.Popen([NEURIM, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            process.stdout.readline()
            process.send_signal(number)
            rest = process.communicate(timeout=60)[0]
        return process.returncode, rest

    def test_ctrl_c_is_answered_at_once_and_a_second_one_quits(self):
        words = [*instead(self.words, "model=resnet18", "batch=42", "epochs=9"), "imgsz=224", "train_imgsz=224", "name=twice", "plots=false"]
        with subprocess.Popen([NEURIM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            for _ in range(600):
                if (self.root / "runs" / "twice" / "weights" / "last.opt.safetensors").exists():
                    break
                time.sleep(0.1)
            time.sleep(0.1)
            process.send_signal(signal.SIGINT)  # in the first step, which takes a while
            self.assertEqual(process.stderr.readline(), "stopping after this step and saving; Ctrl-C again quits at once\n")
            process.send_signal(signal.SIGINT)
            said = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.assertEqual(said, f"quit; what was saved last remains, go on with: neurim resume {self.root}/runs/twice\n")

    def test_a_run_has_one_writer(self):
        words = [*instead(self.words, "epochs=100000"), "name=busy", "plots=false"]
        busy = self.root / "runs" / "busy"
        with subprocess.Popen([NEURIM, *words, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            process.stdout.readline()
            for other in (["resume", busy], ["resume", busy, "--dry-run"], [*words, "exist_ok=true"], [*words, "exist_ok=true", "--dry-run"]):
                run = neurim(*other)
                self.assertEqual((run.returncode, len(run.stderr.splitlines())), (4, 1), run)
                self.assertIn(f"{busy} is being written by another process; wait for it or choose another name", run.stderr)
            process.kill()
            process.communicate(timeout=60)
        self.assertEqual(neurim("resume", busy, "--dry-run").returncode, 0)

    def contents(self, run):
        return {path.relative_to(run): path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != ".lock"}

    def test_a_run_in_an_old_folder_takes_its_place_when_it_has_learnt(self):
        run = self.root / "runs" / "replaced"
        words = [*instead(self.words, "epochs=1"), "name=replaced", "exist_ok=true"]
        self.assertEqual(neurim(*words).returncode, 0)
        (run / "notes.txt").write_text("mine")
        before = self.contents(run)
        spoilt = self.root / "spoilt-data"
        shutil.copytree(self.root / "data", spoilt)
        (spoilt / "train" / "dark" / "broken.png").write_bytes(b"x")
        for wrong, code in ((["lr=1e25", "opt=sgd"], 1), ([f"data={spoilt}", "max_bad=0"], 3), (["imgsz=8"], 2)):
            failed = neurim(*instead(words, *wrong))
            self.assertEqual(failed.returncode, code, failed)
            self.assertNotIn("is kept in", failed.stderr)
            self.assertEqual(self.contents(run), before)
        done = neurim(*instead(words, "epochs=2"), "plots=false")
        self.assertEqual(done.returncode, 0, done.stderr)
        fresh = neurim(*instead(words, "epochs=2", "name=fresh"), "plots=false")
        self.assertEqual(fresh.returncode, 0, fresh.stderr)
        names = [sorted(re.sub(r"(tfevents)\..*", r"\1", str(path)) for path in self.contents(folder)) for folder in (run, self.root / "runs" / "fresh")]
        names[0].remove("notes.txt")
        self.assertEqual(*names)
        self.assertEqual((run / "log.txt").read_text().count("neurim "), (self.root / "runs" / "fresh" / "log.txt").read_text().count("neurim "))
        self.assertEqual(len((run / "metrics.jsonl").read_text().splitlines()), 2)
        self.assertEqual(neurim("resume", run, "epochs=3").returncode, 0)

    def test_val_says_when_there_is_no_best(self):
        run = self.root / "without-best"
        shutil.copytree(self.folder, run)
        (run / "weights" / "best.safetensors").unlink()
        judged = neurim("val", run)
        self.assertIn("last.safetensors: the run has no best weights, so these are taken, its last ones", judged.stdout, judged)

    def test_val_writes_beside_the_run(self):
        folder = self.root / "p4"
        self.assertEqual(neurim(*instead(self.words, "epochs=1", "project=p4"), "name=f", "plots=false", cwd=self.root).returncode, 0)
        run = neurim("val", "p4/f", cwd=self.root)
        self.assertIn("Saved p4/val\n", run.stdout, run)
        self.assertIn("Saved ../val2\n", neurim("val", "weights/best.safetensors", cwd=folder / "f").stdout)
        wrong = neurim("val", "p4/f", "name=x/y", cwd=self.root)
        self.assertEqual((wrong.returncode, wrong.stdout), (2, ""), wrong)
        self.assertIn("name is 'x/y'", wrong.stderr)
        self.assertIn("has no test split; it has train, val\n", neurim("val", "p4/f", "split=test", cwd=self.root).stderr)

    def test_data_that_are_remembered_by_a_relative_path(self):
        self.assertEqual(neurim(*instead(self.words, "epochs=1", "data=data"), "name=near", "plots=false", cwd=self.root).returncode, 0)
        run = self.root / "runs" / "near"
        elsewhere = self.root / "elsewhere"
        elsewhere.mkdir()
        judged = neurim("val", run, cwd=elsewhere)
        self.assertEqual(judged.returncode, 3, judged)
        self.assertIn(f"data: there is no such folder or file; {run}/weights/best.safetensors names it, relative to the folder of the training: "
                      "give data=PATH", judged.stderr)
        self.assertIn(f"{run}/args.yaml names it", neurim("resume", run, cwd=elsewhere).stderr)

    def test_a_closed_stdout_is_no_file_of_the_run(self):
        run = subprocess.run(["bash", "-c", 'exec "$@" >&-', "closed", NEURIM, *self.words, "name=closed", "--json"], stderr=subprocess.PIPE, text=True,
                             timeout=120, check=False)
        self.assertEqual(run.returncode, 4, run)
        self.assertIn("stdout: cannot write", run.stderr.splitlines()[-1])
        folder = self.root / "runs" / "closed"
        self.assertNotIn('{"event"', (folder / "log.txt").read_text())
        self.assertEqual(tensors(folder / "weights" / "last.safetensors"), tensors(self.folder / "weights" / "last.safetensors"))

    def test_a_limit_of_the_size_of_files_is_a_full_disk(self):
        run = on_a_full_disk(*self.words, "name=limited", room=400)
        self.assertEqual((run.returncode, len(run.stderr.splitlines())), (4, 1), run)
        self.assertIn("File too large", run.stderr)
        self.assertFalse((self.root / "runs" / "limited").exists())

    def test_pictures_and_batches_that_cannot_be_trained_on_show_before_the_run(self):
        for more in ([], ["--dry-run"]):
            run = neurim(*self.words, "in_chans=5", "name=never", *more)
            self.assertEqual((run.returncode, len(run.stderr.splitlines())), (3, 1), run)
            self.assertIn("the pictures have 1 channel and the model takes 5", run.stderr)
            run = neurim(*instead(self.words, "model=resnet18", "batch=1"), "imgsz=32", "name=never", *more)
            self.assertEqual(run.returncode, 2, run)
            self.assertRegex(run.stderr, r"layer\d\.\d\.bn\d: batch_norm: .* one value per channel")
        self.assertFalse((self.root / "runs" / "never").exists())

    def test_ctrl_c_saves_and_resume_ends_like_an_uninterrupted_run(self):
        whole = neurim(*instead(self.words, "epochs=12"), "name=whole")
        self.assertEqual(whole.returncode, 0, whole.stderr)
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 75)):
            name = f"stopped{code}"
            returned, rest = self.stopped(number, name)
            self.assertEqual(returned, code, rest)
            self.assertEqual(json.loads(rest.splitlines()[-1])["event"], "stopped")
            resumed = neurim("resume", self.root / "runs" / name)
            self.assertEqual(resumed.returncode, 0, resumed.stderr)
            for file in ("best.safetensors", "last.safetensors", "last.opt.safetensors"):
                self.assertEqual(tensors(self.root / "runs" / name / "weights" / file),
                                 tensors(self.root / "runs" / "whole" / "weights" / file), file)

    def test_deterministic_runs_do_not_depend_on_the_threads(self):
        for model, options in (("lenet5", []), ("resnet20", ["imgsz=32", "batch=8"])):
            weights = set()
            for threads in (1, 2):
                name = f"{model}-threads{threads}"
                run = neurim(*instead(self.words, f"model={model}", "epochs=1", *options), "deterministic=true", f"threads={threads}", f"name={name}",
                             "plots=false")
                self.assertEqual(run.returncode, 0, run.stderr)
                weights.add(tensors(self.root / "runs" / name / "weights" / "last.safetensors"))
            self.assertEqual(len(weights), 1, model)

    def test_weights_that_diverged_are_refused(self):
        broken = self.root / "broken.safetensors"
        data = (self.folder / "weights" / "best.safetensors").read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        name, at = next((name, entry["data_offsets"][0]) for name, entry in json.loads(data[8:8 + size]).items()
                        if name.endswith("weight"))
        broken.write_bytes(data[:8 + size + at + 8] + struct.pack("<f", float("nan")) + data[8 + size + at + 12:])
        for words in (["val", broken, f"data={self.root}/data"], ["predict", f"model={broken}", f"source={self.root}/data/val/dark/0.png"],
                      ["export", broken], [*self.words, f"pretrained={broken}", "name=diverged"]):
            with self.subTest(words[0]):
                run = neurim(*words)
                self.assertEqual(run.returncode, 3, run)
                self.assertRegex(run.stderr, rf"broken\.safetensors: 1 of the \d+ values of {name} .* the first at index 2; "
                                             r"the training that wrote it diverged")
        self.assertFalse((self.root / "runs" / "diverged").exists())

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
        judge = ["val", self.root / "runs" / "spoilt", "split=train", f"project={self.root}/runs"]
        run = neurim(*judge, "max_bad=0")
        self.assertEqual(run.returncode, 3, run)
        self.assertIn("raise max_bad", run.stderr)
        run = neurim(*judge)
        self.assertEqual(run.returncode, 0, run)
        self.assertIn("broken.png", run.stdout)
        for i in range(8):
            (data / "a" / f"x{i}.png").write_bytes(b"x")
        run = neurim(*words, "max_bad=9", "val_split=0")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stdout.count("skipped: "), 9, run.stdout)
        self.assertIn("9 of 25 train pictures cannot be read", run.stdout)
        for picture in data.rglob("*.png"):
            picture.write_bytes(b"x")
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
        self.assertIn("EXIF says to turn 8 training pictures", upright.stdout)
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

    def test_a_full_disk_ends_with_4_and_keeps_what_was_saved(self):
        before = tensors(self.folder / "weights" / "last.safetensors")
        run = on_a_full_disk("resume", self.folder, "epochs=3", room=20)
        self.assertEqual(run.returncode, 4, run)
        self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)
        self.assertEqual(tensors(self.folder / "weights" / "last.safetensors"), before)
        self.assertIn(f"go on with: neurim resume {self.folder}", run.stderr)

    def test_a_full_disk_hides_no_figures(self):
        whole = neurim("val", self.folder, "--json", f"project={self.root}/runs")
        run = on_a_full_disk("val", self.folder, "--json", f"project={self.root}/nowhere")
        self.assertEqual(run.returncode, 4, run)
        told, kept = (json.loads(one.stdout.splitlines()[-1]) for one in (run, whole))
        self.assertEqual((told["run"], told["top1"], told["loss"]), ("", kept["top1"], kept["loss"]))
        self.assertIn("top1 ", run.stderr)
        self.assertEqual(list((self.root / "nowhere").iterdir()), [])
        run = on_a_full_disk("demo", "epochs=1", "train_pictures=1", "val_pictures=1", f"project={self.root}/full")
        self.assertEqual(run.returncode, 4, run)
        self.assertIn("00000.png: cannot write: File too large; ", run.stderr)

    def test_a_full_stdout_does_not_stop_a_run(self):
        with open("/dev/full", "w") as full:
            run = subprocess.run([NEURIM, *self.words, "name=unheard", "--json"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120,
                                 check=False)
        self.assertEqual(run.returncode, 4, run)
        self.assertIn("stdout: cannot write", run.stderr.splitlines()[-1])
        self.assertEqual(tensors(self.root / "runs" / "unheard" / "weights" / "last.safetensors"),
                         tensors(self.folder / "weights" / "last.safetensors"))
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "w") as closed:
            run = subprocess.run([NEURIM, *self.words, "name=unread"], stdout=closed, stderr=subprocess.PIPE, timeout=120, check=False)
        self.assertEqual((run.returncode, run.stderr), (0, b""))

    def test_a_run_that_patience_ended_stays_ended(self):
        words = [*instead(self.words, "epochs=30"), "patience=1", "lr=1e-9", "name=patient", "plots=false"]
        ended = neurim(*words)
        self.assertIn("No better top1 for 1 epochs", ended.stdout, ended.stderr)
        weights = self.root / "runs" / "patient" / "weights"
        before = tensors(weights / "last.safetensors")
        leftover = weights / f".best.safetensors.{2**22 + 1}.0.tmp"  # above what Linux numbers processes with
        leftover.touch()
        again = neurim("resume", weights.parent)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("the run has ended", again.stdout)
        self.assertEqual(tensors(weights / "last.safetensors"), before)
        self.assertEqual(again.stdout.splitlines()[-2:], ended.stdout.splitlines()[-2:])
        self.assertFalse(leftover.exists())

    def test_a_rate_that_is_too_high_is_rounded(self):
        run = neurim(*self.words, "lr=1e25", "opt=sgd", "name=high")
        self.assertEqual(run.returncode, 1, run)
        self.assertIn("try lr=1e+24; ", run.stderr)

    def test_demo(self):
        run = neurim("demo", "epochs=1", "train_pictures=8", "val_pictures=3", f"project={self.root}/demo")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertTrue((self.root / "demo" / "demo" / "export" / "best.onnx").is_file())
        self.assertTrue((self.root / "demo" / "demo" / "confusion_matrix.png").is_file())
        self.assertTrue(run.stdout.splitlines()[-1].strip().startswith("neurim train"))


if __name__ == "__main__":
    unittest.main()
