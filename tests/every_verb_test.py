"""What every verb has from outside: dry_run, device, seed, config and print_config."""
import json
import os
import random
import re
import shutil
import struct
import tempfile
import unittest
from pathlib import Path

from command import VERBS, DATA_TASKS, instead, neurim, gray_png, npy


def without_free_memory(said):
    """What `doctor` says without the memory that is free, which changes from call to call."""
    return re.sub(r'[\d.]+ \w+ available|"available_bytes":\d+', "", said)


class EveryVerb(unittest.TestCase):
    """The options that all verbs have: dry_run, device, seed, config and print_config."""

    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory()
        cls.root = root = Path(cls.home.name)
        chance = random.Random(1)
        for name, level in (("dark", 10), ("bright", 170)):
            for i in range(16):
                gray_png(root / "data" / name / f"{i}.png", [[level + chance.randrange(60) for _ in range(28)] for _ in range(28)])
        rows = [f"{50 + 10 * (i % 7) + chance.random()},{chance.random()}" for i in range(120)]
        (root / "sales.csv").write_text("sold,rain\n" + "\n".join(rows) + "\n")
        (root / "story.txt").write_text("the cat sat on the mat.\n" * 20)
        (root / "in").mkdir()
        npy(root / "in" / "input_0.npy", "(2, 1, 28, 28)", [i % 5 / 5 for i in range(2 * 784)])
        cls.train = ["train", "data=data", "model=lenet5", "batch=8", "epochs=2", "val_split=0.25", "project=runs"]
        cls.forecast = ["train", "data=sales.csv", "model=lstm", "target=sold", "window=14", "hidden_size=8", "epochs=2", "project=runs", "name=lstm"]
        cls.text = ["train", "data=story.txt", "model=gru", "window=16", "hidden_size=8", "epochs=2", "project=runs", "name=gru"]
        # What writes or measures, and what of the working folder it would write to.
        cls.working = [
            (cls.train + ["name=new", "cache=disk"], "runs/new"),
            (cls.forecast, "runs/lstm2"),
            (cls.text, "runs/gru2"),
            (["train", "data=data", "model=lenet5", "pretrained=runs/train", "project=a/b", "name=new"], "a/b/new"),
            (["resume", "runs/train", "epochs=3"], "runs/train"),
            (["resume", "runs/lstm"], "runs/lstm"),
            (["val", "runs/train"], "runs/train/reports/val"),
            (["val", "runs/train", "crops=5", "project=runs", "name=train"], "runs/train2"),
            (["val", "runs/lstm"], "runs/lstm/reports/val"),
            (["val", "runs/gru"], None),
            (["predict", "model=runs/train", "data", "save_csv=out.csv"], "out.csv"),
            (["predict", "model=runs/lstm", "save_csv=out.csv"], "out.csv"),
            (["predict", "model=runs/gru", "prompt=the cat", "length=30"], None),
            (["predict", "model=runs/train", "data", "sort_into=sorted"], "sorted"),
            (["explain", "runs/train", "data/dark/0.png"], "runs/train/reports/explain"),
            (["embed", "runs/train"], "runs/train/reports/embed"),
            (["export", "runs/train"], "runs/train/export/best.onnx"),
            (["prune", "runs/train", "epochs=1", "multiple=2"], "runs/train/export/best.pruned.neurim"),
            (["quantize", "runs/train", "max_drop=100"], "runs/train/export/best.int8.neurim"),
            (["launch", "np=2", "--", *cls.train, "name=both"], "runs/both"),
            (["launch", "np=2", "--", "collectives", "largest=65536", "seconds=0.05"], None),
            (["board", "runs", "port=0"], None),
            (["export", "runs/lstm", "output=x/y.onnx"], "x/y.onnx"),
            (["run", "lenet5", "inputs=in", "outputs=out"], "out/output_0.npy"),
            (["benchmark", "lenet5", "mode=train", "batch=2"], None),
            (["benchmark", "lenet5", "serve=true"], None),
            (["benchmark", "mode=data", "data=data", "imgsz=28", "batch=8"], None),
            (["demo", "epochs=1", "train_pictures=2", "val_pictures=1"], "runs/classify/demo"),
            (["data", "convert", "data", "to=wds", "out=shards"], "shards"),
            (["data", "dedupe", "data", "sheet=sheet.jpg"], "sheet.jpg"),
            (["data", "download", "mnist"], "mnist"),
            (["data", "label-issues", "data", "model=lenet5", "folds=2", "epochs=1", "batch=8", "out=issues.csv"], "issues.csv"),
            (["data", "pack", "data", "out=set.pack"], "set.pack"),
            (["data", "preview", "data", "imgsz=28", "in_chans=1"], "preview.jpg"),
            (["data", "split", "data", "out=set.csv", "val_split=0.2"], "set.csv"),
        ]
        cls.looking = [["data", "scan", "data"], ["data", "stats", "data", "imgsz=28"], ["info", "lenet5"], ["info", "runs/lstm"], ["runs", "runs"], ["runs", "diff", "runs/train", "runs/lstm"],
                       ["models", "le*"],
                       ["simulate", "machine=dgx-a100", "devices=8,64", "params=25.6e6", "batch=32", "sample_ms=0.3"], ["layers", "Conv*"], ["operators", "Reduce*"], ["doctor"], ["version"]]
        for words in (cls.train, cls.forecast, cls.text):
            run = cls.here(*words)
            if run.returncode:
                raise AssertionError(run)
        # What a run that was killed leaves; its number is above what Linux numbers processes with.
        (root / "runs" / "train" / "weights" / f".best.safetensors.{2**22 + 1}.0.tmp").touch()

    @classmethod
    def tearDownClass(cls):
        cls.home.cleanup()

    @classmethod
    def here(cls, *words):
        return neurim(*words, cwd=cls.root, env={**os.environ, "HOME": str(cls.root), "XDG_CACHE_HOME": ""})

    def tree(self):
        return {str(path): (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else None) for path in [self.root, *self.root.rglob("*")]}

    def changed_from(self, before):
        now = self.tree()
        return sorted(path for path in {*before, *now} if before.get(path) != now.get(path))

    def test_a_dry_run_changes_nothing_and_says_what_would_be_done(self):
        before = self.tree()
        for words, target in self.working:
            with self.subTest(words):
                run = self.here(*words, "--dry-run", "--json")
                self.assertEqual(run.returncode, 0, run)
                *others, summary = map(json.loads, run.stdout.splitlines())
                self.assertEqual(([event for event in others if event["event"] == "epoch"], summary["event"], summary["dry_run"]), ([], "summary", True))
                said = run.stderr.splitlines()[-1]
                self.assertTrue(said.startswith("dry run: would "), run.stderr)
                if target:
                    self.assertIn(target, said)
                    self.assertIn(target, (summary.get(key) for key in ("run", "path", "save_csv", "sort_into")))
                self.assertEqual(self.changed_from(before), [])
        for words in self.looking:
            with self.subTest(words):
                run = self.here(*words, "--dry-run")
                self.assertEqual(run.returncode, 0, run)
                self.assertEqual(self.changed_from(before), [])
        tried = [words for words, _ in self.working] + self.looking
        tried += [words[words.index("--") + 1:] for words in tried if words[0] == "launch"]
        self.assertEqual({words[1] if words[0] == "data" else words[0] for words in tried}, {*VERBS, *DATA_TASKS} - {"data"})

    def test_a_dry_run_says_of_a_run_what_a_run_says(self):
        dry = self.here(*self.train, "name=spoken", "--dry-run")
        run = self.here(*self.train, "name=spoken")
        self.assertEqual(run.returncode, 0, run.stderr)
        head = run.stdout[:run.stdout.index("  time ")]
        self.assertEqual(dry.stdout, head + "dry run: would train 2 epochs of 3 steps into runs/spoken\n")
        for part in ("neurim ", "24 train / 8 val", " parameters "):
            self.assertIn(part, head)
        dry = self.here("resume", "runs/spoken", "epochs=5", "--dry-run")
        self.assertEqual(dry.stdout.splitlines()[-1], "dry run: would train 3 epochs of 3 steps after the 2 that are done, in runs/spoken")
        self.assertIn("all 2 epochs are done", self.here("resume", "runs/spoken", "--dry-run").stdout)

    def test_a_dry_run_fails_as_the_call_would(self):
        (self.root / "file").write_text("mine")
        (self.root / "half").mkdir()
        shutil.copytree(self.root / "runs" / "train", self.root / "half" / "run")
        (self.root / "half" / "run" / "results.csv").write_text("a,b\n")
        (self.root / "half" / "weights").mkdir()
        shutil.copy(self.root / "runs" / "train" / "args.yaml", self.root / "half")
        (self.root / "half" / "cut.safetensors").write_bytes((self.root / "runs" / "train" / "weights" / "best.safetensors").read_bytes()[:-40])
        npy(self.root / "half" / "input_0.npy", "(1, 3, 28, 28)", [0] * (3 * 784))
        (self.root / "half" / "set.pack.part").write_text("mine")
        before = self.tree()
        calls = (
                (instead(self.train, "epochs=0"), 2), (instead(self.train, "model=lenet6"), 2), (instead(self.train, "data=none"), 3),
                (self.train + ["imgsz=8"], 2), (self.train + ["epochs=3"], 2), (self.train + ["min_lr=-1"], 2), (self.train + ["warmup_lr=-1"], 2),
                (self.train + ["in_chans=5"], 3), (instead(self.train, "model=resnet18", "batch=1") + ["imgsz=32"], 2),
                (self.train + ["pretrained=half/cut.safetensors"], 3), (instead(self.train, "project=file"), 4), (instead(self.train, "project=file/x"), 4),
                (self.train + ["cache=disc"], 2), (instead(self.forecast, "window=500"), 3), (self.forecast + ["hflip=1"], 2),
                (instead(self.text, "data=none.txt"), 3), (["val", "runs/train", "name=x/y"], 2),
                (["resume", "data"], 3), (["resume", "runs/train", "epochs=1"], 2), (["resume", "half/run", "epochs=3"], 3), (["resume", "half"], 3),
                (["val", "half/cut.safetensors"], 3), (["val", "runs/train", "data=none"], 3), (["val", "runs/train", "split=test"], 3),
                (["val", "runs/train", "crops=7"], 2), (["val", "runs/train", "imgsz=8"], 2), (["val", "runs/lstm", "crops=5"], 2),
                (["val", "runs/gru", "split=test"], 3), (["predict", "model=runs/train", "none"], 3), (["predict", "model=runs/train", "data", "topk=0"], 2),
                (["predict", "model=runs/train", "data", "save_csv=none/x.csv"], 4), (["predict", "model=runs/train", "data", "save_csv=data"], 4),
                (["predict", "model=runs/lstm", "source=none.csv"], 3), (["predict", "model=runs/gru", "prompt=dog"], 3),
                (["predict", "model=runs/gru", "temperature=-1"], 2), (["predict", "model=runs/gru", "length=-1"], 2),
                (["export", "lenet6"], 2), (["export", "lenet5", "imgsz=8"], 2), (["export", "lenet5", "opset=3"], 2), (["export", "lenet5", "output=file/x.onnx"], 4),
                (["export", "lenet5", "output=data"], 4), (["run", "lenet5", "inputs=data", "outputs=out"], 3),
                (["run", "lenet5", "inputs=half", "outputs=out"], 2), (["run", "lenet5", "inputs=in", "outputs=file"], 4),
                (["benchmark", "lenet5", "imgsz=8"], 2), (["benchmark", "lenet5", "rounds=0"], 2), (["benchmark", "mode=data", "data=none"], 3),
                (["benchmark", "mode=data", "data=data", "augment=flop"], 2), (["demo", "val_pictures=0"], 2), (["demo", "threads=0"], 2), (["demo", "epochs=0"], 2), (["demo", "project=file"], 4),
                (["data", "convert", "data", "to=zip", "out=o"], 2), (["data", "convert", "data", "to=wds", "out=o", "shard=0"], 2),
                (["data", "convert", "data", "to=wds", "out=half"], 2), (["data", "convert", "none", "to=wds", "out=o"], 3),
                (["data", "convert", "data", "to=wds", "out=file/o"], 4), (["data", "dedupe", "data", "sheet=file"], 2), (["data", "dedupe", "none"], 3),
                (["data", "dedupe", "data", "sheet=none/x.jpg"], 4), (["data", "download", "mnost"], 2), (["data", "download", "mnist", "mirror=half", "out=digits"], 3),
                (["data", "download", "mnist", "mirror=half", "out=file"], 4), (["data", "pack", "data", "out=file"], 2), (["data", "pack", "none", "out=o"], 3),
                (["data", "pack", "data", "out=half/set.pack"], 2), (["data", "pack", "data", "out=none/set.pack"], 4),
                (["data", "preview", "data", "out=file"], 2), (["data", "preview", "data", "augment=flop"], 2), (["data", "preview", "data", "out=none/x.jpg"], 4),
                (["data", "split", "data", "out=set.txt"], 2), (["data", "split", "data", "out=none/x.csv"], 4), (["data", "split", "data", "out=x.csv", "val_split=2"], 2))
        said = []  # by the dry runs
        for words, code in calls:
            with self.subTest(words):
                dry = self.here(*words, "--dry-run")
                said.append(dry.stderr)
                self.assertEqual((dry.returncode, len(dry.stderr.splitlines())), (code, 1), dry)
                self.assertNotIn("dry run", dry.stdout)
        self.assertEqual(self.changed_from(before), [])
        for (words, code), dry in zip(calls, said, strict=True):
            with self.subTest(words):
                run = self.here(*words)
                self.assertEqual(run.returncode, code, run)
                if code != 4:  # what cannot be written is said in other words
                    self.assertEqual(dry, run.stderr)

    def test_what_print_config_prints_is_a_config(self):
        config = self.root / "config.yaml"
        for words in [words for words, _ in self.working if words[0] != "launch"] + self.looking:  # whose last words are those of another verb
            verb = words[:2] if words[0] == "data" else words[:1]
            with self.subTest(words):
                printed = self.here(*words, "--print-config")
                self.assertEqual(printed.returncode, 0, printed)
                for name in ("dry_run", "seed", "device"):
                    self.assertEqual(len(re.findall(rf"^{name}: ", printed.stdout, re.MULTILINE)), 1, printed.stdout)
                config.write_text(printed.stdout)
                again = self.here(*verb, "--config", config, "--print-config")
                self.assertEqual(again.stdout, printed.stdout)
                first, second = (self.here(*call, "--dry-run", "--json") for call in (words, [*verb, "--config", config]))
                self.assertEqual(second.returncode, 0, second)
                self.assertEqual(without_free_memory(second.stderr), without_free_memory(first.stderr))
                self.assertEqual(without_free_memory(second.stdout), without_free_memory(first.stdout))
        more = self.here("predict", "model=runs/train", "data/dark/0.png", "data/dark/1.png", "--print-config")
        self.assertEqual((more.returncode, more.stdout), (2, ""))
        self.assertIn("holds one source, not also data/dark/1.png", more.stderr)
        odd = self.here("predict", "model=[a] # b", "source=[ab]*.png", "prompt=\"x\"\n\\n: y", "--print-config").stdout
        config.write_text(odd)
        self.assertEqual(self.here("predict", "--config", config, "--print-config").stdout, odd)

    def calls(self):
        """A call of each verb and task, and `data` without a task."""
        return [words for words, _ in self.working] + self.looking

    def test_every_verb_takes_json(self):
        """All of stdout is JSON lines: results, help, configs and errors."""
        def events(*words, code=0):
            run = self.here(*words)
            self.assertEqual(run.returncode, code, run)
            lines = [json.loads(line) for line in run.stdout.splitlines()]
            self.assertTrue(lines and all(isinstance(line["event"], str) for line in lines), run)
            return lines
        heads = sorted({tuple(words[:2] if words[0] == "data" else words[:1]) for words in self.calls()}) + [("data",)]
        for words in self.calls():
            with self.subTest(words):
                self.assertEqual(events(*words, "--json", "--dry-run")[-1]["event"], "summary")
        for head in heads:
            with self.subTest(head):
                *options, summary = events(*head, "--help", "--json")
                names = [option["name"] for option in options]
                self.assertEqual(({option["event"] for option in options}, summary["verb"]), ({"option"}, " ".join(head)))
                for name in ("help", "json", "quiet", "dry_run", "seed", "device", "config", "print_config"):
                    self.assertEqual(names.count(name), 1, name)
                self.assertEqual(events("help", *head, "json=true"), [*options, summary])
                (config,) = events(*head, "--print-config", "--json")
                self.assertEqual(config["options"], {option["name"]: option["value"] for option in options if option["name"] in config["options"]})
                self.assertEqual(set(names) - set(config["options"]), {"help", "config", "print_config"})
                for wrong in (["nonsense=1", "--json"], ["--json", "seed=x"], ["--json=true", "device=gpu"], ["json=on", "config=none.yaml"]):
                    (error,) = events(*head, *wrong, code=3 if "config=none.yaml" in wrong else 2)
                    self.assertEqual((error["event"], error["exit_code"]), ("error", 3 if "config=none.yaml" in wrong else 2))
        self.assertEqual([event["name"] for event in events("--help", "--json")[:-1]], [event["name"] for event in events("help", "--json")[:-1]])
        self.assertEqual({event["name"] for event in events("--help", "--json")[:-1]}, set(VERBS))
        (error,) = events("trian", "--json", code=2)
        self.assertIn("did you mean 'train'", error["message"])

    def test_every_verb_takes_quiet(self):
        for words in self.calls():
            with self.subTest(words):
                run = self.here(*words, "--quiet", "--dry-run")
                self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "", ""))
                self.assertEqual(self.here(*words, "quiet=true", "--dry-run", "--json").stderr, "")

    def test_every_verb_takes_a_config(self):
        config = self.root / "shared.yaml"
        config.write_text("seed: 5\ndevice: cpu\njson: true\ndry_run: true\n")
        for words in self.calls():
            with self.subTest(words):
                run = self.here(*words, "--config", config)
                self.assertEqual(run.returncode, 0, run)
                self.assertTrue(all(json.loads(line)["event"] for line in run.stdout.splitlines()), run)
        printed = self.here("data", "--print-config", "seed=7")
        self.assertEqual((printed.returncode, "seed: 7\n" in printed.stdout), (0, True), printed)
        after = self.here("data", "--json", "seed=3", "stats", "data", "imgsz=28")
        self.assertEqual(json.loads(after.stdout.splitlines()[-1])["event"], "summary", after)

    def test_every_verb_takes_device_and_seed(self):
        for words in [words for words, _ in self.working] + self.looking:
            with self.subTest(words):
                run = self.here(*words, "device=cpu", "seed=5", "--dry-run")
                self.assertEqual(run.returncode, 0, run)
                wrong = self.here(*words, "device=gpu")
                self.assertEqual((wrong.returncode, len(wrong.stderr.splitlines())), (2, 1), wrong)
                self.assertIn("device: 'gpu' is not known here; this build has cpu", wrong.stderr)
                self.assertEqual(self.here(*words, "seed=x").returncode, 2)

    def test_the_seed_draws_the_weights_of_a_name(self):
        outputs = []
        for seed in ((), ("seed=0",), ("seed=1",), ("seed=1",)):
            self.assertEqual(self.here("run", "lenet5", "inputs=in", "outputs=drawn", *seed).returncode, 0)
            self.assertEqual(self.here("export", "lenet5", "output=drawn/x.onnx", *seed).returncode, 0)
            outputs.append([(self.root / "drawn" / name).read_bytes() for name in ("output_0.npy", "x.onnx")])
        self.assertEqual((outputs[0], outputs[2]), (outputs[1], outputs[3]))
        self.assertNotEqual(outputs[0][0], outputs[2][0])
        self.assertNotEqual(outputs[0][1], outputs[2][1])
        words = ["benchmark", "mode=data", "data=data", "imgsz=28", "batch=8", "seconds=0.01", "rounds=1", "--json"]
        pixels = [json.loads(self.here(*words, *seed).stdout.splitlines()[-1])["pixels_sha256"] for seed in ((), ("seed=42",), ("seed=7",))]
        self.assertEqual((pixels[0] == pixels[1], pixels[0] == pixels[2]), (True, False))

    def test_the_split_of_val_is_that_of_training_whatever_the_seed(self):
        losses = [json.loads(self.here("val", "runs/train", "project=evaluated", "--json", *more).stdout.splitlines()[-1])["loss"]
                  for more in ((), ("seed=7",), ("split_seed=42",), ("split_seed=7",))]
        self.assertEqual(losses[:3], [losses[0]] * 3)
        self.assertNotEqual(losses[0], losses[3])

    def test_verbs_compute_on_the_device(self):
        """Each verb on a device whose memory the host cannot touch."""
        test = [f"plugins={Path(os.environ['NEURIM_BUILD'], 'libtest_device_plugin.so').resolve()}", "device=test"]
        for words in (self.train, self.forecast, self.text):
            run = self.here(*instead(words, "name=there"), *test)
            self.assertEqual(run.returncode, 0, run)
            self.assertIn(" · test, ", run.stdout)
            shutil.rmtree(self.root / "runs" / "there")
        for words in (["val", "runs/train", "project=evaluated"], ["val", "runs/train", "crops=5", "project=evaluated"], ["val", "runs/lstm", "project=evaluated"],
                      ["val", "runs/gru"], ["predict", "model=runs/train", "data", "topk=2"], ["predict", "model=runs/lstm"]):
            with self.subTest(words):
                there, here = (self.here(*words, *more, "--json") for more in (test, ()))
                self.assertEqual((there.returncode, here.returncode), (0, 0), (there, here))
                for one, other in zip(map(json.loads, there.stdout.splitlines()), map(json.loads, here.stdout.splitlines()), strict=True):
                    for key in set(one) - {"run"}:
                        for a, b in zip(self.numbers(one[key]), self.numbers(other[key]), strict=True):
                            self.assertTrue(a == b or abs(a - b) < 1e-4 * max(1, abs(a)), (key, one, other))
        self.assertEqual(self.here("predict", "model=runs/gru", "length=20", *test).returncode, 0)
        for words in (["run", "lenet5", "inputs=in", "outputs=there"], ["info", "lenet5"], ["info", "lenet5", "--plan"],
                      ["info", "lenet5", "--plan", "mode=train"], ["info", "runs/lstm", "--plan"],
                      ["benchmark", "lenet5", "seconds=0.01", "rounds=1"], ["benchmark", "lenet5", "mode=train", "seconds=0.01", "rounds=1"],
                      ["demo", "epochs=1", "train_pictures=2", "val_pictures=1", "project=drawn"]):
            with self.subTest(words):
                run = self.here(*words, *test)
                self.assertEqual(run.returncode, 0, run)
        self.assertEqual(self.here("run", "lenet5", "inputs=in", "outputs=here").returncode, 0)
        there, here = ((self.root / folder / "output_0.npy").read_bytes() for folder in ("there", "here"))
        for a, b in zip(struct.unpack("<20f", there[-80:]), struct.unpack("<20f", here[-80:])):
            self.assertAlmostEqual(a, b, 5)
        self.assertEqual(self.here(*self.train, "name=moved").returncode, 0)
        run = self.here("resume", "runs/moved", "epochs=3", *test)
        self.assertEqual(run.returncode, 0, run)
        self.assertIn(" · test, ", run.stdout)
        self.assertIn("3/3", run.stdout)

    def numbers(self, value):
        if isinstance(value, (list, tuple)):
            return [number for part in value for number in self.numbers(part)]
        if isinstance(value, dict):
            return [number for _, part in sorted(value.items()) for number in self.numbers(part)]
        return [value] if isinstance(value, (int, float)) else []


if __name__ == "__main__":
    unittest.main()
