"""The tasks of `neurim data`."""
import csv
import json
import os
import shutil
import statistics
import struct
import unittest
import zipfile
from pathlib import Path

from command import TrainedRun, neurim, npy, npy_picture, png, tensors


class DataTasks(TrainedRun):
    def test_data_scan(self):
        odd = self.root / "odd"
        (odd / "x").mkdir(parents=True)
        whole = (self.root / "data" / "train" / "dark" / "0.png").read_bytes()
        for name, content in (("ok.png", whole), ("named.jpg", whole), ("cut.png", whole[:-30]), ("text.jpg", b"hello"),
                              ("content", whole), ("notes.txt", b"hello")):
            (odd / "x" / name).write_bytes(content)
        before = sorted((path, path.stat().st_mtime_ns) for path in odd.rglob("*"))
        run = neurim("data", "scan", odd, "--json")
        self.assertEqual(run.returncode, 0, run.stderr)
        *files, summary = map(json.loads, run.stdout.splitlines())
        self.assertEqual({file["file"]: file["status"] for file in files},
                         {"x/content": "ok", "x/cut.png": "partial", "x/named.jpg": "ok", "x/ok.png": "ok", "x/text.jpg": "error"})
        found = {file["file"]: file for file in files}
        self.assertEqual([found["x/ok.png"][key] for key in ("width", "height", "orientation", "channels", "bits", "reason")],
                         [28, 28, 1, 1, 8, ""])
        self.assertIn("PNG", found["x/named.jpg"]["reason"])
        self.assertIn("not an image", found["x/text.jpg"]["reason"])
        self.assertEqual([summary[key] for key in ("ok", "partial", "error", "other_files")], [3, 1, 1, 1])
        self.assertEqual(sorted((path, path.stat().st_mtime_ns) for path in odd.rglob("*")), before)
        self.assertEqual(neurim("data", "scan", odd, "strict=true").returncode, 3)
        self.assertIn("1 unreadable", neurim("data", "scan", odd).stdout)

    def test_data_scan_of_labels_and_of_sets_that_are_no_folders(self):
        root = self.root / "labels"
        for name, level in (("train/ant/a.png", 3), ("train/Ant/b.png", 3), ("train/bee/c.png", 60), ("val/bee/d.png", 90)):
            png(root / name, 12, 12, level)
        (root / "train/none").mkdir()
        before = sorted((path, path.stat().st_mtime_ns) for path in root.rglob("*"))
        run = neurim("data", "scan", root, "--json")
        self.assertEqual(run.returncode, 0, run.stderr)
        *lines, summary = map(json.loads, run.stdout.splitlines())
        self.assertEqual([line["event"] for line in lines], 4 * ["file"] + 4 * ["label_problem"])
        problems = {line["kind"]: line for line in lines[4:]}
        self.assertEqual(sorted(problems), ["case", "empty", "missing_class", "two_classes"])
        self.assertEqual(problems["case"]["names"], ["Ant", "ant"])
        self.assertEqual(problems["two_classes"]["names"], [f"{root}/train/Ant/b.png", f"{root}/train/ant/a.png"])
        self.assertEqual([summary["ok"], summary["label_problems"]], [4, 4])
        self.assertEqual(neurim("data", "scan", root, "strict=true").returncode, 0)
        said = neurim("data", "scan", root).stdout
        self.assertIn("labels   4 problems", said)
        self.assertIn("val has no images of Ant, ant", said)
        self.assertEqual(sorted((path, path.stat().st_mtime_ns) for path in root.rglob("*")), before)
        self.assertIn("0, as for label problems", neurim("data", "scan", "--help").stdout)

        table = root.parent / "labels.csv"
        table.write_text("path, label\nlabels/train/ant/a.png, ant\nlabels/train/ant/a.png, bee\nlabels/gone.png, bee\n")
        for form, out in (("wds", "labels-wds"), ("tfrecord", "labels-records"), ("folders", "labels-folders")):
            self.assertEqual(neurim("data", "convert", self.root / "data", f"to={form}", f"out={self.root / out}").returncode, 0)
        self.assertEqual(neurim("data", "pack", self.root / "data", f"out={self.root / 'labels.pack'}").returncode, 0)
        counts = set()
        for data, inside in ((self.root / "labels-wds", ".tar["), (self.root / "labels-records", ".tfrecord["),
                             (self.root / "labels-folders", ".png"), (self.root / "labels.pack", ".png")):
            run = neurim("data", "scan", data, "--json")
            self.assertEqual(run.returncode, 0, run.stderr)
            *lines, summary = map(json.loads, run.stdout.splitlines())
            files = [line for line in lines if line["event"] == "file"]
            self.assertTrue(all(inside in line["file"] and line["status"] == "ok" for line in files))
            counts.add((len(files), summary["label_problems"]))
        self.assertEqual(len(counts), 1)
        run = neurim("data", "scan", table, "--json")
        self.assertEqual(run.returncode, 0, run.stderr)
        *lines, summary = map(json.loads, run.stdout.splitlines())
        self.assertEqual([line["status"] for line in lines[:3]], ["ok", "ok", "error"])
        self.assertEqual([line["kind"] for line in lines[3:]], ["two_classes", "missing_file"])
        self.assertEqual(neurim("data", "scan", table, "strict=true").returncode, 3)

    def test_data_scan_looks_at_the_set_that_training_takes(self):
        shards = self.root / "with-preview"
        self.assertEqual(neurim("data", "convert", self.root / "data", "to=wds", f"out={shards}").returncode, 0)
        png(shards / "loose.jpg", 28, 28, 1)
        run = neurim("data", "scan", shards, "--json")
        self.assertEqual(run.returncode, 0, run)
        files = [line["file"] for line in map(json.loads, run.stdout.splitlines()) if line["event"] == "file"]
        self.assertEqual((len(files), [file for file in files if "loose" in file]), (57, []))
        classes = self.root / "with-notes"
        for name in ("a/0.png", "b/0.png", "loose.png"):
            png(classes / name, 28, 28, 1)
        (classes / "c").symlink_to("nowhere")
        said = neurim("data", "scan", classes).stdout
        self.assertIn(f"left out as of no class: 1 image, such as {classes}/loose.png", said)
        self.assertIn(f"left out as leading nowhere: 1 symbolic link, such as {classes}/c", said)

    def test_data_scan_of_a_set_that_cannot_be_read_looks_at_its_pictures(self):
        packed = self.root / "beside-its-archive"
        png(packed / "0.png", 28, 28, 1)
        (packed / "all.tar.gz").write_bytes(b"\x1f\x8b")
        run = neurim("data", "scan", packed, "--json")
        self.assertEqual(run.returncode, 0, run)
        image, problem, summary = map(json.loads, run.stdout.splitlines())
        self.assertEqual((image["file"], problem["kind"], summary["ok"]), ("0.png", "unusable", 1))

    def test_stats_say_why_pictures_are_left_out(self):
        data = self.root / "six-bands"
        for i in range(4):
            npy_picture(data / "ab"[i % 2] / f"{i}.npy", 30, 34, 6, 40 * i)
        run = neurim("data", "stats", data, "imgsz=28")
        self.assertEqual((run.returncode, len(run.stderr.splitlines())), (3, 1), run)
        self.assertIn(f"none of 4 train images can be used, such as {data}/a/0.npy: it has 6 channels and the model takes 3", run.stderr)
        png(data / "a" / "gray.png", 28, 28, 1)
        run = neurim("data", "stats", data, "imgsz=28")
        self.assertEqual(run.returncode, 0, run)
        self.assertIn(f"left out of these: 4 images, such as {data}/a/0.npy: it has 6 channels", run.stdout)

    def test_a_folder_is_no_file_to_write(self):
        folder = self.root / "given.csv"
        folder.mkdir()
        image = self.root / "data" / "val" / "dark" / "0.png"
        for words, code in ((["export", self.folder, f"output={folder}"], 4), (["export", self.folder, f"output={self.root}/none/"], 4),
                            (["predict", f"model={self.folder}", image, f"save_csv={folder}"], 4),
                            (["data", "pack", self.root / "data", f"out={folder}"], 2), (["data", "split", self.root / "data", f"out={folder}"], 2),
                            (["data", "preview", self.root / "data", f"out={folder}"], 2), (["data", "dedupe", self.root / "data", f"sheet={folder}"], 2)):
            run = neurim(*words)
            self.assertEqual((run.returncode, len(run.stderr.splitlines()), run.stdout), (code, 1, ""), run)
            self.assertIn("is a folder; give the name of a file", run.stderr)
        self.assertEqual(list(folder.iterdir()), [])

    def test_arrays_with_other_axes(self):
        inputs = self.root / "axes"
        inputs.mkdir()
        for shape, fix in (("(1, 28, 28, 1)", "x.transpose(0, 3, 1, 2)"), ("(28, 28, 1)", "x.transpose(2, 0, 1)[None]"),
                           ("(1, 28, 28)", "x[:, None]"), ("(28, 28)", "x[None, None]"), ("(1, 1, 14, 56)", "the model was made for")):
            npy(inputs / "input_0.npy", shape, [0] * 784)
            run = neurim("run", f"model={self.folder}", f"inputs={inputs}", f"outputs={self.root}/out")
            self.assertEqual((run.returncode, len(run.stderr.splitlines())), (2, 1), run)
            for said in (f"{inputs}/input_0.npy", "f32" + shape.replace(" ", ""), "(1,1,28,28)", fix):
                self.assertIn(said, run.stderr)

    def test_what_cannot_be_converted_leaves_nothing(self):
        numpy_set = self.root / "six.npz"
        with zipfile.ZipFile(numpy_set, "w") as archive:
            for member, shape, values in (("x_train.npy", "(4, 9, 9, 6)", bytes(4 * 9 * 9 * 6)), ("y_train.npy", "(4,)", bytes([0, 1, 0, 1]))):
                header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}"
                header += " " * (63 - (10 + len(header)) % 64) + "\n"
                archive.writestr(member, b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + values)
        run = neurim("data", "convert", numpy_set, "to=wds", f"out={self.root / 'six-out'}")
        self.assertEqual(run.returncode, 3, run)
        self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)
        self.assertIn("none of the 4 images can be converted", run.stderr)
        self.assertIn("6 channels", run.stderr)
        self.assertFalse((self.root / "six-out").exists())

    def test_data_download_from_a_mirror(self):
        mirror = Path(os.environ.get("NEURIM_DATA", "none"), "fashion-mnist")
        if not mirror.is_dir():
            self.skipTest("NEURIM_DATA does not lead to fashion-mnist")
        out = self.root / "fashion"
        run = neurim("data", "download", "fashion-mnist", f"mirror={mirror}", f"out={out}")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(len(list(out.iterdir())), 4)
        again = neurim("data", "download", "fashion-mnist", f"mirror={self.root}/nowhere", f"out={out}")
        self.assertEqual((again.returncode, again.stdout.count("is there already")), (0, 4), again)
        wrong = neurim("data", "download", "mnist", f"mirror={mirror}", f"out={self.root}/mnist")
        self.assertEqual(wrong.returncode, 3, wrong)
        self.assertIn("not the published file", wrong.stderr)
        self.assertEqual(list((self.root / "mnist").iterdir()), [])
        self.assertIn("did you mean 'cifar10'", neurim("data", "download", "cifar-10").stderr)

    def test_data_split(self):
        flat = self.root / "flat"
        for i in range(60):
            png(flat / "abc"[i % 3] / f"{i}.png", 28, 28, i)
        table = self.root / "flat.csv"
        run = neurim("data", "split", flat, f"out={table}", "val_split=0.2", "test_split=0.1", "--json")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(json.loads(run.stdout.splitlines()[-1])["splits"], {"train": 42, "val": 12, "test": 6})
        with open(table, newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len({row["path"] for row in rows}), 60)
        self.assertTrue(all((self.root / row["path"]).is_file() for row in rows))
        stats = json.loads(neurim("data", "stats", table, "imgsz=28", "--json").stdout.splitlines()[-1])
        self.assertEqual([stats["splits"][name]["classes"] for name in ("train", "val", "test")], [[14] * 3, [4] * 3, [2] * 3])
        packed = self.root / "flat.pack"
        neurim("data", "pack", flat, f"out={packed}")
        self.assertIn("are no files", neurim("data", "split", packed, f"out={self.root}/none.csv").stderr)

    def test_data_split_writes_what_is_read_back(self):
        root = self.root / "places"
        names = ["plain", "a,b", 'a"b', " blank ", "caf\u00e9"]
        for name in names:
            for i in range(4):
                png(root / "here" / "photos" / name / f"{i}, .png", 28, 28, 9 * i)
        for folder in ("beside", "far/away/deep"):
            (root / folder).mkdir(parents=True)
        (root / "here" / "link").symlink_to(root / "far" / "away")
        (root / "here" / "deep").symlink_to(root / "far" / "away" / "deep")
        (root / "here" / "images").symlink_to(root / "here" / "photos")
        for data, out in (("photos", "t.csv"), ("photos", "../t.csv"), ("photos", "../beside/t.csv"), ("photos", "./../here/../u.csv"),
                          ("photos", "link/t.csv"), ("../here/photos", "link/../../t.csv"), ("images", "../far/t.csv"),
                          ("deep/../../../here/photos", "v.csv"), ("photos", "deep/t.csv"), (root / "here" / "photos", "link/u.csv")):
            run = neurim("data", "split", data, f"out={out}", "val_split=0.25", cwd=root / "here")
            self.assertEqual(run.returncode, 0, run)
            table = (root / "here" / out).resolve()
            with open(table, newline="") as file:
                rows = list(csv.DictReader(file))
            self.assertEqual(len(rows), 20)
            for row in rows:
                self.assertEqual(os.path.realpath(table.parent / row["path"]),
                                 str((root / "here" / "photos" / row["label"] / Path(row["path"]).name).resolve()), out)
            for spelled in (out, table):  # as the table was written, and by its own path
                stats = neurim("data", "stats", spelled, "imgsz=28", "--json", cwd=root / "here")
                self.assertEqual(stats.returncode, 0, (out, stats.stderr))
                summary = json.loads(stats.stdout.splitlines()[-1])
                self.assertEqual(sum(map(sum, (split["classes"] for split in summary["splits"].values()))), 20)
            table.unlink()
        png(root / "bars" / "x|y" / "0.png", 28, 28, 1)
        png(root / "bars" / "z" / "0.png", 28, 28, 1)
        run = neurim("data", "split", root / "bars", f"out={root}/bars.csv")
        self.assertEqual((run.returncode, len(run.stderr.splitlines())), (3, 1), run)
        self.assertIn('"x|y"', run.stderr)
        self.assertFalse((root / "bars.csv").exists())

    def test_weights_and_groups_are_kept_or_named(self):
        root = self.root / "weighed"
        rows = ["path,label,weight,group"]
        for i in range(12):
            png(root / f"{i}.png", 28, 28, 20 * i)
            rows.append(f"{i}.png,{'ab'[i % 2]},{i / 10},{i // 4}")
        (root / "all.csv").write_text("\n".join(rows) + "\n")
        run = neurim("data", "split", root / "all.csv", f"out={root}/again.csv", "val_split=0.3")
        self.assertEqual(run.returncode, 0, run.stderr)
        with open(root / "again.csv", newline="") as file:
            self.assertEqual({(row["path"], float(row["weight"]), row["group"]) for row in csv.DictReader(file)},
                             {(f"{i}.png", i / 10, str(i // 4)) for i in range(12)})
        run = neurim("data", "convert", root / "all.csv", "to=wds", f"out={root}/shards")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual([word in run.stdout for word in ("not carried: the weights", "not carried: the groups")], [True, True], run)
        run = neurim("data", "pack", root / "all.csv", f"out={root}/all.pack")
        self.assertEqual(run.returncode, 0, run.stderr)
        losses = set()
        for data in ("all.csv", "all.pack"):
            run = neurim("train", f"data={root}/{data}", "model=lenet5", "batch=4", "epochs=1", "sampler=weighted", "val_split=0.3", "plots=false",
                         f"project={root}/runs", f"name={data}", "--json")
            self.assertEqual(run.returncode, 0, run.stderr)
            losses.add(tensors(root / "runs" / data / "weights" / "last.safetensors"))
        self.assertEqual(len(losses), 1)

    def test_data_tasks_write_over_nothing(self):
        data = self.root / "own"
        for i in range(8):
            png(data / "ab"[i % 2] / f"{i}.png", 28, 28, 30 * i)
        before = {path: path.read_bytes() for path in data.rglob("*.png")}
        mine = self.root / "mine.jpg"
        mine.write_text("mine")
        for task, option in (("preview", "out"), ("dedupe", "sheet"), ("pack", "out")):
            for target, said in ((data / "a" / "0.png", "exists already"), (mine, "exists already"), (data / "new.jpg", "lies in the data")):
                run = neurim("data", task, data, f"{option}={target}")
                self.assertEqual((run.returncode, len(run.stderr.splitlines())), (2, 1), run)
                self.assertIn(said, run.stderr)
        for words in (["split", data, f"out={data}/train.csv"], ["convert", data, "to=wds", f"out={data}/c"]):
            run = neurim("data", *words)
            self.assertEqual(run.returncode, 2, run)
            self.assertIn("lies in the data", run.stderr)
        self.assertEqual({path: path.read_bytes() for path in data.rglob("*")  if path.is_file()}, before)
        self.assertEqual(mine.read_text(), "mine")

    def test_what_is_read_is_not_written_over(self):
        mine, weights = self.root / "mine", self.root / "runs" / "again" / "weights"
        png(mine / "a.png", 28, 28, 1)
        png(mine / "b.png", 28, 28, 90)
        (mine / "link.csv").symlink_to("a.png")
        os.link(mine / "b.png", mine / "hard.csv")
        shutil.copytree(self.folder, weights.parent)
        for name in ("in", "out"):
            (mine / name).mkdir()
        npy(mine / "in" / "input_0.npy", "(1, 1, 28, 28)", [0] * 784)
        (mine / "out" / "output_0.npy").symlink_to("../in/input_0.npy")
        before = {path: path.read_bytes() for place in (mine, weights.parent) for path in place.rglob("*") if path.is_file()}
        naming = ["predict", f"model={weights.parent}"]
        for words in ([*naming, mine / "a.png", f"save_csv={mine}/a.png"], [*naming, mine, f"save_csv={mine}/link.csv"],
                      [*naming, mine / "a.png", mine / "b.png", f"save_csv={mine}/hard.csv"], [*naming, mine, f"save_csv={weights}/model.json"],
                      ["export", weights.parent, f"output={weights}/best.safetensors"], ["export", weights / "best.safetensors", f"output={weights}/../args.yaml"],
                      ["run", weights.parent, f"inputs={mine}/in", f"outputs={mine}/out"]):
            for dry in ("false", "true"):
                run = neurim(*words, f"dry_run={dry}")
                self.assertEqual((run.returncode, len(run.stderr.splitlines())), (2, 1), run)
                self.assertIn("nothing is written over what is read; give another name", run.stderr)
        (mine / "bad.png").write_bytes(b"")
        (mine / "old.csv").write_text("of an earlier call")
        for more in ([], [mine / "bad.png"]):
            self.assertEqual(neurim(*naming, mine / "bad.png", *more, f"save_csv={mine}/old.csv").returncode, 3)
        self.assertEqual((mine / "old.csv").read_text(), "of an earlier call")
        self.assertEqual({path: path.read_bytes() for path in before}, before)

    def test_data_convert_there_and_back(self):
        images = {}
        for path in (self.root / "data").rglob("*.png"):
            images.setdefault(path.read_bytes(), []).append((path.parts[-3], path.parts[-2]))
        for form, shards in (("wds", 7), ("tfrecord", 7), ("folders", 0)):
            out, back = self.root / f"as-{form}", self.root / f"back-{form}"
            run = neurim("data", "convert", self.root / "data", f"to={form}", f"out={out}", "shard=10", "--json")
            self.assertEqual(run.returncode, 0, run.stderr)
            summary = json.loads(run.stdout.splitlines()[-1])
            self.assertEqual((summary["samples"], len(summary["files"])), (57, shards))
            again = neurim("data", "convert", out, "to=folders", f"out={back}")
            self.assertEqual(again.returncode, 0, again.stderr)
            found = {}
            for path in back.rglob("*.png"):
                found.setdefault(path.read_bytes(), []).append((path.parts[-3], path.parts[-2]))
            self.assertEqual({key: sorted(places) for key, places in found.items()},
                             {key: sorted(places) for key, places in images.items()})
            self.assertEqual(neurim("data", "convert", self.root / "data", f"to={form}", f"out={out}").returncode, 2)

    def test_names_of_classes_come_back_as_they_were(self):
        names = [" lead", "tail ", "v1.2", "a|b", "a,b", '"q"', "\\n", "żółć", "cafe\u0301", "007", "-1", "train", "None"]
        data = self.root / "odd-names"
        for i, name in enumerate(names):
            png(data / name / "0.png", 28, 28, 9 * i)

        def classes_of(path):
            run = neurim("data", "stats", path, "imgsz=28", "in_chans=1", "--json")
            self.assertEqual(run.returncode, 0, run)
            return json.loads(run.stdout.splitlines()[-1])["class_names"]

        whole = classes_of(data)
        self.assertEqual(sorted(whole), sorted(names))
        for form in ("wds", "tfrecord", "folders"):
            out = self.root / f"odd-{form}"
            run = neurim("data", "convert", data, f"to={form}", f"out={out}")
            self.assertEqual(run.returncode, 0, run)
            self.assertEqual(classes_of(out), whole, form)
        run = neurim("data", "pack", data, f"out={self.root}/odd.pack")
        self.assertEqual(run.returncode, 0, run)
        self.assertEqual(classes_of(self.root / "odd.pack"), whole)
        table = self.root / "odd-names.csv"
        table.write_text("path,label\n" + "".join(f"data/train/dark/{i}.png,{name}\n" for i, name in enumerate(("a/b", ".hidden", "lost+found"))))
        for form in ("wds", "tfrecord"):
            self.assertEqual(neurim("data", "convert", table, f"to={form}", f"out={self.root}/slash-{form}").returncode, 0)
            self.assertEqual(classes_of(self.root / f"slash-{form}"), [".hidden", "a/b", "lost+found"])
        run = neurim("data", "convert", table, "to=folders", f"out={self.root}/slash")
        self.assertEqual((run.returncode, len(run.stderr.splitlines())), (3, 1), run)
        self.assertIn('the class ".hidden" cannot be called so in a folder', run.stderr)
        self.assertFalse((self.root / "slash").exists())
        run = neurim("data", "scan", data)
        self.assertEqual(run.stdout.count('names of classes begin or end with a blank, which is a part of them: " lead", "tail "'), 1, run)

    def test_damage_of_the_data_is_named_everywhere(self):
        shards, model = self.root / "cut-shards", self.folder
        self.assertEqual(neurim("data", "convert", self.root / "data", "to=wds", f"out={shards}").returncode, 0)
        shard = shards / "train-000000.tar"
        content = shard.read_bytes()
        shard.write_bytes(content[:content.index(b"000000030") + 1600])
        for words in (["data", "dedupe", shards], ["data", "preview", shards, "imgsz=32", f"out={self.root}/cut.jpg"],
                      ["data", "stats", shards, "imgsz=28", "in_chans=1"], ["val", model, f"data={shards}", f"project={self.root}/runs"],
                      ["benchmark", "mode=data", f"data={shards}", "imgsz=32", "batch=8", "seconds=0.01", "rounds=1"]):
            run = neurim(*words)
            self.assertEqual(run.returncode, 0, run)
            self.assertIn(f"error: {shard}: ", run.stdout, words)
        for words, out in ((["data", "pack", shards], "cut.pack"), (["data", "convert", shards, "to=folders"], "cut-folders"),
                           (["data", "convert", shards, "to=wds", "--json"], "cut-again")):
            for option in ("dry_run=true", "dry_run=false"):
                self.assertFalse((self.root / out).exists())
                run = neurim(*words, f"out={self.root}/{out}", option)
                self.assertEqual(run.returncode, 3, run)
                self.assertIn(f"{out}: gets only the part of the data that can be read ({shard}: ", run.stderr)
            self.assertTrue((self.root / out).exists())
        self.assertGreater(len(list((self.root / "cut-folders" / "train").rglob("*.png"))), 20)

    def test_copies_of_a_part_of_the_pictures_say_so(self):
        data = self.root / "half-broken"
        for i in range(6):
            png(data / "ab"[i % 2] / f"{i}.png", 28, 28, 40 * i)
        whole = (data / "a" / "0.png").read_bytes()
        for i, content in enumerate((b"", whole[:-30], b"a note")):
            (data / "a" / f"bad{i}.png").write_bytes(content)
        for words, out, last in ((["pack", data], "part.pack", "6 images, 3 skipped"),
                                 (["convert", data, "to=wds"], "part-wds", "6 images in 1 file, 3 skipped"),
                                 (["convert", data, "to=folders", "threads=2"], "part-folders", "6 images, 3 skipped")):
            run = neurim("data", *words, f"out={self.root}/{out}")
            self.assertEqual((run.returncode, len(run.stderr.splitlines()), run.stdout.count("skipped: ")), (3, 1, 3), run)
            self.assertTrue(run.stdout.splitlines()[-1].endswith(last), run)
            self.assertIn(f"{out}: gets only the part of the data that can be read: 3 of 9 images are left out", run.stderr)
        self.assertEqual(sorted(path.read_bytes() for path in (self.root / "part-folders").rglob("*.png")),
                         sorted((data / "ab"[i % 2] / f"{i}.png").read_bytes() for i in range(6)))
        for words in (["data", "preview", data, "imgsz=28", f"out={self.root}/part.jpg"],
                      ["benchmark", "mode=data", f"data={data}", "imgsz=28", "batch=3", "seconds=0.01", "rounds=1"]):
            run = neurim(*words)
            self.assertEqual((run.returncode, len(run.stderr.splitlines())), (3, 1), run)
            self.assertIn("raise max_bad", run.stderr)
            run = neurim(*words, "max_bad=3")
            self.assertEqual((run.returncode, run.stdout.count("skipped: ")), (0, 3), run)

    def test_data_dedupe(self):
        twins = self.root / "twins"
        shutil.copytree(self.root / "data", twins)
        shutil.copy(twins / "train" / "dark" / "0.png", twins / "val" / "dark" / "copy.png")
        run = neurim("data", "dedupe", twins, f"sheet={self.root}/sheet.jpg", "--json")
        self.assertEqual(run.returncode, 0, run.stderr)
        *groups, summary = map(json.loads, run.stdout.splitlines())
        self.assertEqual(summary["groups"], len(groups))
        mine = next(group for group in groups if any(file["file"].endswith("copy.png") for file in group["files"]))
        self.assertTrue(mine["across_splits"])
        self.assertTrue((self.root / "sheet.jpg").read_bytes().startswith(b"\xff\xd8\xff"))

    def test_splits_without_classes_are_refused(self):
        for folders in (("train", "test"), ("train", "validation", "test"), ("seg_train/a", "seg_train/b", "seg_test/a", "seg_test/b")):
            root = self.root / f"flat-{len(folders)}"
            for folder in folders:
                for i in range(3):
                    png(root / folder / f"{i}.png", 28, 28, i)
            run = neurim("train", f"data={root}", "model=lenet5", f"project={self.root}/runs")
            self.assertEqual((run.returncode, len(run.stderr.splitlines())), (3, 1), run)
            self.assertIn("classes", run.stderr)

    def test_data_stats_and_preview(self):
        run = neurim("data", "stats", self.root / "data", "imgsz=28", "in_chans=1", "--json")
        self.assertEqual(run.returncode, 0, run.stderr)
        summary = json.loads(run.stdout.splitlines()[-1])
        self.assertEqual(summary["splits"]["train"]["classes"], [14, 14, 14])
        levels = [(level + i + 7 * x * y) % 256 / 255 for level in (10, 90, 170) for i in range(14)
                  for y in range(28) for x in range(28)]
        self.assertAlmostEqual(summary["mean"][0], sum(levels) / len(levels), 5)
        self.assertAlmostEqual(summary["std"][0], statistics.pstdev(levels), 5)
        image = self.root / "preview.jpg"
        self.assertEqual(neurim("data", "preview", self.root / "data", "imgsz=32", f"out={image}").returncode, 0)
        self.assertTrue(image.read_bytes().startswith(b"\xff\xd8\xff"))


if __name__ == "__main__":
    unittest.main()
