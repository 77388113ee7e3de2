"""What is read before a run begins (options, files of them, words without names), and what the console shows of it."""
import json
import os
import re
import shutil
import tempfile
import unittest
from pathlib import Path

from command import TrainedRun, in_terminal, instead, neurim


class Given(unittest.TestCase):
    def refused(self, *words, code=2):
        run = neurim(*words)
        self.assertEqual((run.returncode, run.stdout, len(run.stderr.splitlines())), (code, "", 1), run)
        return run.stderr

    def test_a_config_in_a_config(self):
        """Each file wins over the one that it names, also where it says what nobody would have to say."""
        with tempfile.TemporaryDirectory() as folder:
            files = {"a.yaml": "config: sub/b.yaml\nplots: true\nlr: 0.1\n", "sub/b.yaml": "config: ../c.yaml\nplots: false\nepochs: 3\nlr: 0.2\n",
                     "c.yaml": "epochs: 4\nbatch: 8\nname: third\ndry_run: true\n", "loop.yaml": "epochs: 2\nconfig: sub/loop.yaml\n",
                     "sub/loop.yaml": "config: ../loop.yaml\n", "gone.yaml": "name: x\nconfig: none.yaml\n", "wrong.yaml": "config: bad.yaml\n",
                     "bad.yaml": "\nepoch: 3\n", "twice.yaml": "config: c.yaml\nconfig: c.yaml\n", "self.yaml": "config: self.yaml\n", "none": ""}
            for name, lines in files.items():
                path = Path(folder, name)
                path.parent.mkdir(exist_ok=True)
                path.write_text(lines)
            for here, name in ((folder, "a.yaml"), ("/", f"{folder}/a.yaml")):
                printed = neurim("train", f"config={name}", "name=mine", "--print-config", cwd=here).stdout
                for line in ("plots: true", "lr: 0.1", "epochs: 3", "batch: 8", "name: mine", "dry_run: true"):
                    self.assertIn(f"\n{line}\n", printed)
                self.assertNotIn("config:", printed)
            for name, code, said in (("loop.yaml", 2, "loop.yaml: line 2: {0}/sub/loop.yaml: line 1: config: {0}/sub/../loop.yaml would be read in a circle"),
                                     ("self.yaml", 2, "line 1: config: {0}/self.yaml would be read in a circle"),
                                     ("gone.yaml", 3, "gone.yaml: line 2: {0}/none.yaml: "), ("twice.yaml", 2, "line 2: config is given twice"),
                                     ("wrong.yaml", 2, "wrong.yaml: line 1: {0}/bad.yaml: line 2: there is no option 'epoch'")):
                self.assertIn(said.format(folder), self.refused("models", f"config={folder}/{name}", code=code) if name not in ("loop.yaml", "gone.yaml")
                              else self.refused("train", f"config={folder}/{name}", code=code))

    def test_an_empty_environment_variable_is_none(self):
        names = ["NEURIM_ISA", "NEURIM_DALI_PLUGIN", "XDG_CACHE_HOME"]
        whole = neurim("doctor", "--json", env={name: text for name, text in os.environ.items() if name not in names})
        empty = neurim("doctor", "--json", env={**os.environ, **dict.fromkeys(names, "")})
        self.assertEqual(empty.returncode, 0, empty)
        known = [json.loads(run.stdout) for run in (whole, empty)]
        self.assertEqual(known[0]["isa"], known[1]["isa"])
        wrong = neurim("doctor", env={**os.environ, "NEURIM_ISA": "sse"})
        self.assertEqual((wrong.returncode, "'sse' is not one of" in wrong.stderr), (2, True), wrong)

    def test_help_is_in_topics_and_begins_with_what_is_used_most(self):
        said = neurim("train", "--help").stdout
        parts = re.split(r"\n\n([a-z ]+):\n", said)
        topics = dict(zip(parts[1::2], [re.findall(r"^  (\w+)", part, re.MULTILINE) for part in parts[2::2]]))
        self.assertEqual(list(topics), ["examples", "most used", "data", "images", "series and texts", "training", "augmentation", "computing", "several processes", "output", "every verb"])
        self.assertEqual(topics["most used"], ["data", "model", "pretrained", "epochs", "batch", "imgsz", "lr", "val_split", "seed", "name"])
        listed = sorted(name for topic, names in topics.items() if topic != "examples" for name in names)
        printed = re.findall(r"^(\w+):", neurim("train", "--print-config").stdout, re.MULTILINE)
        self.assertEqual(listed, sorted([*printed, "help", "config", "print_config"]))
        for verb, first in (("val", "model"), ("predict", "model"), ("export", "model"), ("info", "model"), ("benchmark", "model")):
            self.assertRegex(neurim(verb, "--help").stdout, rf"\n\nmost used:\n  {first} ")


