"""Models of the command: the zoo, files that describe one, weights of others, plug-ins."""
import json
import os
import pickle
import random
import re
import shutil
import struct
import unittest
from pathlib import Path

from command import ROOT, TrainedRun, neurim, png, tensors, without_checksums


class Models(TrainedRun):
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
        image = self.root / "data" / "val" / "dark" / "0.png"
        run = neurim("predict", f"model={folder}", image)
        self.assertEqual((run.returncode, run.stdout), (0, neurim("predict", f"model={self.folder}", image).stdout), run.stderr)
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

    def test_a_weights_file_and_the_architecture(self):
        weights, image = self.root / "plain.safetensors", self.root / "data" / "val" / "dark" / "0.png"
        content = without_checksums((self.folder / "weights" / "best.safetensors").read_bytes())
        size = struct.unpack("<Q", content[:8])[0]
        header = json.loads(content[8:8 + size])
        header.pop("__metadata__")
        text = json.dumps(header).encode()
        weights.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + size:])
        names = "classes=bright,dark,middle"
        for words in (["val", f"data={self.root}/data", f"project={self.root}/evaluated", names], ["predict", f"source={image}"], ["info"],
                      ["export", "dry_run=true"], ["benchmark", "seconds=0.02", "rounds=1"]):
            with self.subTest(words[0]):
                run = neurim(*words, f"model={weights}")
                self.assertEqual((run.returncode, len(run.stderr.splitlines())), (3, 1), run)
                self.assertIn("plain.safetensors: holds weights alone: it does not say of which model; say it with arch=NAME", run.stderr)
                run = neurim(*words, f"model={weights}", "arch=lenet5")
                self.assertEqual((run.returncode, run.stderr), (0, ""), run)
                self.assertEqual(neurim(*words, f"model={weights}", "arch=resnet18").returncode, 3)
                self.assertEqual(neurim(*words, f"model={weights}", "arch=resnet19").returncode, 2)
                run = neurim(*words, f"model={self.folder}", "arch=resnet18")
                self.assertEqual(run.returncode, 2, run)
                self.assertIn("arch is resnet18, but ", run.stderr)
        run = neurim("train", f"data={self.root}/data", f"model={weights}")
        self.assertEqual(run.returncode, 2, run)
        self.assertIn(f"weights are given beside the model: pretrained={weights}", run.stderr)
        same = [neurim("val", model, f"data={self.root}/data", f"project={self.root}/evaluated", *more).stdout.splitlines()[-2]
                for model, more in ((self.folder, []), (weights, ["arch=lenet5", names]))]
        self.assertEqual(*same)

    def test_one_rule_for_a_folder_and_its_file(self):
        """A backbone, as timm publishes it with num_classes=0."""
        folder = self.root / "backbone"
        folder.mkdir()
        content = without_checksums((self.folder / "weights" / "best.safetensors").read_bytes())
        size = struct.unpack("<Q", content[:8])[0]
        header, data, kept = json.loads(content[8:8 + size]), b"", {}
        for name, entry in header.items():
            if name != "__metadata__" and not name.startswith("f3."):
                part = content[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]]
                kept[name] = {**entry, "data_offsets": [len(data), len(data) + len(part)]}
                data += part
        text = json.dumps(kept).encode()
        (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
        config = {"architecture": "lenet5", "num_classes": 0, "pretrained_cfg": {"input_size": [1, 28, 28], "mean": [0.5], "std": [0.25]}}
        (folder / "config.json").write_text(json.dumps(config))
        for weights in (folder, folder / "model.safetensors"):
            run = neurim(*self.words, f"pretrained={weights}", "dry_run=true", "in_chans=1", "--verbose")
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn("the last layer starts anew: f3.bias is not in the file", run.stdout)
            self.assertEqual(bool(re.search(r"mean=0\.5\s", run.stdout)), weights == folder)
        run = neurim("val", folder, f"data={self.root}/data")
        self.assertEqual((run.returncode, "num_classes is 0" in run.stderr), (3, True), run)
        config["pretrained_cfg"]["mean"] = [123.675]
        (folder / "config.json").write_text(json.dumps(config))
        run = neurim(*self.words, f"pretrained={folder}", "dry_run=true", "in_chans=1")
        self.assertEqual((run.returncode, "config.json: mean is 123.675; " in run.stderr), (3, True), run)

    def test_weights_that_diverged_are_refused(self):
        broken = self.root / "broken.safetensors"
        data = without_checksums((self.folder / "weights" / "best.safetensors").read_bytes())
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


if __name__ == "__main__":
    unittest.main()
