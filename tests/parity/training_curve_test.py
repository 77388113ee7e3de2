"""Trains Neurim's models and their PyTorch twins from the same weights on the same batches.

ctest sets NEURIM_BUILD (the build folder, whose tests/training_curve trains). NEURIM_DATA: a folder with fashion-mnist/,
photos-cifar10-test-2000.tar.gz and photos-clothing-10-classes.tar; what is missing is drawn. NEURIM_PARITY=all adds what
takes longer. Exit code 77: not here.

Rounding grows by an order of magnitude a step where a network starts from random residual branches: PyTorch's two memory
formats then differ by 1 % after five steps, and no bound on a third implementation says anything. ResNet-18 therefore starts
with closed branches (torchvision's zero_init_residual), from where PyTorch agrees with itself to 1e-5 that long; from usual
weights Neurim may differ by three times of what PyTorch does from itself.
"""
import copy
import json
import os
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np
    import torch
    import torchvision  # noqa: F401  (torch_models needs it)
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import pictures
import safetensors_files
import torch_models

TRAINER = os.path.join(os.environ.get("NEURIM_BUILD", "build"), "tests", "training_curve")
DATA = os.environ.get("NEURIM_DATA", "")
STEPS, FIRST_STEPS, CLASSES = 20, 5, 10


def batches_of(source, read, batch, channels, size):
    path = os.path.join(DATA, source)
    count = STEPS * batch
    images, labels = read(path, count) if DATA and os.path.exists(path) else pictures.drawn(count, channels, size)
    places = np.arange(count) % len(labels)
    return [(np.ascontiguousarray(images[part], np.float32), labels[part]) for part in np.split(places, STEPS)]


def train_torch(model, batches, memory_format):
    """The losses of the steps, and the trained model."""
    model = copy.deepcopy(model).to(memory_format=memory_format).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    losses = []
    for images, labels in batches:
        images = torch.from_numpy(images).contiguous(memory_format=memory_format)
        loss = torch.nn.functional.cross_entropy(model(images), torch.from_numpy(labels))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses), model


def train_neurim(name, weights, batches):
    """The losses of the steps, the trained tensors, and the trained model's logits for the first batch."""
    with tempfile.TemporaryDirectory() as folder:
        safetensors_files.write(os.path.join(folder, "weights.safetensors"), weights)
        for i, (images, labels) in enumerate(batches):
            np.save(os.path.join(folder, f"images_{i}.npy"), images)
            np.save(os.path.join(folder, f"labels_{i}.npy"), labels)
        losses = subprocess.run([TRAINER, name, str(CLASSES), str(len(batches)), folder], stdout=subprocess.PIPE,
                                check=True).stdout
        tensors = safetensors_files.read(os.path.join(folder, "trained.safetensors"))
        return np.array(json.loads(losses)), tensors, np.load(os.path.join(folder, "logits.npy"))


def relative(values, reference):
    return np.abs(values - reference) / np.abs(reference)


def way_apart(tensors, reference, start):
    """How far two models have come apart, as a share of the way that the reference has gone."""
    def distance(a, b):
        return np.sqrt(sum(np.sum(np.square(a[name].astype(np.float64) - b[name])) for name in reference))

    return distance(tensors, reference) / distance(reference, start)


def photos(archive, batch, size):
    return batches_of(archive, lambda path, count: pictures.from_tar(path, count, size), batch, 3, size)


class TrainingCurve(unittest.TestCase):
    def check(self, name, batches, closed_branches=False, chaotic=False):
        torch.manual_seed(0)
        model = torch_models.create(name, CLASSES, batches[0][0].shape[1])
        if closed_branches:
            for path, weight in model.named_parameters():
                if path.endswith("bn2.weight"):
                    torch.nn.init.zeros_(weight)
        start = torch_models.arrays(model)
        expected, trained = train_torch(model, batches, torch.contiguous_format)
        again, trained_again = train_torch(model, batches, torch.channels_last)
        losses, tensors, logits = train_neurim(name, start, batches)

        off, torch_off = relative(losses, expected), relative(again, expected)
        end = torch_models.arrays(trained)
        apart = way_apart(tensors, end, start)
        torch_apart = way_apart(torch_models.arrays(trained_again), end, start)
        first, torch_first = off[:FIRST_STEPS].max(), torch_off[:FIRST_STEPS].max()
        print(json.dumps({"model": name, "chaotic": chaotic, "loss": [round(expected[0], 4), round(expected[-1], 4)],
                          "first_steps": f"{first:.1e}", "last_step": f"{off[-1]:.1e}", "weights": f"{apart:.1e}",
                          "torch_first_steps": f"{torch_first:.1e}", "torch_last_step": f"{torch_off[-1]:.1e}",
                          "torch_weights": f"{torch_apart:.1e}"}), flush=True)
        self.assertLess(expected[-1], expected[0])
        self.assertLessEqual(first, max(1e-4, 3 * torch_first if chaotic else 0), off)
        self.assertLessEqual(off[-1], max(1e-2, 3 * (torch_off.max() if chaotic else torch_off[-1])), off)
        self.assertEqual(set(tensors), set(start))
        self.assertLessEqual(apart, max(1e-2, 3 * torch_apart))

        # The other direction: PyTorch computes with the weights that Neurim trained.
        torch_models.load(trained, tensors)
        with torch.no_grad():
            theirs = trained.eval()(torch.from_numpy(batches[0][0])).numpy()
        self.assertLessEqual(np.abs(logits - theirs).max(), 1e-4 * max(1, np.abs(theirs).max()))

    def test_lenet5(self):
        self.check("lenet5", batches_of("fashion-mnist", pictures.from_idx, 128, 1, 28))

    def test_resnet20(self):
        self.check("resnet20", photos("photos-cifar10-test-2000.tar.gz", 128, 32))

    def test_resnet18(self):
        self.check("resnet18", photos("photos-cifar10-test-2000.tar.gz", 32, 96), closed_branches=True)

    @unittest.skipUnless(os.environ.get("NEURIM_PARITY") == "all", "NEURIM_PARITY is not all")
    def test_resnet18_from_usual_weights(self):
        self.check("resnet18", photos("photos-clothing-10-classes.tar", 32, 96), chaotic=True)


if __name__ == "__main__":
    unittest.main()
