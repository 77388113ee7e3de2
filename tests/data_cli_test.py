"""The command on kinds of sets, and on what is wrong with them."""
import csv
import json
import os
import shutil
import statistics
import struct
import subprocess
import tarfile
import unittest
from pathlib import Path

from command import NEURIM, TrainedRun, instead, neurim, on_a_full_disk, png, tensors, write_png


class Data(TrainedRun):
    def test_benchmark_of_data(self):
        words = ["benchmark", "mode=data", f"data={self.root}/data", "imgsz=32", "batch=8", "seconds=0.05", "rounds=2", "--json"]
        hashes = set()
        for threads in (0, 1, 2):
            run = neurim(*words, f"threads={threads}", "augment=rrc,hflip")
            self.assertEqual(run.returncode, 0, run.stderr)
            summary = json.loads(run.stdout.splitlines()[-1])
            self.assertAlmostEqual(summary["images_per_second"], statistics.median(summary["samples"]))
            self.assertGreater(summary["decode_only_images_per_second"], 0)
            self.assertEqual(len(summary["samples"]), 2)
            files = list((self.root / "data" / "train").rglob("*.png"))
            self.assertEqual(summary["data_bytes"], sum(file.stat().st_size for file in files))
            hashes.add(summary["pixels_sha256"])
        self.assertEqual(len(hashes), 1)
        other = json.loads(neurim(*words, "augment=none").stdout.splitlines()[-1])
        self.assertNotIn(other["pixels_sha256"], hashes)
        self.assertIn("did you mean 'hflip'", neurim(*words, "augment=hflp").stderr)

    def test_scaled_decoding(self):
        drawn, jpegs = sorted(self.folder.glob("train_batch*.jpg")), self.root / "jpegs"
        for i in range(12):
            (jpegs / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
            shutil.copy(drawn[i % 2], jpegs / "ab"[i % 2] / f"{i}.jpg")
        hashes = {}
        for data in (jpegs, self.root / "data"):
            for decode in ("exact", "scaled"):
                run = neurim("benchmark", "mode=data", f"data={data}", "imgsz=24", "batch=4", f"decode={decode}", "seconds=0.02", "rounds=1",
                             "--json")
                self.assertEqual(run.returncode, 0, run.stderr)
                summary = json.loads(run.stdout.splitlines()[-1])
                self.assertEqual(summary["decode"], decode)
                hashes[data.name, decode] = summary["pixels_sha256"]
        self.assertNotEqual(hashes["jpegs", "exact"], hashes["jpegs", "scaled"])
        self.assertEqual(hashes["data", "exact"], hashes["data", "scaled"])  # PNG

        words = ["train", f"data={jpegs}", "model=lenet5", "batch=4", "epochs=1", "val_split=0.34", f"project={self.root}/runs"]
        weights = set()
        for name, options in (("usual", []), ("exact", ["decode=exact"]), ("scaled", ["decode=scaled"])):
            run = neurim(*words, *options, f"name={name}")
            self.assertEqual(run.returncode, 0, run.stderr)
            weights.add(tensors(self.root / "runs" / name / "weights" / "last.safetensors"))
        self.assertEqual(len(weights), 2)
        scaled = self.root / "runs" / "scaled"

        def answers(*options):
            run = neurim("predict", f"model={scaled}", f"source={jpegs}", "topk=2", "--json", *options)
            self.assertEqual(run.returncode, 0, run.stderr)
            return run.stdout
        self.assertEqual(answers(), answers("decode=scaled"))
        self.assertNotEqual(answers(), answers("decode=exact"))
        losses = set()
        for options in ([], ["decode=scaled"], ["decode=exact"]):
            run = neurim("val", scaled, "--json", f"project={self.root}/runs", *options)
            losses.add(json.loads(run.stdout.splitlines()[-1])["loss"])
        self.assertEqual(len(losses), 2)
        for options, said in (([], b"scaled"), (["decode=exact"], b"exact")):
            self.assertEqual(neurim("export", scaled, *options).returncode, 0)
            self.assertIn(b'"decode":"%s"' % said, (scaled / "export" / "best.onnx").read_bytes())
        for wrong in (words, ["predict", f"model={scaled}", f"source={jpegs}"], ["val", scaled], ["benchmark", "mode=data", f"data={jpegs}"]):
            run = neurim(*wrong, "decode=scald")
            self.assertEqual(run.returncode, 2, run)
            self.assertIn('did you mean "scaled"', run.stderr)

    def test_sixteen_bits(self):
        """Two classes that differ by a quarter of a level of 8 bits."""
        data = self.root / "deep"
        for i in range(64):
            rows = [struct.pack(">28H", *(30000 + (64 if i % 2 and 8 < x < 20 else 0) + (x * y + i) % 3 for x in range(28))) for y in range(28)]
            write_png(data / ("plain", "marked")[i % 2] / f"{i}.png", 28, 28, 16, 0, rows)
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

    def test_runs_in_the_folder_of_the_data_are_no_class(self):
        root = self.root / "inside"
        for i in range(8):
            png(root / "ab"[i % 2] / f"{i}.png", 28, 28, 30 * i)
        words = ["train", "data=.", "model=lenet5", "batch=4", "epochs=1", "val_split=0.25"]
        for verb in (words, ["val", "runs/classify/train"]):
            run = neurim(*verb, cwd=root)
            self.assertEqual(run.returncode, 0, run)
        again = neurim(*words, cwd=root)
        self.assertEqual(again.returncode, 0, again)
        said = "left out as written by train or val: 1 folder, such as ./runs/classify/train"
        self.assertEqual(again.stdout.count(said), 1, again)
        self.assertNotIn("hold no image", again.stdout)
        known = json.loads((root / "runs" / "classify" / "train2" / "data.json").read_text())
        self.assertEqual(known["train"]["classes"], {"a": 3, "b": 3})
        scan = neurim("data", "scan", ".", "--json", cwd=root)
        self.assertEqual([json.loads(line)["event"] for line in scan.stdout.splitlines()], 8 * ["file"] + ["summary"])

    def test_a_validation_set_and_a_single_class_are_no_data_to_train_on(self):
        whole, shards, one = (self.root / name for name in ("whole-wds", "only-val", "one-class"))
        self.assertEqual(neurim("data", "convert", self.root / "data", "to=wds", f"out={whole}").returncode, 0)
        shards.mkdir()
        shutil.copy(whole / "val-000000.tar", shards)
        for i in range(3):
            png(one / "cats" / f"{i}.png", 28, 28, 40 * i)
        for data, count, said in ((shards, 15, "the training split is empty: it holds 15 images of val alone"),
                                  (one, 3, 'only the class "cats" was found')):
            for task, *options in (["scan"], ["stats", "imgsz=28", "in_chans=1"], ["dedupe"], ["pack", f"out={data}.pack"],
                                   ["convert", "to=folders", f"out={data}-folders"],
                                   ["preview", "imgsz=28", "in_chans=1", f"out={data}.jpg"]):
                run = neurim("data", task, data, *options, "--json")
                self.assertEqual(run.returncode, 0, run)
                summary = json.loads(run.stdout.splitlines()[-1])
                if task != "dedupe":
                    self.assertIn(count, [summary.get(key) for key in ("ok", "samples", "pictures")], run)
            for path in (data, f"{data}.pack"):
                run = neurim("train", f"data={path}", "model=lenet5", f"project={self.root}/runs", "name=none")
                self.assertEqual((run.returncode, len(run.stderr.splitlines())), (3, 1), run)
                self.assertIn(said, run.stderr)
        self.assertFalse((self.root / "runs" / "none").exists())

    def test_a_mark_before_the_first_class_is_no_part_of_it(self):
        names = self.root / "marked.txt"
        names.write_text("\ufeffmiddle\ndark\nbright\n", encoding="utf-8")
        run = neurim(*instead(self.words, "epochs=1"), f"classes={names}", "plots=false", "name=marked")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual((self.root / "runs" / "marked" / "weights" / "labels.txt").read_bytes(), b"middle\ndark\nbright\n")

    def test_labels_that_are_numbers_are_named(self):
        table = self.root / "numbers.csv"
        files = [f"data/{split}/{name}/{i}.png,{number},{split}" for number, name in enumerate(("dark", "middle", "bright"))
                 for split, count in (("train", 14), ("val", 5)) for i in range(count)]
        table.write_text("path,label,split\n" + "\n".join(files) + "\n")
        words = ["train", f"data={table}", "model=lenet5", "epochs=1", "plots=false", f"project={self.root}/runs", "name=numbers"]
        run = neurim(*words, "classes=dark,middle,bright")
        self.assertEqual(run.returncode, 0, run)
        self.assertEqual(run.stdout.count("labels are numbers of the classes: 0 is dark, 2 is bright"), 1, run)
        folder = self.root / "runs" / "numbers"
        self.assertEqual((folder / "weights" / "labels.txt").read_bytes(), b"dark\nmiddle\nbright\n")
        top1 = [json.loads(neurim("val", folder, f"data={data}", "--json", f"project={self.root}/runs").stdout.splitlines()[-1])["top1"]
                for data in (table, self.root / "data")]
        self.assertEqual(top1[0], top1[1])
        for classes, code, said in (("dark,middle", 3, "the classes [2] are not known"), ("hat", 2, "no file hat; give a file with a name a line")):
            run = neurim(*words, f"classes={classes}")
            self.assertEqual((run.returncode, len(run.stderr.splitlines())), (code, 1), run)
            self.assertIn(said, run.stderr)

    def test_tables_of_spreadsheets_labels_txt_and_measurements(self):
        root = self.root / "spreadsheet"
        for i in range(12):
            png(root / f"{i}.png", 28, 28, 20 * i)
        table = root / "photos.csv"
        words = ["train", f"data={table}", "model=lenet5", "epochs=1", "val_split=0.34", "plots=false", f"project={root}/runs"]

        def write(separator, label):
            lines = [separator.join((f"{i}.png", str(label(i)))) for i in range(12)]
            table.write_text("\n".join([separator.join(("path", "label")), *lines]) + "\n")

        for separator, name in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
            write(separator, lambda i: ("red", "blue")[i % 2])
            self.assertEqual(neurim("data", "scan", table).returncode, 0)
            run = neurim(*words, f"name={name}")
            self.assertEqual(run.returncode, 0, run)
            self.assertEqual(neurim("val", root / "runs" / name, f"data={table}", f"project={root}/val").returncode, 0)
        write(";", lambda i: i / 8 + 0.37)
        run = neurim(*words, "name=measured")
        self.assertEqual((run.returncode, len(run.stderr.splitlines())), (3, 1), run)
        self.assertIn("(12 different ones of 12 images), which look like measurements: give target=COLUMN to learn them as numbers", run.stderr)
        (root / "labels.txt").write_text("red\nblue\n")
        write(";", lambda i: i % 2)
        run = neurim(*words, "name=numbers")
        self.assertEqual(run.returncode, 0, run)
        self.assertIn("labels are numbers of the classes in labels.txt: 0 is red, 1 is blue", run.stdout)
        self.assertEqual((root / "runs" / "numbers" / "weights" / "labels.txt").read_text(), "red\nblue\n")
        write(";", lambda i: i % 3)
        run = neurim(*words, "name=beyond")
        self.assertEqual((run.returncode, len(run.stderr.splitlines())), (3, 1), run)
        self.assertRegex(run.stderr, r"photos\.csv:4: label 2, but .*labels\.txt names 2 classes, 0 to 1;")

    def test_names_that_pictures_cannot_show(self):
        root = self.root / "undrawn"
        for i in range(12):
            png(root / "photos" / ("cat", "\U0010FFFD")[i % 2] / f"{i}.png", 28, 28, 20 * i)  # a letter of no font
        words = ["train", f"data={root}/photos", "model=lenet5", "epochs=1", "val_split=0.34", f"project={root}/runs"]
        said = "images show numbers for 1 class name that the font cannot draw, such as #1 for \U0010FFFD"
        for more, count in (([], 1), (["plots=false"], 0)):
            run = neurim(*words, *more)
            self.assertEqual((run.returncode, run.stdout.count(said)), (0, count), run)
        for more in (["val", root / "runs" / "train", f"project={root}/runs"], ["data", "preview", root / "photos", "imgsz=28", f"out={root}/x.jpg"]):
            run = neurim(*more)
            self.assertEqual((run.returncode, run.stdout.count(said)), (0, 1), run)

    def test_packed_data_train_as_the_files_do(self):
        pack = self.root / "set.pack"
        run = neurim("data", "pack", self.root / "data", f"out={pack}", "--json")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(json.loads(run.stdout.splitlines()[-1])["samples"], 57)
        self.assertEqual(neurim("data", "pack", self.root / "data", f"out={pack}").returncode, 2)  # nothing is overwritten
        words = instead(self.words, f"data={pack}")
        packed = neurim(*words, "name=packed", "--json")
        self.assertEqual(packed.returncode, 0, packed.stderr)
        self.assertEqual(tensors(self.root / "runs" / "packed" / "weights" / "best.safetensors"),
                         tensors(self.folder / "weights" / "best.safetensors"))

    def test_rare_classes(self):
        root = self.root / "rare"
        for i in range(60):
            png(root / "data" / ("rare" if i % 10 == 0 else "common") / f"{i}.png", 28, 28, 200 if i % 10 == 0 else 20)
        words = ["train", f"data={root}/data", "model=lenet5", "batch=16", "epochs=1", f"project={root}/runs"]
        run = neurim(*words, "sampler=weighted", "name=never")
        self.assertEqual((run.returncode, len(run.stderr.splitlines())), (2, 1), run)
        self.assertIn("column weight", run.stderr)
        self.assertFalse((root / "runs" / "never").exists())
        plain = neurim(*words, "name=plain")
        self.assertEqual(plain.returncode, 0, plain.stderr)
        self.assertIn("sampler=balanced", plain.stdout)
        found = {tensors(root / "runs" / "plain" / "weights" / "best.safetensors")}
        for option in ("sampler=balanced", "class_weights=balanced", "class_weights=sqrt"):
            run = neurim(*words, option, f"name={option.replace('=', '-')}")
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertNotIn("helps the rare ones", run.stdout)
            found.add(tensors(root / "runs" / option.replace("=", "-") / "weights" / "best.safetensors"))
        self.assertEqual(len(found), 4)

    def test_mean_and_deviation_of_the_data(self):
        measured = json.loads(neurim("data", "stats", self.root / "data", "imgsz=28", "in_chans=1", "--json").stdout.splitlines()[-1])
        run = neurim(*instead(self.words, "epochs=1"), "mean=auto", "std=auto", "plots=false", "name=measured")
        self.assertEqual(run.returncode, 0, run.stderr)
        card = json.loads((self.root / "runs" / "measured" / "weights" / "model.json").read_text())
        text = json.dumps(card)
        for figure in (measured["mean"][0], measured["std"][0]):
            self.assertIn(str(figure)[:10], text)
        self.assertEqual(neurim(*self.words, "mean=half").returncode, 2)

    def test_a_constant_channel_is_divided_by_one(self):
        data = self.root / "constant"
        for i in range(8):  # RGB without blue
            row = [level for x in range(20) for level in (i * 20 + x, 9 * x, 77)]
            write_png(data / "ab"[i % 2] / f"{i}.png", 20, 20, 8, 2, [row] * 20)
        run = neurim("train", f"data={data}", "model=resnet20", "imgsz=32", "mean=auto", "std=auto", "epochs=1", "batch=4", "plots=false",
                     f"project={self.root}/runs", "name=constant", "--json")
        self.assertEqual(run.returncode, 0, run)
        self.assertEqual(run.stderr.count("channel 3 of 3 has one level in all images that were measured, so that std is 1 there"), 1, run)
        run = neurim("data", "stats", data, "imgsz=32", "--json")
        self.assertEqual(json.loads(run.stdout.splitlines()[-1])["std"][2], 1)
        for i in range(8):  # black
            write_png(data / "ab"[i % 2] / f"{i}.png", 20, 20, 8, 0, [[0] * 20] * 20)
        run = neurim("train", f"data={data}", "model=lenet5", "mean=auto", "std=auto", "epochs=1", "batch=4", "plots=false",
                     f"project={self.root}/runs", "name=black")
        self.assertEqual(run.returncode, 0, run)
        self.assertIn("channel 1 of 1 has one level", run.stdout)

    def test_blanks_around_the_commas_of_lists(self):
        run = neurim("train", f"data={self.root}/data", "model=lenet5", "classes= middle, dark ,bright", "mean= 0.5 ", "std=0.5 ", "scale=0.5 , 1",
                     "imgsz=28 x 28", "random_resized_crop=true", "batch=16", "epochs=1", "plots=false", f"project={self.root}/runs", "name=blanks")
        self.assertEqual(run.returncode, 0, run)
        self.assertIn("(3 classes", run.stdout)
        run = neurim("benchmark", "mode=data", f"data={self.root}/data", "imgsz=32", "batch=8", "seconds=0.02", "rounds=1",
                     "augment=rrc( 0.3 , 1 ), hflip")
        self.assertEqual(run.returncode, 0, run)

    def test_mixing_and_further_changes(self):
        found = set()
        for name, options in (("plain", []), ("mixed", ["mixup=0.2", "cutmix=1"]), ("again", ["mixup=0.2", "cutmix=1"]),
                              ("changed", ["aa=rand-m9-n2,erase(0.25)"])):
            run = neurim(*self.words, *options, f"name=mix-{name}", "augment=false", "plots=false")
            self.assertEqual(run.returncode, 0, run.stderr)
            found.add(tensors(self.root / "runs" / f"mix-{name}" / "weights" / "last.safetensors"))
        self.assertEqual(len(found), 3)
        self.assertIn("did you mean", neurim(*self.words, "changes=triviall").stderr)
        for name, options in (("shown", []), ("shown-mixed", ["cutmix=1"])):  # what is drawn is what was trained on
            self.assertEqual(neurim(*instead(self.words, "epochs=1"), *options, f"name={name}", "augment=false").returncode, 0)
        plain, mixed = ((self.root / "runs" / name / "train_batch0.jpg").read_bytes() for name in ("shown", "shown-mixed"))
        self.assertNotEqual(plain, mixed)

    def test_folds_and_tables(self):
        rows = ["path,label,group"]
        for split in ("train", "val"):
            rows += [f"{path},{path.parent.name},{i % 7}" for i, path in enumerate(sorted((self.root / "data" / split).rglob("*.png")))]
        table = self.root / "all.csv"
        table.write_text("\n".join(rows) + "\n")
        words = instead(self.words, f"data={table}", "epochs=1")
        samples = 0
        for fold in range(3):
            run = neurim(*words, "folds=3", f"fold={fold}", f"name=fold{fold}", "plots=false", "--json")
            self.assertEqual(run.returncode, 0, run.stderr)
            samples += json.loads(run.stdout.splitlines()[-1])["samples"]
        self.assertEqual(samples, 57)

    def test_pictures_of_many_bytes(self):
        data = self.root / "large"
        png(data / "a" / "0.png", 28, 28, 1)
        png(data / "b" / "0.png", 1200, 1200, 1)
        run = neurim("data", "stats", data, "imgsz=28", "in_chans=1", "max_image_mib=1", "--json")
        self.assertEqual((run.returncode, json.loads(run.stdout.splitlines()[-1])["pictures"]), (0, 1), run)
        run = neurim("data", "scan", data, "max_image_mib=1")
        self.assertIn("1200 x 1200 pixels takes 2 MiB decoded, more than the 1 MiB of max_image_mib", run.stdout)
        run = neurim("data", "stats", data, "imgsz=28", "in_chans=1", "max_image_mib=2", "--json")
        self.assertEqual(json.loads(run.stdout.splitlines()[-1])["pictures"], 2, run)
        self.assertEqual(neurim("data", "stats", data, "max_image_mib=0").returncode, 2)

    def test_odd_pictures_are_what_their_manifest_says(self):
        archive = Path(os.environ.get("NEURIM_DATA", "none"), "images-odd.tar")
        if not archive.is_file():
            self.skipTest("NEURIM_DATA does not lead to images-odd.tar")
        with tarfile.open(archive) as tar:
            tar.extractall(self.root, filter="data")
        odd = self.root / "images-odd"
        with open(odd / "MANIFEST.tsv", newline="") as file:
            manifest = {row["file"]: row for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)}
        with open(self.root / "scanned.jsonl", "w+") as output, subprocess.Popen([NEURIM, "data", "scan", odd, "--json"], stdout=output) as process:
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            files = [json.loads(line) for line in output]
        self.assertEqual(process.returncode, 0)
        self.assertLess(used.ru_maxrss, 1.5 * 2**20)  # KiB; decoded, an image takes 256 MiB at most
        found = {file["file"]: file for file in files if file["event"] == "file"}
        self.assertEqual(set(found), set(manifest))
        for name, row in manifest.items():
            one = found[name]
            if row["expect"] == "decode":
                self.assertEqual([one["status"], one["width"], one["height"]], ["ok", int(row["upright_width"]), int(row["upright_height"])], one)
                self.assertEqual(max(1, one["orientation"]), max(1, int(row["exif_orientation"])), one)
            else:
                self.assertIn(one["status"], ("error", "partial") if row["expect"] == "error-or-partial" else ("ok", "error", "partial"), one)
            self.assertEqual(one["status"] == "ok" or one["reason"] != "", True, one)

    def test_what_a_walk_leaves_out_is_said(self):
        root = self.root / "walk"
        for name, level in (("a/0.png", 1), ("a/1.png", 2), ("b/0.png", 90), ("b/1.png", 91)):
            png(root / name, 28, 28, level)
        for name in ("c/0.tga", "c/1.tga", "a/notes.txt"):
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text("x")
        run = neurim("data", "stats", root, "imgsz=28", "in_chans=1")
        self.assertEqual(run.returncode, 0, run)
        self.assertIn(f"left out as no images: 3 files, such as {root}/a/notes.txt", run.stdout)
        self.assertIn(f"no classes, as they hold no image: 1 folder, such as {root}/c", run.stdout)

    def test_a_log_beside_folders_of_classes_is_no_table(self):
        root = self.root / "logged"
        for i in range(8):
            png(root / "ab"[i % 2] / f"{i}.png", 28, 28, 30 * i)
        for content in ("", "epoch,loss\n1,2,3\n", "path,path\n1,2\n", '"open\n'):
            (root / "train.csv").write_text(content)
            run = neurim("data", "stats", root, "imgsz=28", "in_chans=1", "--json")
            self.assertEqual(run.returncode, 0, run)
            self.assertEqual(json.loads(run.stdout.splitlines()[-1])["splits"]["train"]["classes"], [4, 4])

    def test_the_classes_of_both_splits_are_named(self):
        table = self.root / "unlike.csv"
        table.write_text("path,label,split\n" + "".join(f"data/train/dark/{i}.png,{label},{split}\n" for i, (label, split) in enumerate(
            (("a", "train"), ("b", "train"), ("a", "val"), ("z", "val")))))
        run = neurim("train", f"data={table}", "model=lenet5")
        self.assertEqual((run.returncode, len(run.stderr.splitlines())), (3, 1), run)
        self.assertIn("val has the classes [a, z], but train has [a, b]; correct the labels or the splits of [z]", run.stderr)

    def test_bad_pictures_of_both_splits_count_together(self):
        root = self.root / "both"
        for split, count in (("train", 60), ("val", 40)):
            for i in range(count):
                png(root / split / "ab"[i % 2] / f"{i}.png", 28, 28, i)
            for i in range(2):
                (root / split / "ab"[i] / "bad.png").write_bytes(b"")
        words = ["train", f"data={root}", "model=lenet5", "epochs=1", f"project={self.root}/runs", "name=both"]
        run = neurim(*words, "max_bad=3")
        self.assertEqual((run.returncode, len(run.stderr.splitlines())), (3, 1), run)
        self.assertIn("4 images cannot be read (2 of train, 2 of val), more than the 3 that max_bad allows", run.stderr)
        run = neurim(*words, "max_bad=4")
        self.assertEqual((run.returncode, run.stdout.count("skipped: ")), (0, 4), run)

    def test_numbers_of_channels(self):
        for count in ("0", "-1", "513", "4294967299", "2x"):
            for words in (["stats"], ["preview", f"out={self.root}/channels.jpg"]):
                run = neurim("data", words[0], self.root / "data", *words[1:], f"in_chans={count}", "imgsz=28")
                self.assertEqual((run.returncode, len(run.stderr.splitlines())), (2, 1), run)
                self.assertIn("give 1 to 512", run.stderr)

    def test_a_cache_that_keeps_nothing_is_said(self):
        words = [*instead(self.words, "epochs=1"), "name=kept", "--dry-run"]
        said = "cache=ram keeps no training image"
        self.assertIn(said, neurim(*words, "cache=ram", "random_resized_crop=true").stdout)
        self.assertNotIn(said, neurim(*words, "cache=ram", "random_resized_crop=false").stdout)

    def test_a_disk_cache_sees_new_pictures_of_the_same_names(self):
        root, cache = self.root / "redrawn", self.root / "cache"
        kept = []
        for seed in (0, 1):
            for i in range(8):
                png(root / "ab"[i % 2] / f"{i}.png", 40, 40, 20 * i + seed)
            run = neurim("train", f"data={root}", "model=lenet5", "imgsz=28", "batch=4", "epochs=1", "cache=disk", "augment=false",
                         f"project={self.root}/runs", f"name=redrawn{seed}", env={**os.environ, "XDG_CACHE_HOME": str(cache)})
            self.assertEqual(run.returncode, 0, run.stderr)
            kept.append({path.name for path in (cache / "neurim").iterdir()})
        self.assertTrue(kept[0] < kept[1], kept)

    def test_predict_sees_the_pictures_that_training_would(self):
        root = self.root / "shown"
        for name in ("a.png", "deep/b.png", ".hidden.png", "__MACOSX/._a.png", "without_extension"):
            png(root / name, 28, 28, 90)
        (root / "notes.txt").write_text("x")
        (root / "loop").symlink_to("loop")
        (root / "around").symlink_to(root)
        run = neurim("predict", f"model={self.folder}", f"source={root}", "--json")
        self.assertEqual(run.returncode, 0, run)
        shown = [json.loads(line)["path"] for line in run.stdout.splitlines()[:-1]]
        self.assertEqual(shown, [f"{root}/{name}" for name in ("a.png", "deep/b.png", "without_extension")])
        for name in ("x.png", "y.png"):
            (self.root / "unreadable").mkdir(exist_ok=True)
            (self.root / "unreadable" / name).write_bytes(b"")
        run = neurim("predict", f"model={self.folder}", f"source={self.root}/unreadable")
        self.assertEqual((run.returncode, len(run.stderr.splitlines())), (3, 1), run)
        self.assertIn("none of the 2 images can be read", run.stderr)

    def test_val_says_when_its_split_is_another(self):
        root = self.root / "grown"
        for i in range(30):
            png(root / "abc"[i % 3] / f"{i}.png", 28, 28, 8 * i)
        self.assertEqual(neurim("train", f"data={root}", "model=lenet5", "epochs=1", f"project={self.root}/runs", "name=grown").returncode, 0)
        words = ["val", self.root / "runs" / "grown", f"project={self.root}/runs"]
        said = "the val split is another than in training"
        self.assertNotIn(said, neurim(*words).stdout)
        for i in range(30, 36):
            png(root / "abc"[i % 3] / f"{i}.png", 28, 28, 8 * i % 256)
        grown = neurim(*words)
        self.assertEqual(grown.returncode, 0, grown)
        self.assertIn(said, grown.stdout)
        self.assertNotIn(said, neurim(*words, f"data={self.root}/data/train", "classes=bright,dark,middle").stdout)

    def test_a_full_disk_ends_with_4_and_leaves_nothing(self):
        home = self.root / "no-room"
        home.mkdir()
        for words in (["data", "pack", self.root / "data", f"out={home}/x.pack"], ["data", "convert", self.root / "data", "to=wds", f"out={home}/wds"],
                      ["data", "convert", self.root / "data", "to=folders", f"out={home}/folders"],
                      ["data", "split", self.root / "data", f"out={home}/x.csv"], ["data", "preview", self.root / "data", "imgsz=28", f"out={home}/x.jpg"],
                      ["export", self.folder, f"output={home}/a/x.onnx"],
                      ["predict", f"model={self.folder}", self.root / "data" / "val" / "dark" / "0.png", f"save_csv={home}/x.csv"],
                      instead(self.words, f"project={home}/runs"), [*instead(self.words, f"project={home}/runs"), "cache=disk", "augment=false"]):
            run = on_a_full_disk(*words, env={**os.environ, "XDG_CACHE_HOME": str(home)})
            self.assertEqual((run.returncode, len(run.stderr.splitlines())), (4, 1), run)
            self.assertIn("File too large", run.stderr)
        left = [str(path) for path in home.rglob("*") if path.is_file() and path.stat().st_size > 0]
        self.assertEqual(left, [])


if __name__ == "__main__":
    unittest.main()