class Shown(TrainedRun):
    def test_progress_fits_into_the_terminal(self):
        """The bar is shorter, columns are left out, and numbers are whole: here the time of many epochs that patience cuts short."""
        words = [*instead(self.words, "epochs=900", "batch=1"), "patience=1", "lr=1e-9", "opt=sgd", "plots=false"]
        numbers = r" +\d\.\de[-+]\d\d +\d+ +\d+"
        for columns, bar, rates in ((30, 0, None), (40, 0, None), (50, 0, None), (80, 13, numbers), (200, 18, numbers)):
            code, shown = in_terminal(columns, *words, f"name=terminal{columns}")
            self.assertEqual(code, 0, shown)
            drawn = [line for line in re.split(r"\r|\n|\x1b\[K", shown) if "/900" in line and "%" in line and "validation" not in line]
            self.assertTrue(drawn, shown)
            for line in drawn:
                self.assertLess(len(line), columns, drawn)
                match = re.fullmatch(r" +\d+/900 +\d+\.\d{4}  ([▇·]*) *\d+ %(.*?)(  ETA \d+(:\d\d)+| +\d+(:\d\d)+)?", line)
                self.assertTrue(match, line)
                self.assertGreaterEqual(len(match[1]), bar, line)
                self.assertTrue(columns == 30 or match[3], line)
                if rates:
                    self.assertRegex(match[2], f"^{rates}$")
            self.assertIn("next: neurim export", shown)

    def test_the_console_begins_with_the_headline(self):
        for more in ([], [f"pretrained={self.folder}"]):
            words = [*instead(self.words, "epochs=1"), "name=head", "exist_ok=true", "plots=false", *more]
            plain, verbose = neurim(*words), neurim(*words, "-v")
            for run in (plain, verbose):
                self.assertEqual(run.returncode, 0, run)
                self.assertTrue(run.stdout.startswith("neurim "), run.stdout)
                self.assertEqual("  weights " in run.stdout, bool(more))
            self.assertNotIn("  auto ", plain.stdout)
            self.assertRegex(verbose.stdout, r"\n  auto    imgsz=28 .*\n(          .*\n)*")
            self.assertIn("\nimgsz: 28\n", (self.root / "runs" / "head" / "args.yaml").read_text())

    def test_where_the_validation_split_comes_from_is_said(self):
        train, sales = self.root / "data" / "train", self.root / "sales.csv"
        sales.write_text("sold\n" + "\n".join(str(i * i % 17) for i in range(60)) + "\n")
        for data, more, said in ((train, [], f"stratified 10 % of train, seed 42; {train}/val would be used instead"),
                                 (train, ["val_split=0.25", "split_seed=7"], f"stratified 25 % of train, seed 7; {train}/val would be used instead"),
                                 (train, ["folds=3", "fold=1"], "fold 1 of 3 of train, seed 42"), (train, ["val_split=0"], ""), (self.root / "data", [], ""),
                                 (sales, ["model=lstm", "window=6", "hidden_size=4"], "the last 10 % of the data")):
            words = [*instead(self.words, f"data={data}", "epochs=1", *(word for word in more if word.startswith("model"))), "name=said", "plots=false", "--json",
                     *(word for word in more if not word.startswith("model"))]
            if data == sales:
                words = [word for word in words if not word.startswith("batch")]
            dry, run = neurim(*words, "--dry-run"), neurim(*words)
            self.assertEqual((dry.returncode, run.returncode), (0, 0), (dry, run))
            for one in (dry, run):
                self.assertEqual(json.loads(one.stdout.splitlines()[-1])["validation"], said)
                self.assertEqual(re.findall(r"  data    val: (.*)", one.stderr), [said] if said else [])

    def test_words_without_names(self):
        """The first one is the model where it is one, in each verb that has one; the next are images or data."""
        data, one, two = self.root / "data", self.root / "data" / "val" / "dark" / "0.png", self.root / "data" / "val" / "bright" / "1.png"
        named = neurim("predict", f"model={self.folder}", f"source={one}")
        self.assertEqual(named.returncode, 0, named)
        for words in ([self.folder, one], [one, f"model={self.folder}"], [f"model={self.folder}", one], [self.folder / "weights" / "best.safetensors", one]):
            self.assertEqual(neurim("predict", *words).stdout, named.stdout, words)
        self.assertEqual(len(neurim("predict", self.folder, one, two, f"{data}/val/mid*/*.png").stdout.splitlines()), 7)
        evaluated = neurim("val", self.folder, data, f"project={self.root}/evaluated")
        self.assertEqual(evaluated.returncode, 0, evaluated)
        self.assertEqual(neurim("val", data, f"model={self.folder}", f"project={self.root}/evaluated").stdout.replace("val2", "val"), evaluated.stdout)
        for words in (["lenet5", data], [data, "lenet5"], [data, "model=lenet5"], ["lenet5", f"data={data}"]):
            run = neurim("train", *words, "--print-config")
            self.assertIn(f"\ndata: {data}\nmodel: lenet5\n", run.stdout, run)
        for words, code, said in ((["predict", one], 2, "the model is missing"), (["predict", "none", one], 3, "none: there is no such file"),
                                  (["predict", self.folder, "none.png"], 3, "none.png: there is no such file"), (["val", data], 2, "the model is missing"),
                                  (["val", "none"], 3, "none: there is no such file"), (["train", data], 2, "the model is missing"),
                                  (["train", "lenet5"], 2, "data is missing"), (["train", "lenet5", data, data], 2, "has no meaning here"),
                                  (["info", "lenet5", data], 2, "has no meaning here")):
            run = neurim(*words)
            self.assertEqual((run.returncode, run.stdout, len(run.stderr.splitlines())), (code, "", 1), run)
            self.assertIn(said, run.stderr)

    def test_text_files_may_be_saved_by_editors_on_windows(self):
        """With a byte order mark and with \\r\\n: what people write, and what a run wrote and reads again."""
        def windows(path, text=None):
            path.write_bytes(b"\xef\xbb\xbf" + (path.read_text() if text is None else text).replace("\n", "\r\n").encode())
            return path
        home = self.root / "windows"
        home.mkdir()
        names = windows(home / "names.txt", "dark\nmiddle\nbright\n")
        files = "".join(f"{path},{path.parent.name},{path.parent.parent.name}\n" for path in sorted((self.root / "data").rglob("*.png")))
        table = windows(home / "table.csv", "path,label,split\n" + files)
        lines = windows(home / "lines.jsonl", "".join(json.dumps(dict(zip(("path", "label", "split"), line.split(",")))) + "\n" for line in files.split()))
        config = windows(home / "config.yaml", f"data: {table}\nmodel: lenet5\nclasses: {names}\nepochs: 1\nproject: {home}\nname: run # mine\nplots: false\n")
        run = neurim("train", "--config", config)
        self.assertEqual(run.returncode, 0, run)
        self.assertEqual((home / "run" / "weights" / "labels.txt").read_text(), "dark\nmiddle\nbright\n")
        own = home / "run"
        for name in ("args.yaml", "results.csv", "metrics.jsonl", "data.json"):
            windows(own / name)
        resumed = neurim("resume", own, "epochs=2")
        self.assertEqual((resumed.returncode, "the data are not those" in resumed.stdout), (0, False), resumed)
        self.assertEqual([line.split(",")[0] for line in (own / "results.csv").read_text().splitlines()], ["epoch", "1", "2"])
        self.assertEqual([json.loads(line)["epoch"] for line in (own / "metrics.jsonl").read_text().splitlines()], [1, 2])
        self.assertEqual(neurim("data", "stats", lines, "--json").stdout.replace("lines.jsonl", "table.csv"), neurim("data", "stats", table, "--json").stdout)
        folder = home / "model"
        folder.mkdir()
        shutil.copy(own / "weights" / "model.json", folder / "config.json")
        shutil.copy(own / "weights" / "best.safetensors", folder / "model.safetensors")
        plain = neurim("predict", folder, self.root / "data" / "val")
        windows(folder / "config.json")
        self.assertEqual((plain.returncode, neurim("predict", folder, self.root / "data" / "val").stdout), (0, plain.stdout))
        text = windows(home / "story.txt", "the cat sat on the mat.\n" * 30)
        said = neurim("train", f"data={text}", "model=gru", "window=8", "hidden_size=4", "--dry-run").stdout
        self.assertIn("(720 characters, 12 different", said)
        for path, words in ((config, ["train", "--config", config]), (own / "args.yaml", ["resume", own]), (names, ["val", own, f"classes={names}"]),
                            (table, ["data", "stats", table]), (text, ["train", f"data={text}", "model=gru"])):
            path.write_bytes(path.read_bytes().decode("utf-8-sig").encode("utf-16"))
            wide = neurim(*words)
            self.assertEqual((wide.returncode, len(wide.stderr.splitlines()), f"{path}: is UTF-16; save it as UTF-8" in wide.stderr), (3, 1, True), wide)


if __name__ == "__main__":
    unittest.main()
