"""Training from Python: models by name and classes of one's own, data on disk and in memory, what runs leave, Ctrl-C and resuming."""
import json
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import numpy as np

import neurim as nm
from neurim import nn


def squares(count, size=12, seed=0):
    """Images that are dark, or have a bright square."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 2
    images = rng.integers(0, 60, (count, size, size, 3), np.uint8)
    images[labels == 1, 3:9, 3:9] = 220
    return images, labels


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.drop = nn.Dropout(0.1)
        self.fc = nn.Linear(8, 2)

    def forward(self, x):
        return self.fc(self.drop(nn.functional.relu(self.norm(self.conv(x))).mean((2, 3))))


def weights_of(run, file="last"):
    content = Path(run.path, "weights", f"{file}.safetensors").read_bytes()
    return content[8 + int.from_bytes(content[:8], "little") :]


class Sizes(nn.Module):
    """A number of each image."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.fc = nn.Linear(8, 1)

    def forward(self, x):
        return self.fc(nn.functional.relu(self.conv(x)).mean((2, 3)))


class Training(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.how = {"project": self.folder, "verbose": False}

    def test_numbers_instead_of_classes(self):
        rng = np.random.default_rng(3)
        levels = rng.uniform(0, 180, 240)
        images = (levels[:, None, None] + rng.integers(0, 60, (240, 12, 12))).astype(np.uint8)
        numbers = 2000 + levels
        data = nm.data.arrays(images, numbers, target_names=["level"])
        self.assertTrue(data.regression)
        self.assertEqual((data.class_names, data.size("train"), data.size("val")), (["level"], 216, 24))
        self.assertIn(np.float32(data.numbers(0)[0]), numbers.astype(np.float32))
        self.assertEqual(next(iter(data.loader(5)))[1].shape, (5, 1))
        run = Sizes().fit(data, epochs=10, lr=0.03, loss="huber", **self.how)
        self.assertGreater(run.r2, 0.9)
        said = run.evaluate()
        self.assertEqual(said["r2"], run.r2)
        self.assertEqual([list(one)[0] for one in said.per_target], ["target"])
        self.assertEqual(set(said.predictions[0]), {"file", "level", "level_predicted"})
        with self.assertRaisesRegex(nm.UsageError, "confusion_matrix"):
            said.confusion_matrix
        self.assertAlmostEqual(run.predict(images[0]).value, numbers[0], delta=40)
        answers = run.predict([images[0], images[1]])
        self.assertEqual([list(one) for one in answers], [["level"], ["level"]])
        pairs = nm.data.samples([(image, float(number)) for image, number in zip(images, numbers)])
        self.assertEqual((pairs.regression, pairs.class_names), (True, ["target"]))
        named = nm.create_model("lenet5", num_classes=1, in_chans=1, imgsz=28)
        model = named.fit(data, epochs=1, imgsz=28, **self.how)
        self.assertEqual(set(model.metrics) - {"samples"}, {"loss", "mae", "rmse", "r2"})
        self.assertAlmostEqual(named.evaluate(data, imgsz=28)["mae"], model.mae, delta=1e-3)
        self.assertEqual(named.evaluate(images[:9], numbers[:9])["samples"], 9)
        for wrong, error in ((numbers[:-1], nm.UsageError), (np.where(levels > 90, np.nan, levels), nm.UsageError)):
            with self.assertRaises(error):
                nm.data.arrays(images, wrong)
        with self.assertRaisesRegex(nm.UsageError, "2 names for 1"):
            nm.data.arrays(images, numbers, target_names=["a", "b"])
        with self.assertRaisesRegex(nm.DataError, "nothing to learn"):
            Sizes().fit(nm.data.arrays(images, np.full(240, 3.0)), **self.how)

    def test_a_class_of_ones_own(self):
        images, labels = squares(200)
        data = nm.data.arrays(images, labels, class_names=["dark", "bright"], test=squares(20, seed=1))
        self.assertEqual((data.classes, data.size("train"), data.size("val"), data.size("test")), (2, 180, 20, 20))
        seen = []

        class See(nm.Callback):
            def on_epoch_end(self, epoch, metrics):
                seen.append((epoch, metrics["top1"]))

            def on_train_end(self, run):
                seen.append(run.path)

        net = Net()
        run = net.fit(data, epochs=6, batch=20, lr=0.02, callbacks=[See()], **self.how)
        self.assertEqual([one[0] for one in seen[:-1]], list(range(1, 7)))
        self.assertEqual(seen[-1], run.path)
        self.assertEqual(run.top1, 1)
        self.assertEqual((run.evaluate("test").top1, net.evaluate(data, split="test").top1), (1, 1))
        self.assertEqual([run.predict(images[i], topk=1)[0][0] for i in (0, 1)], ["dark", "bright"])
        self.assertEqual([one.top1 for one in run.predict([images[2], images[3]])], ["dark", "bright"])
        art = run.export("onnx")
        self.assertEqual(nm.load(art.path).predict(images[1]).label, "bright")
        said = nm.load(art.path).predict_proba(images[:5])
        self.assertAlmostEqual(sum(said[0]), 1, 5)
        self.assertEqual(len(run.history), 6)
        self.assertIn("<table>", run._repr_html_())
        more = run.resume(epochs=8, verbose=False)
        self.assertEqual(len(more.history), 8)

    def test_a_model_by_name_does_what_the_command_does(self):
        from PIL import Image

        for i, (image, label) in enumerate(zip(*squares(60, 32), strict=True)):
            place = self.folder / "photos" / ("dark", "bright")[label] / f"{i}.png"
            place.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(place)
        options = {"imgsz": 32, "epochs": 2, "batch": 10, "deterministic": True, "seed": 3, "project": self.folder}
        data = nm.data.open(self.folder / "photos")
        own = nm.create_model("resnet20", num_classes=2, seed=3).fit(data, name="own", verbose=False, **options)
        [summary] = [one for one in nm.command("train", data=self.folder / "photos", model="resnet20", name="command", **options) if one["event"] == "summary"]
        command = nm.Run(summary["run"])
        self.assertEqual(weights_of(own), weights_of(command))
        said = own.evaluate()
        self.assertEqual((said.top1, said.confusion_matrix.class_names), (summary["top1"], ["bright", "dark"]))
        self.assertTrue(Path(said.predictions[0]["file"]).suffix, ".png")
        self.assertEqual(nm.train(data=self.folder / "photos", model="resnet20", name="third", verbose=False, **options).top1, own.top1)
        art = own.export("onnx")
        self.assertEqual(art.parity.top1_agreement, 1)
        self.assertEqual(nm.load(art.path).predict(self.folder / "photos" / "bright" / "1.png", topk=1)[0][0],
                         own.predict(self.folder / "photos" / "bright" / "1.png")[0][0])
        self.assertEqual(nm.load(own.path).class_names, ["bright", "dark"])
        broken = self.folder / "broken.png"
        broken.write_bytes(b"no image")
        with self.assertRaisesRegex(nm.DataError, "broken.png"):
            own.predict(broken, topk=1)

    def test_images_and_labels_as_keras_takes_them(self):
        images, labels = squares(120)
        net = nn.Sequential([nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2)])
        with self.assertRaisesRegex(nm.UsageError, "not trained here"):
            net.predict(images[0])
        run = net.fit(images, labels, epochs=6, batch_size=20, lr=0.02, validation_split=0.25, **self.how)
        self.assertEqual(run.top1, 1)
        self.assertEqual(run.history[-1]["epoch"], 6)
        self.assertEqual(net.evaluate(images[:7], labels[:7]).top1, 1)
        self.assertEqual(net.evaluate((images[:1], labels[:1]))["samples"], 1)
        self.assertEqual(len(net.predict(images[:3])), 3)
        other, true = squares(20, seed=1)
        self.assertEqual([int(one.label) for one in net.predict(list(other))], true.tolist())
        again = net.fit((images, labels), validation_data=(other, true), epochs=1, lr=0.001, **self.how)
        self.assertEqual(again.metrics["samples"], 20)
        art = net.export(self.folder / "own.onnx")
        self.assertEqual([int(one.label) for one in nm.load(art.path).predict(list(other))], true.tolist())
        net[5].weight.assign(-net[5].weight)
        net[5].bias.assign(-net[5].bias)  # the present weights are those that count
        self.assertEqual([int(one.label) for one in net.predict(list(other))], (1 - true).tolist())
        with self.assertRaisesRegex(nm.UsageError, "split='val'"):
            net.evaluate(nm.data.arrays(images, labels), "val")
        with self.assertRaisesRegex(nm.UsageError, "val_split="):
            net.fit(nm.data.arrays(images, labels), validation_data=(images, labels), **self.how)

    def test_evaluations_see_images_as_training_did(self):
        from PIL import Image

        images, labels = squares(60)
        for i, (image, label) in enumerate(zip(images, labels, strict=True)):
            place = self.folder / "photos" / ("dark", "bright")[label] / f"{i}.png"
            place.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(place)
        ordered = nm.data.open(self.folder / "photos", class_names=["dark", "bright"])
        self.assertEqual((ordered.class_names, ordered.train[0][1]), (["dark", "bright"], Path(ordered.train[0][0]).parent.name))
        self.assertEqual(nm.data.open(self.folder / "photos", classes="dark,bright").class_names, ["dark", "bright"])
        how = {"epochs": 1, "batch": 20, "mean": [0.1, 0.3, 0.5], "std": [0.2, 0.3, 0.4], "imgsz": 16, "resize": "squash", "lr": 0.01, **self.how}
        net = Net()
        run = net.fit(ordered, **how)
        plain = nm.data.open(self.folder / "photos")  # classes in the order of their names
        for metrics in (net.evaluate(ordered), run.evaluate(), run.evaluate(data=ordered), net.evaluate(self.folder / "photos"), run.evaluate(data=self.folder / "photos")):
            self.assertAlmostEqual(metrics["loss"], run.loss, 5)
        self.assertNotAlmostEqual(net.evaluate(ordered, mean=[0.0], std=[1.0], imgsz=16)["loss"], run.loss, 3)
        for evaluate in (net.evaluate, lambda data: run.evaluate(data=data)):
            with self.assertRaisesRegex(nm.UsageError, "have .bright, dark., and the model was trained to .dark, bright."):
                evaluate(plain)
        named = nm.create_model("lenet5", num_classes=2, in_chans=3, imgsz=28).fit(plain, epochs=1, batch=20, **self.how)
        self.assertAlmostEqual(named.evaluate(data=nm.data.arrays(images, labels, class_names=["bright", "dark"])).samples, 6)
        again = nm.resume(run.path, model=Net(), data=ordered, epochs=2, verbose=False)
        self.assertAlmostEqual(again._source.model.evaluate(ordered)["loss"], again.history[-1]["val_loss"], 5)
        with self.assertRaisesRegex(nm.UsageError, "class_names"):
            nm.data.arrays(images, labels, classes="a,b")

    def test_splits_of_data(self):
        images, labels = squares(40)
        data = nm.data.arrays(images, labels, class_names=["dark", "bright"], val_split=0.25)
        self.assertEqual([len(one) for one in (data.train, data.val, data.test)], [30, 10, 0])
        self.assertEqual(sorted(name for _, name in data.val), ["bright"] * 5 + ["dark"] * 5)
        place, name = data.train[-1]
        self.assertEqual(name, ["dark", "bright"][labels[int(place.split()[-1])]])
        self.assertEqual(len(data.train[:3]), 3)
        with self.assertRaises(IndexError):
            data.val[10]
        self.assertEqual(next(iter(data.val.loader(4)))[0].shape, (4, 3, 12, 12))

    def test_evaluations_are_reports(self):
        images, labels = squares(60)
        data = nm.data.arrays(images, labels, class_names=["1", "2"], val=(images[:11], labels[:11]))
        net = Net()
        run = net.fit(data, epochs=1, lr=1e-5, name="report", **self.how)
        said = run.evaluate()
        self.assertEqual(said.path.parts[-3:], ("report", "reports", "val"))
        self.assertEqual(said.confusion_matrix.class_names, ["1", "2"])
        counts = np.asarray(said.confusion_matrix)
        self.assertEqual((counts.sum(), counts.trace() / 11), (11, said.top1))
        self.assertEqual([one["class"] for one in said.per_class], ["1", "2"])
        self.assertEqual(sum(one["support"] for one in said.per_class), 11)
        self.assertEqual([one["label"] for one in said.predictions], [str(label + 1) for label in labels[:11]])
        wrong = said.mistakes(3)
        self.assertEqual(len(wrong), min(3, 11 - counts.trace()))
        self.assertTrue(all(one["label"] != one["predicted"] for one in wrong))
        self.assertIn("<th>file</th>" if len(wrong) else "none", wrong._repr_html_())
        self.assertTrue(said.page.exists())
        self.assertIn("data:image/png;base64", said._repr_html_())
        self.assertIn("roc", said.images)
        self.assertTrue(said.confusion_matrix.plot(normalized=True).path.exists())
        with self.assertRaisesRegex(nm.UsageError, "per_target"):
            said.per_target
        again = run.evaluate()
        self.assertEqual((again.top1, again.path.name), (said.top1, "val2"))

    def test_models_by_name_are_modules(self):
        model = nm.create_model("resnet20", num_classes=2)
        self.assertIn("resnet20", repr(model))
        self.assertEqual(len(list(model.parameters())), len({name for name in model.state_dict() if "running" not in name}))
        other = nm.create_model("resnet20", num_classes=2, seed=1)
        other.load_state_dict(model.state_dict())
        x = nm.rand(2, 3, 32, 32)
        self.assertEqual(other(x).tolist(), model(x).tolist())
        opt = nm.optim.SGD(model.parameters(), lr=0.1)
        loss = nm.compile(lambda x: opt.minimize(model(x).square().mean()), training=True)(x)
        self.assertTrue(np.isfinite(loss.item()))
        self.assertNotEqual(other(x).tolist(), model(x).tolist())
        model.requires_grad_(False)
        with self.assertRaisesRegex(nm.UsageError, "frozen"):
            model.fit(nm.data.arrays(*squares(20, 32)), **self.how)

    def test_looking_at_a_run_leaves_the_network(self):
        images, labels = squares(60)
        net = Net()
        net.norm.eval()
        run = net.fit(nm.data.arrays(images, labels), epochs=2, batch=20, lr=0.01, **self.how)
        self.assertEqual((net.training, net.norm.training, net.norm.running_mean.tolist()), (True, False, [0] * 8))
        net.fc.weight.assign(nm.zeros(2, 8))
        run.predict(images[0]), run.evaluate(), run.export("onnx")
        self.assertEqual(net.fc.weight.tolist(), [[0] * 8] * 2)

    def test_networks_that_reshape_are_exported(self):
        images, labels = squares(60)
        data = nm.data.arrays(images, labels)

        class Flat(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv, self.fc = nn.Conv2d(3, 4, 3, stride=4), nn.Linear(4 * 3 * 3, 2)

            def forward(self, x):
                return self.fc(self.conv(x).reshape(x.shape[0], -1))

        run = Flat().fit(data, epochs=1, batch=20, **self.how)
        loaded = nm.load(run.export("onnx").path)
        own = run.predict(list(images[:3]))
        for one, other in zip(own, loaded.predict(list(images[:3])), strict=True):
            self.assertEqual(one.label, other.label)
            self.assertAlmostEqual(one[0][1], other[0][1], 5)
        self.assertEqual(nm.load(Net().fit(data, epochs=1, batch=20, **self.how).export("onnx", dynamic=False).path).predict(images[0]).unreadable, "")

    def test_networks_are_exported_for_any_number_of_images(self):
        images, labels = squares(60)
        data = nm.data.arrays(images, labels)

        class Rows(nn.Module):
            """Attention and recurrence over the rows of an image, with the batch's size in every way."""

            def __init__(self):
                super().__init__()
                self.embed, self.first = nn.Linear(36, 8), nm.Parameter(nm.zeros(1, 1, 8))
                self.attend, self.gru, self.fc = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), nn.GRU(8, 8, batch_first=True), nn.Linear(8, 2)

            def forward(self, x):
                n, c, h, w = x.shape
                rows = self.embed(x.permute(0, 2, 1, 3).reshape(n, h, c * w)) + nm.zeros(n, h, 8)
                rows = nm.cat([self.first.expand(n, -1, -1), rows], 1)
                halves = self.attend(rows).view(x.size(0) * 2 // 2, -1, 2, 4)
                return self.fc(self.gru(halves.reshape(n, (h + 1), 8))[0][:, -1])

        class Steps(Net):
            def forward(self, x):
                return super().forward(nm.cat([x[i : i + 1] for i in range(x.shape[0])]))

        run = Rows().fit(data, epochs=1, batch=20, **self.how)
        own, other = run.predict(list(images[:5])), nm.load(run.export("onnx").path).predict(list(images[:5]))
        for a, b in zip(own, other, strict=True):
            self.assertAlmostEqual(dict(a)["0"], dict(b)["0"], 5)
        run = Steps().fit(data, epochs=1, batch=20, **self.how)
        with self.assertRaisesRegex(nm.UsageError, "batch is not known.*dynamic=False"):
            run.export("onnx")
        self.assertEqual(nm.load(run.export("onnx", dynamic=False).path).predict(images[0]).unreadable, "")

    def test_data_sets_of_python_and_loaders(self):
        images, labels = squares(40)

        class Pairs:
            def __len__(self):
                return 40

            def __getitem__(self, i):
                if i >= 40:
                    raise IndexError(i)
                return images[i], int(labels[i])

        data = nm.data.samples(Pairs(), val_split=0.25, imgsz=12)
        self.assertEqual((data.classes, len(data), data.size("val")), (2, 30, 10))
        loader = data.loader(8)
        self.assertEqual(len(loader), 4)
        batches = list(loader)
        self.assertEqual([x.shape for x, _ in batches], [(8, 3, 12, 12)] * 3 + [(6, 3, 12, 12)])
        x, y = next(iter(data.loader(30, shuffle=False)))
        place = {data.label(i): i for i in range(2)}
        for label, i in place.items():
            self.assertEqual(y[i].item(), label)
        self.assertGreater(x[place[1], :, 4:8, 4:8].mean().item(), 0.8)
        first = [y.tolist() for _, y in loader]
        self.assertNotEqual(first, [y.tolist() for _, y in loader])
        self.assertEqual(Net().fit(data, epochs=6, batch=10, lr=0.02, **self.how).top1, 1)

        class Broken(Pairs):
            def __getitem__(self, i):
                if i == 7:
                    raise OSError("sample 7 is gone")
                return super().__getitem__(i)

        broken = nm.data.samples([(image, label) for image, label in Pairs()], val_split=0.25, imgsz=12)
        self.assertEqual(len(broken), 30)
        with self.assertRaisesRegex(OSError, "gone"):
            nm.data.samples(Broken())

    def test_an_image_may_be_unreadable_but_code_may_not_fail(self):
        images, labels = squares(60)
        for error, wanted in ((OSError("gone"), None), (ValueError("damaged"), None), (RuntimeError("a bug"), nm.FailureError), (IndexError("a bug"), nm.FailureError),
                              (KeyboardInterrupt(), KeyboardInterrupt), (SystemExit(), KeyboardInterrupt)):

            class Failing:
                read = False

                def __len__(self):
                    return 60

                def __getitem__(self, i):
                    if i == 7 and self.read:
                        raise error
                    return images[i], int(labels[i])

            failing = Failing()
            data = nm.data.samples(failing, val_split=0.25, imgsz=12)
            failing.read = True
            with self.subTest(repr(error)):
                if wanted is None:
                    self.assertGreater(Net().fit(data, epochs=1, batch=10, max_bad=1, **self.how).metrics["samples"], 13)
                else:
                    with self.assertRaisesRegex(wanted, "a bug" if wanted is nm.FailureError else ""):
                        Net().fit(data, epochs=1, batch=10, max_bad=1, **self.how)

    def test_labels_of_all_kinds(self):
        images, labels = squares(24)
        wide = np.asarray([np.int64(1)] * 23 + [3])
        for given, names in ((list(labels), ["0", "1"]), (labels.astype(np.uint8)[:, None], ["0", "1"]), (labels == 1, ["0", "1"]), ([b"a", b"\xc3\xa9"] * 12, ["a", "é"]),
                             (np.asarray([b"a", b"b"] * 12), ["a", "b"]), (["b", "a"] * 12, ["a", "b"]), (wide, ["0", "1", "2", "3"]), ([np.array(0), np.array([1])] * 12, ["0", "1"]), ([np.longdouble(0.5)] * 24, ["target"])):
            self.assertEqual(nm.data.arrays(images, given).class_names, names)
            self.assertEqual(nm.data.samples(list(zip(images, given))).class_names, names)
        hot = np.eye(2, dtype=np.int64)[labels]
        for given, words in ((labels * 10**9, "up to 1000000000, but only 2"), (labels * 2000000, "number the classes from 0"), (labels - 1, "label 0 of train is -1"),
                             (["a", None] * 12, "label 1 of train is missing .None"), (["a", "b", float("nan")] * 8, "label 2 of train is missing .nan"), ([0, 1.5] * 12, "label 0 of train. and floating"),
                             (np.array(["a", None] * 12, object), "label 1 of train is missing"), ([0, "a"] * 12, "label 1 of train"), (hot, "argmax"), (hot.tolist(), "argmax"),
                             ([[0], [1, 2]] * 12, "label 1 of train"), ([{}] * 24, "is a dict"), ([b"\xff"] * 24, "UTF-8"), ([None] * 24, "missing"), ([0, float("nan")] * 12, "missing")):
            for call in (lambda: nm.data.arrays(images, given), lambda: nm.data.samples(list(zip(images, given)))):
                with self.assertRaisesRegex(nm.UsageError, words):
                    call()
        for names, words in ((["a", "a"], "'a' more than once"), ([0, 1], "texts, not 0"), ({"a": 0, "b": 1}, "not a dict"), ("ab", "not a str")):
            with self.assertRaisesRegex(nm.UsageError, words):
                nm.data.arrays(images, labels, class_names=names)
        for call, words in ((lambda: nm.data.arrays(images, labels, val=(images, labels / 2)), "whole numbers .label 0 of train. and floating numbers .label 0 of val"),
                            (lambda: nm.data.arrays(images, labels / 2, class_names=["a", "b"]), "have no class_names"), (lambda: nm.data.arrays(images, "ab"), "give a list"),
                            (lambda: nm.data.samples([(one, [1.0] * (1 + i % 2)) for i, one in enumerate(images)]), "as many for each"), (lambda: nm.data.arrays(images, ["a"] * 24, target_names=["x"]), "labels are names"),
                            (lambda: nm.data.arrays(images, labels, val=images), "arrays: val is of type ndarray"), (lambda: nm.data.arrays(images, labels, val=(images[:2], labels[:3])), "26 images and 27 labels")):
            with self.assertRaisesRegex(nm.UsageError, words):
                call()

    def test_images_that_are_none(self):
        images, labels = squares(24)
        first = images.transpose(0, 3, 1, 2)
        ragged = [np.zeros((8 + i % 2, 8, 3), np.uint8) for i in range(24)]
        for call, words in ((lambda: nm.data.arrays([], []), "no images in train"), (lambda: nm.data.samples([]), "no images in train"), (lambda: nm.data.samples(None), "NoneType"), (lambda: nm.data.arrays(ragged, labels), "nm.data.samples"),
                            (lambda: nm.data.arrays(first, labels), r"transpose\(0, 2, 3, 1\)"), (lambda: nm.data.samples(images), "nm.data.arrays"), (lambda: nm.data.samples([(1,)]), "sample 0 of train has 1 elements"),
                            (lambda: nm.data.samples(i for i in range(3)), "__getitem__"), (lambda: nm.data.arrays(images, labels).loader(imgsz="8by9"), "192x320")):
            with self.assertRaisesRegex(nm.UsageError, words):
                call()
        with self.assertRaisesRegex(nm.DataError, r"transpose\(1, 2, 0\)"):
            next(iter(nm.data.samples(list(zip(first, labels)), imgsz=12).loader(4)))
        self.assertEqual(next(iter(nm.data.arrays(images, labels).loader(4, imgsz="8x16")))[0].shape, (4, 3, 8, 16))
        self.assertEqual(next(iter(nm.data.arrays(images, labels, img_size="8").loader(4)))[0].shape, (4, 3, 8, 8))

    def test_data_sets_that_know_their_labels(self):
        images, labels = squares(24)
        seen = []

        def get(self, i):
            seen.append(i)
            return images[i], self.target_transform(self.targets[i]) if self.target_transform else self.targets[i]

        def data_set(module, **attributes):
            item = type(get)(get.__code__, get.__globals__, closure=get.__closure__)
            item.__module__ = module
            own = {"targets": labels.tolist(), "target_transform": None, "transforms": None, "classes": ["dark", "bright", "neither"], **attributes}
            return type("Own", (), {"__len__": lambda self: 24, "__getitem__": item})(), own

        def opened(*given, **attributes):
            part, own = data_set(*given, **attributes)
            vars(part).update(own)
            seen.clear()
            return nm.data.samples(part, val_split=0.25)

        self.assertEqual((opened("torchvision.datasets.folder").class_names, seen), (["dark", "bright", "neither"], []))
        turned = opened("torchvision.datasets.folder", target_transform=lambda one: one + 1)
        self.assertEqual((turned.class_names, len(seen)), (["0", "1", "2"], 24))
        self.assertEqual((opened("own", classes=["dark", "bright"]).class_names, len(seen)), (["dark", "bright"], 24))
        self.assertEqual(opened("own", classes=["dark"]).class_names, ["0", "1"])
        loader = type("DataLoader", (), {"__module__": "torch.utils.data.dataloader", "__iter__": lambda self: iter([])})()
        data = nm.data.arrays(images, labels)
        for call, words in ((lambda: nm.data.samples(loader), "loader.dataset"), (lambda: Net().fit(loader), "loader.dataset"), (lambda: Net().fit(data.loader(4)), "the Data that it is of"),
                            (lambda: Net().fit(images), r"\(24, 12, 12, 3\) without labels"), (lambda: Net().fit(i for i in range(3)), "generator"), (lambda: Net().fit(data_set("own")[0]), "nm.data.samples.data"),
                            (lambda: Net().fit(data, labels), "leave out")):
            with self.assertRaisesRegex(nm.UsageError, words):
                call()

    def test_what_is_checked_before_a_training(self):
        images, labels = squares(40)
        data = nm.data.arrays(images, labels, batch_size=20)

        class Half:
            def on_epoch_end(self, epoch, metrics):
                pass

        for options, words in (({"callbacks": [3]}, "type int lacks.*nm.Callback"), ({"callbacks": [Half()]}, "Half"), ({"callbacks": [nm.EarlyStopping]}, "EarlyStopping..$"), ({"callbacks": 3}, "int"),
                               ({"batch": 4, "batch_size": 5}, "batch and batch_size are the same"), ({"imgsz": "big"}, "imgsz is a number"), ({"val_split": 0.5, "validation_split": 0.5}, "same")):
            with self.assertRaisesRegex(nm.UsageError, words):
                Net().fit(data, **options, **self.how)
        with self.assertRaisesRegex(nm.UsageError, "validation_data is 3 elements"):
            Net().fit(images, labels, validation_data=(images, labels, labels), **self.how)
        with self.assertRaisesRegex(nm.UsageError, "int"):
            nm.train(callbacks=[3], data="/nowhere", model="resnet20")
        net = Net()
        run = net.fit(data, epochs=3, batch=10, lr=0.01, callbacks=nm.EarlyStopping(patience=1), **self.how)
        self.assertRegex((run.path / "args.yaml").read_text(), "(?m)^batch: 10$")
        self.assertRegex((run.path / "args.yaml").read_text(), "(?m)^patience: 1$")
        for given, words in ((None, "NoneType"), (b"abc", "bytes"), ((i for i in range(3)), "generator"), (data, "Data"), ([None], "NoneType"), ([[[1], [1, 2]]], "list"), (images[0].transpose(2, 0, 1), "C,H,W"),
                             (images.transpose(0, 3, 1, 2), "C,H,W"), ([images[0].transpose(2, 0, 1)], "C,H,W")):
            with self.assertRaisesRegex(nm.UsageError, f"^predict: .*{words}"):
                net.predict(given)
        for topk in (0, -1, 1.5, "2"):
            with self.assertRaisesRegex(nm.UsageError, "topk"):
                net.predict(images[0], topk=topk)
        with self.assertRaisesRegex(nm.UsageError, r"run.evaluate\(data=…\)"):
            run.evaluate(data)
        with self.assertRaisesRegex(nm.UsageError, r"nm.resume\(run, model=…, data=…\)"):
            nm.resume(run.path)
        with self.assertRaisesRegex(nm.UsageError, "the Data of"):
            nm.resume(run.path, model=Net(), data=(images, labels))

    def test_a_loop_of_ones_own(self):
        images, labels = squares(120)
        data = nm.data.arrays(images, labels)
        nm.seed(0)
        net = Net()
        opt = nm.optim.AdamW(net.parameters(), lr=0.01)
        step = nm.compile(lambda x, y: opt.minimize(nn.functional.cross_entropy(net(x), y)), training=True)
        losses = [step(x, y).item() for _ in range(8) for x, y in data.loader(30)]
        self.assertLess(losses[-1], losses[0] / 2)
        state, other = opt.state_dict(), nm.optim.AdamW(Net().parameters(), lr=0.5)
        other.load_state_dict(state)
        self.assertEqual((other.lr, other.steps), (opt.lr, len(losses)))
        with self.assertRaisesRegex(nm.UsageError, "compiled"):
            opt.minimize(nm.tensor(1.0))

    def test_errors_say_what_helps(self):
        images, labels = squares(20)
        data = nm.data.arrays(images, labels)
        for call, words in ((lambda: nm.create_model("resnet19"), "did you mean 'resnet18'"), (lambda: nm.data.open("/nowhere"), "no such folder"),
                            (lambda: Net().fit(data, epoch=1, **self.how), "epochs"), (lambda: nm.data.arrays(images, labels, val_spilt=0.5), "val_split"),
                            (lambda: Net().fit((images, labels, labels), **self.how), "nm.data.samples"), (lambda: Net().fit((images / 255.0, labels), **self.how), "give them as they were"),
                            (lambda: Net().fit(nm.data.samples([(None, 0), (None, 1)] * 9, imgsz=12), **self.how), "no array"),
                            (lambda: Net().fit(nm.data.samples([(np.zeros((0, 4, 3), np.uint8), i % 2) for i in range(18)], imgsz=12), **self.how), "0 rows"), (lambda: nm.load("/nowhere.onnx"), "nowhere"),
                            (lambda: nm.data.arrays(images, labels[:5]), "20 images and 5 labels"), (lambda: nm.data.arrays(images / 255.0, labels), "uint8"),
                            (lambda: nm.data.arrays(images, labels, class_names=["one"]), "none of the 1"), (lambda: nm.command("vall"), "val")):
            with self.assertRaisesRegex(nm.Error, words):
                call()

    def test_ctrl_c_ends_it_and_it_resumes_exactly(self):
        program = """
import sys
import neurim as nm
sys.path.insert(0, {tests!r})
from training_test import Net, squares
nm.seed(1)
run = Net().fit(nm.data.arrays(*squares(800, 16)), epochs=20, batch=10, deterministic=True, project={folder!r}, name=sys.argv[1])
print("done", run.path)
"""
        program = program.format(tests=str(Path(__file__).parent), folder=str(self.folder))

        def begin(name):
            return subprocess.Popen([sys.executable, "-c", program, name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        whole = begin("whole")
        stopped = begin("stopped")
        for line in stopped.stdout:
            if " 1/20" in line:
                break
        time.sleep(0.3)
        stopped.send_signal(signal.SIGINT)
        begun = time.monotonic()
        _, said = stopped.communicate(timeout=60)
        self.assertLess(time.monotonic() - begun, 10)
        self.assertIn("KeyboardInterrupt", said)
        self.assertEqual(whole.wait(120), 0, whole.stderr.read())
        whole.stdout.close(), whole.stderr.close()
        progress = json.loads((self.folder / "stopped" / "metrics.jsonl").read_text().splitlines()[-1])["epoch"]
        self.assertLess(progress, 20)
        resume = f"nm.resume({str(self.folder / 'stopped')!r}, model=Net(), data=nm.data.arrays(*squares(800, 16)), verbose=False)"
        lines = program.split("nm.seed(1)")[0] + resume
        subprocess.run([sys.executable, "-c", lines], check=True)
        self.assertEqual(weights_of(nm.Run(self.folder / "stopped")), weights_of(nm.Run(self.folder / "whole")))


if __name__ == "__main__":
    unittest.main(verbosity=2)
