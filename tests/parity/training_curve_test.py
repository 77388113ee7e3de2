"""Trains Neurim's models and their PyTorch twins from the same weights on the same batches.

ctest sets NEURIM_BUILD (the build folder, whose tests/training_curve trains). NEURIM_DATA: a folder with fashion-mnist/,
photos-cifar10-test-2000.tar.gz and photos-clothing-10-classes.tar; what is missing is drawn. NEURIM_PARITY=all adds what
takes longer. Exit code 77: not here.

The aim is a relative difference of at most 1e-4 for the first five losses and of 1e-2 at the end. Where PyTorch itself comes
further apart when it computes in another memory format, three times that much is allowed: rounding grows by an order of
magnitude a step in a network with random residual branches. ResNet-18 therefore starts with closed ones (torchvision's
zero_init_residual). The weights after a single step have no time for that and are compared closely.
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

import image_sets
import safetensors_files
import torch_models

TRAINER = os.path.join(os.environ.get("NEURIM_BUILD", "build"), "tests", "training_curve")
DATA = os.environ.get("NEURIM_DATA", "")
STEPS, FIRST_STEPS, CLASSES = 20, 5, 10


def batches_of(source, read, batch, channels, size):
    path = os.path.join(DATA, source)
    count = STEPS * batch
    images, labels = read(path, count) if DATA and os.path.exists(path) else image_sets.drawn(count, channels, size)
    places = np.arange(count) % len(labels)
    return [(np.ascontiguousarray(images[part], np.float32), labels[part]) for part in np.split(places, STEPS)]


def train_torch(model, batches, memory_format, clip=lambda parameters: None, together=1):
    """The losses of the batches, and the trained model; a step is taken after each `together` batches."""
    model = copy.deepcopy(model).to(memory_format=memory_format).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    losses = []
    for number, (images, labels) in enumerate(batches):
        images = torch.from_numpy(images).contiguous(memory_format=memory_format)
        loss = torch.nn.functional.cross_entropy(model(images), torch.from_numpy(labels))
        (loss / together).backward()
        if (number + 1) % together == 0:
            clip(model.parameters())
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
    return np.array(losses), model


def train_neurim(name, weights, batches, *gradients):
    """The losses of the steps, the trained tensors, and the trained model's logits for the first batch."""
    with tempfile.TemporaryDirectory() as folder:
        safetensors_files.write(os.path.join(folder, "weights.safetensors"), weights)
        for i, (images, labels) in enumerate(batches):
            np.save(os.path.join(folder, f"images_{i}.npy"), images)
            np.save(os.path.join(folder, f"labels_{i}.npy"), labels)
        losses = subprocess.run([TRAINER, name, str(CLASSES), str(len(batches)), folder, *gradients], stdout=subprocess.PIPE,
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
    return batches_of(archive, lambda path, count: image_sets.from_tar(path, count, size), batch, 3, size)


class TrainingCurve(unittest.TestCase):
    def check_step(self, model, batches):
        """The weights after the first step."""
        start = torch_models.arrays(model)
        stepped, again = (torch_models.arrays(train_torch(model, batches[:1], memory_format)[1])
                          for memory_format in (torch.contiguous_format, torch.channels_last))
        tensors = train_neurim(self.name, start, batches[:1])[1]
        self.assertEqual(set(tensors), set(start))
        apart, torch_apart = way_apart(tensors, stepped, start), way_apart(again, stepped, start)
        print(json.dumps({"model": self.name, "weights_after_a_step": f"{apart:.1e}", "torch": f"{torch_apart:.1e}"}))
        self.assertLessEqual(apart, max(1e-4, 3 * torch_apart))

    def check_curve(self, model, batches):
        start = torch_models.arrays(model)
        expected, trained = train_torch(model, batches, torch.contiguous_format)
        again, trained_again = train_torch(model, batches, torch.channels_last)
        losses, tensors, logits = train_neurim(self.name, start, batches)

        off, torch_off = relative(losses, expected), relative(again, expected)
        end = torch_models.arrays(trained)
        apart = way_apart(tensors, end, start)
        torch_apart = way_apart(torch_models.arrays(trained_again), end, start)
        first, torch_first = off[:FIRST_STEPS].max(), torch_off[:FIRST_STEPS].max()
        print(json.dumps({"model": self.name, "loss": [round(expected[0], 4), round(expected[-1], 4)],
                          "first_steps": f"{first:.1e}", "last_step": f"{off[-1]:.1e}", "weights": f"{apart:.1e}",
                          "torch_first_steps": f"{torch_first:.1e}", "torch_any_step": f"{torch_off.max():.1e}",
                          "torch_weights": f"{torch_apart:.1e}"}), flush=True)
        self.assertLess(expected[-1], expected[0])
        self.assertLessEqual(first, max(1e-4, 3 * torch_first), off)
        self.assertLessEqual(off[-1], max(1e-2, 3 * torch_off.max()), off)
        self.assertLessEqual(apart, max(1e-2, 3 * torch_apart))

        # The other direction: PyTorch loads (strictly) what Neurim saved, and computes with it.
        torch_models.load(trained, tensors)
        with torch.no_grad():
            theirs = trained.eval()(torch.from_numpy(batches[0][0])).numpy()
        self.assertLessEqual(np.abs(logits - theirs).max(), 1e-4 * max(1, np.abs(theirs).max()))

    def create(self, name, channels=3):
        self.name = name
        torch.manual_seed(0)
        return torch_models.create(name, CLASSES, channels)

    def test_lenet5(self):
        model, batches = self.create("lenet5", 1), batches_of("fashion-mnist", image_sets.from_idx, 128, 1, 28)
        self.check_step(model, batches)
        self.check_curve(model, batches)

    def test_gradients_are_clipped_and_added_up_as_in_torch(self):
        model, batches = self.create("lenet5", 1), batches_of("fashion-mnist", image_sets.from_idx, 32, 1, 28)[:8]
        start = torch_models.arrays(model)
        by_norm, by_value = torch.nn.utils.clip_grad_norm_, torch.nn.utils.clip_grad_value_
        plain = torch_models.arrays(train_torch(model, batches, torch.contiguous_format)[1])
        for words, options in (("norm=0.1", {"clip": lambda parameters: by_norm(parameters, 0.1)}),
                               ("norm=1000", {"clip": lambda parameters: by_norm(parameters, 1000)}),
                               ("value=0.002", {"clip": lambda parameters: by_value(parameters, 0.002)}),
                               ("accumulate=4", {"together": 4})):
            with self.subTest(words):
                losses, trained = train_torch(model, batches, torch.contiguous_format, **options)
                expected = torch_models.arrays(trained)
                found, tensors, _ = train_neurim("lenet5", start, batches, words)
                apart = max(np.abs(tensors[name] - expected[name]).max() / np.abs(expected[name]).max() for name in expected)
                print(json.dumps({"gradients": words, "weights_apart": f"{apart:.1e}", "loss_apart": f"{relative(found, losses).max():.1e}"}))
                self.assertLessEqual(apart, 1e-6 if words.startswith(("norm", "value")) else 1e-5)
                self.assertEqual(way_apart(expected, plain, start) > 0.01, words != "norm=1000")
        # Four batches of 32 are one of 128.
        whole = [tuple(np.concatenate(part) for part in zip(*batches[i:i + 4])) for i in (0, 4)]
        large = torch_models.arrays(train_torch(model, whole, torch.contiguous_format)[1])
        apart = max(np.abs(tensors[name] - large[name]).max() / np.abs(large[name]).max() for name in large)
        self.assertLessEqual(apart, 1e-5)

    def test_resnet20(self):
        model, batches = self.create("resnet20"), photos("photos-cifar10-test-2000.tar.gz", 128, 32)
        self.check_step(model, batches)
        self.check_curve(model, batches)

    def test_resnet18(self):
        model, batches = self.create("resnet18"), photos("photos-cifar10-test-2000.tar.gz", 32, 96)
        self.check_step(model, batches)
        for path, weight in model.named_parameters():
            if path.endswith("bn2.weight"):
                torch.nn.init.zeros_(weight)
        self.check_curve(model, batches)

    @unittest.skipUnless(os.environ.get("NEURIM_PARITY") == "all", "NEURIM_PARITY is not all")
    def test_resnet18_from_usual_weights(self):
        self.check_curve(self.create("resnet18"), photos("photos-clothing-10-classes.tar", 32, 96))


if __name__ == "__main__":
    unittest.main()
