"""What torch.save wrote, read by Neurim: the tensors, and the logits of models with them. training_curve_test.py has the other way.

ctest sets NEURIM_BUILD (the build folder, whose `neurim` computes). NEURIM_DATA: a folder with weights/, whose ResNet-20 for
CIFAR-10 is compared too. Exit code 77: not here.
"""
import collections
import itertools
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import numpy as np
    import torch
    import torchvision  # noqa: F401  (torch_models needs it)
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import safetensors_files
import torch_models

BUILD = Path(os.environ.get("NEURIM_BUILD", "build")).absolute()
NEURIM, CONVERT = BUILD / "neurim", BUILD / "tests" / "state_dict_to_safetensors"
DATA = os.environ.get("NEURIM_DATA", "")
SIZES = {"lenet5": (1, 28), "resnet20": (3, 32), "resnet18": (3, 64)}


def create(name, classes=7):
    """A model whose running statistics are those of some batches, so that they count."""
    torch.manual_seed(0)
    channels, size = SIZES[name]
    model = torch_models.create(name, classes, channels)
    with torch.no_grad():
        for _ in range(2):
            model.train()(torch.rand(8, channels, size, size))
    return model.eval()


def save(path, value, legacy=False, protocol=2):
    torch.save(value, path, _use_new_zipfile_serialization=not legacy, pickle_protocol=protocol)


def run(*words):
    return subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=300, check=False)


class StateDicts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def converted(self, path):
        """What Neurim reads in a file."""
        done = run(CONVERT, path, self.folder / "read.safetensors")
        self.assertEqual(done.returncode, 0, done.stderr)
        return safetensors_files.read(self.folder / "read.safetensors")

    def logits(self, name, weights, images, classes):
        """Of a folder with these weights and a config.json."""
        channels, size = SIZES[name]
        (weights.parent / "config.json").write_text(json.dumps({
            "architecture": name, "num_classes": classes,
            "pretrained_cfg": {"input_size": [channels, size, size], "mean": [0.5] * channels, "std": [0.25] * channels}}))
        np.save(self.folder / "input_0.npy", images)
        done = run(NEURIM, "run", f"model={weights.parent}", f"inputs={self.folder}", f"outputs={self.folder}")
        self.assertEqual(done.returncode, 0, done.stderr)
        return np.load(self.folder / "output_0.npy")

    def check_logits(self, name, model, state, legacy=False, classes=7):
        channels, size = SIZES[name]
        images = torch.rand(4, channels, size, size)
        with torch.no_grad():
            expected = model(images).numpy()
        save(self.folder / "pytorch_model.bin", state, legacy)
        found = self.logits(name, self.folder / "pytorch_model.bin", images.numpy(), classes)
        apart = np.abs(found - expected).max()
        print(json.dumps({"model": name, "legacy": legacy, "logits_apart": f"{apart:.1e}"}))
        self.assertLessEqual(apart, 1e-4 * max(1, np.abs(expected).max()))

    def test_logits_of_what_torch_saved(self):
        for name in SIZES:
            for legacy in (False, True):
                with self.subTest(name, legacy=legacy):
                    model = create(name)
                    self.check_logits(name, model, model.state_dict(), legacy)

    def test_checkpoints_with_other_things_in_them(self):
        model = create("resnet18")
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
        model.train()(torch.rand(2, 3, 64, 64)).sum().backward()
        optimizer.step()
        model.eval()
        schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 4])
        self.check_logits("resnet18", model, {
            "epoch": 3, "arch": "resnet18", "best_acc1": 71.5, "big": 2**40, "state_dict": torch.nn.DataParallel(model).state_dict(),
            "optimizer": optimizer.state_dict(), "schedule": schedule.state_dict(), "done": (True, None, [1, -2])})
        averaged = torch.optim.swa_utils.AveragedModel(model, use_buffers=True)
        self.check_logits("resnet18", model, {"model": create("lenet5").state_dict(), "model_ema": averaged.state_dict()})
        self.check_logits("resnet18", model, {"epoch": 3, "state_dict": model.state_dict(), "best_acc1": torch.tensor(71.5)})

    def test_the_trained_network(self):
        path = Path(DATA, "weights", "resnet20-12fca82f.th")
        if not DATA or not path.exists():
            self.skipTest("NEURIM_DATA has no weights/")
        model = create("resnet20", 10)
        state = torch.load(path, map_location="cpu")
        model.load_state_dict({name[len("module."):]: tensor for name, tensor in state["state_dict"].items()}, strict=False)
        self.check_logits("resnet20", model, state, legacy=True, classes=10)

    def test_every_kind_of_tensor(self):
        base = torch.arange(24.).reshape(2, 3, 4)
        state = collections.OrderedDict({
            "transposed": base.permute(2, 0, 1), "part": base[:, 1:, ::2], "shared": base, "expanded": torch.ones(1).expand(5, 3),
            "scalar": torch.tensor(3.5), "empty": torch.zeros(0, 4), "channels_last": torch.rand(2, 3, 4, 5).contiguous(
                memory_format=torch.channels_last), "parameter": torch.nn.Parameter(torch.rand(3)),
            "negated": torch._neg_view(base[:, ::2])})
        for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
                      torch.uint8, torch.bool):
            state[str(dtype)] = torch.tensor([0, 1, 100]).to(dtype)
        for legacy, protocol in itertools.product((False, True), range(2, 6)):
            save(self.folder / "state.pth", state, legacy, protocol)
            found = self.converted(self.folder / "state.pth")
            self.assertEqual(set(found), set(state))
            read = torch.load(self.folder / "state.pth", weights_only=False)  # PyTorch before 2 forgets what is negated
            for name, tensor in read.items():
                expected = tensor.detach().resolve_neg().float().numpy()
                self.assertEqual(found[name].shape, expected.shape, name)
                np.testing.assert_array_equal(found[name].astype(np.float32), expected, name)

    def test_what_neurim_writes_is_loaded_by_torch(self):
        for name in ("lenet5", "resnet18"):
            done = run(NEURIM, "export", name, "format=pt", f"output={self.folder}/{name}.pt")
            self.assertEqual(done.returncode, 0, done.stderr)
            only = {"weights_only": True} if int(torch.__version__.split(".")[0]) >= 2 else {}
            state = torch.load(self.folder / f"{name}.pt", **only)
            model = torch_models.create(name, 10 if name == "lenet5" else 1000, SIZES[name][0] if name != "lenet5" else 1)
            model.load_state_dict(state)
            expected = self.converted(self.folder / f"{name}.pt")
            self.assertEqual(set(state), set(expected))
            for key, tensor in state.items():
                np.testing.assert_array_equal(tensor.float().numpy(), expected[key].astype(np.float32), key)

    def test_what_is_more_than_tensors_is_refused(self):
        for name, value in {"model": create("lenet5"), "set": {1, 2}, "complex": torch.zeros(2, dtype=torch.complex64)}.items():
            with self.subTest(name):
                save(self.folder / "other.pth", {"x": value})
                done = run(CONVERT, self.folder / "other.pth", self.folder / "read.safetensors")
                self.assertEqual(done.returncode, 3)
                self.assertIn("names ", done.stderr)
                self.assertIn("torch.save(model.state_dict(), FILE)", done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
