"""Every model of the zoo against its PyTorch twin: torchvision's, or for those that it lacks one in torch_models.py.

The aim is a difference of at most 1e-4 of the largest logit and 1e-3 of a gradient's length. Where PyTorch's own f32 is further
from its f64, three times that is allowed: rounding grows from block to block in a deep network with random weights.

From the same random weights and batch statistics: names and shapes of the tensors in both directions, parameters and
multiply-adds, and the logits. Of one small member of each family also the initial values, the gradients, the running
statistics after a step, three steps of training, and the ONNX file in ONNX Runtime. That member alone is tested unless
NEURIM_PARITY=all, which takes all models, trains and exports them.

ctest sets NEURIM_BUILD (the build folder, whose tests/zoo runs the models). One JSON line a model says what was measured;
scripts/model_table makes docs/models.md of them. Exit code 77: not here.
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
    import onnxruntime
    import torch
    import torchvision
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import safetensors_files
import torch_models

PROGRAM = os.path.join(os.environ.get("NEURIM_BUILD", "build"), "tests", "zoo")
ALL = os.environ.get("NEURIM_PARITY") == "all"
CLASSES, BATCH = 10, 4

SMALL = {"lenet5", "resnet20", "wide_resnet28_10", "alexnet", "vgg11_bn", "squeezenet1_1", "resnet18",
         "resnext50_32x4d", "seresnet50", "densenet121", "googlenet", "inception_v3", "mobilenet_v1", "mobilenet_v2",
         "mobilenet_v3_small", "shufflenet_v2_x0_5", "mnasnet0_5", "efficientnet_b0", "efficientnet_v2_s",
         "regnet_x_400mf", "regnet_y_400mf"}
OWN = {"lenet5", "mobilenet_v1", "seresnet50", "wide_resnet28_10", *torch_models.CIFAR_RESNETS}
# 2.6 GB of weights: more than an ONNX file holds, and more than a minute's work.
LARGEST = {"regnet_y_128gf"}
SIZES = {"lenet5": 28, "wide_resnet28_10": 32, "alexnet": 100, "inception_v3": 139,
         **dict.fromkeys(torch_models.CIFAR_RESNETS, 32)}


def neurim(*words):
    return json.loads(subprocess.run([PROGRAM, *words], stdout=subprocess.PIPE, check=True).stdout)


def channels_of(name):
    return 1 if name == "lenet5" else 3


def norms_of(model):
    return [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d)]


def without_chance(model):
    """Nothing is dropped."""
    for module in model.modules():
        if isinstance(module, (torch.nn.Dropout, torchvision.ops.StochasticDepth)):
            module.p = 0
    return model


def random_twin(name, images):
    """A twin whose biases and norms are not the usual zeros and ones, and whose running statistics are near the batch's, so
    that the activations neither vanish nor explode."""
    torch.manual_seed(0)
    model = without_chance(torch_models.create(name, CLASSES, channels_of(name), initialised=False))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
            elif not norms_of(model):  # nothing else would keep the signal
                torch.nn.init.kaiming_normal_(parameter)
        momenta = [norm.momentum for norm in norms_of(model)]
        for norm in norms_of(model):
            norm.weight.uniform_(0.3, 0.7)  # at full strength each residual branch would double what comes to it
            norm.momentum = 1
        model.train()(images)
        for norm, momentum in zip(norms_of(model), momenta):
            norm.momentum = momentum
            norm.running_mean.mul_(torch.empty_like(norm.running_mean).uniform_(0.8, 1.2))
            norm.running_var.mul_(torch.empty_like(norm.running_var).uniform_(0.8, 1.2)).add_(1e-3)
    return model.eval()


def pictures(channels, size):
    """Noise, unlike in colour and in its large parts, so that the logits differ from picture to picture."""
    torch.manual_seed(1)
    large = torch.nn.functional.interpolate(torch.randn(BATCH, channels, 4, 4), size=size, mode="bilinear")
    return torch.randn(BATCH, channels, 1, 1) + large + 0.3 * torch.randn(BATCH, channels, size, size)


def largest_difference(values, reference):
    """As a share of the largest magnitude."""
    return float(np.abs(values - reference).max() / np.abs(reference).max())


def kurtosis(values):
    centred = values.astype(np.float64) - values.mean()
    return np.mean(centred**4) / np.mean(centred**2)**2


def stepped(model, images, labels):
    """The loss in training, the gradients by name, and the running statistics afterwards."""
    model = model.train()
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    return loss.item(), {name: weight.grad.numpy() for name, weight in model.named_parameters()}, torch_models.arrays(model)


def gradient_error(gradients, reference):
    """The worst tensor's distance from the reference as a share of the reference's length. Tensors whose gradient is zero
    but for rounding (biases before a norm) are measured by a thousandth of the longest one."""
    lengths = {name: np.linalg.norm(gradient) for name, gradient in reference.items()}
    least = 1e-3 * max(lengths.values())
    return max(np.linalg.norm(gradients[name].astype(np.float64) - gradient) / max(lengths[name], least)
               for name, gradient in reference.items())


def own_error(twin, images, labels, exact):
    """How far PyTorch's f32 gradients come from those in f64: the worst of both memory formats, on the images and on ones
    that differ in their last digits. One activation that rounding moves across a ReLU's kink changes all gradients before it.
    """
    torch.manual_seed(3)
    errors = []
    for memory_format in (torch.contiguous_format, torch.channels_last):
        for noise in (0, 1e-6):
            model = copy.deepcopy(twin).to(memory_format=memory_format)
            near = (images * (1 + noise * torch.randn_like(images))).contiguous(memory_format=memory_format)
            errors.append(gradient_error(stepped(model, near, labels)[1], exact))
    return max(errors)


def small_rate(twin, images, labels):
    """A learning rate by which the first step takes about a hundredth off the loss."""
    loss, gradients, _ = stepped(copy.deepcopy(twin), images, labels)
    return 0.01 * loss / sum(np.square(gradient.astype(np.float64)).sum() for gradient in gradients.values())


def multiply_adds(model, side, channels):
    """Of convolutions and linear layers for one image, counted on tensors without data."""
    model, count = copy.deepcopy(model).to("meta").eval(), 0

    def add(module, inputs, output):
        nonlocal count
        count += output.numel() * module.weight[0].numel()

    for module in model.modules():
        if isinstance(module, (torch.nn.Conv2d, torch.nn.Linear)):
            module.register_forward_hook(add)
    with torch.no_grad():
        model(torch.empty(1, channels, side, side, device="meta"))
    return count


class Zoo(unittest.TestCase):
    def check(self, name):
        size, channels = SIZES.get(name, 64), channels_of(name)
        images, labels = pictures(channels, size), torch.arange(BATCH) % CLASSES
        twin = random_twin(name, images)
        trained = name in SMALL or ALL
        tasks = ["onnx"] if trained and name not in LARGEST else []
        if name in SMALL:
            tasks.append("gradients")
        if trained:
            tasks.append(str(small_rate(twin, images, labels)))
        report = {"model": name, "imgsz": size}
        with tempfile.TemporaryDirectory() as folder:
            start = torch_models.arrays(twin)
            safetensors_files.write(os.path.join(folder, "weights.safetensors"), start)
            np.save(os.path.join(folder, "images.npy"), images.numpy())
            np.save(os.path.join(folder, "labels.npy"), labels.numpy())
            answer = neurim("run", name, folder, *tasks)  # refuses names or shapes that differ
            logits = np.load(os.path.join(folder, "logits.npy"))
            with torch.no_grad():
                expected = twin(images).numpy()
                report["logits"] = largest_difference(logits, expected)
                if report["logits"] > 1e-4:
                    exact = twin.double()(images.double()).numpy()
                    twin.float()  # the same weights again
                    report["logits_torch"] = largest_difference(expected, exact)
            unlike = np.ptp(expected, axis=0).max()  # how far the pictures are apart
            self.assertLess(np.abs(logits - expected).max(), 2e-2 * unlike)
            if "onnx" in tasks:
                options = onnxruntime.SessionOptions()
                options.intra_op_num_threads = 1
                session = onnxruntime.InferenceSession(os.path.join(folder, "model.onnx"), options,
                                                       providers=["CPUExecutionProvider"])
                report["onnx"] = largest_difference(session.run(None, {"input": images.numpy()})[0], logits)
            if "gradients" in tasks:
                self.check_gradients(twin, images, labels, start, folder, answer, report)
        print(json.dumps({key: float(f"{value:.1e}") if isinstance(value, float) else value
                          for key, value in report.items()}), flush=True)
        self.assertLessEqual(report["logits"], max(1e-4, 3 * report.get("logits_torch", 0)))
        self.assertLessEqual(report.get("onnx", 0), 1e-4)
        if trained:
            self.assertTrue(np.isfinite(answer["losses"]).all(), answer)
            self.assertLess(answer["losses"][-1], answer["losses"][0])

    def check_gradients(self, twin, images, labels, start, folder, answer, report):
        gradients = safetensors_files.read(os.path.join(folder, "gradients.safetensors"))
        state = safetensors_files.read(os.path.join(folder, "state.safetensors"))
        loss, exact, after = stepped(copy.deepcopy(twin).double(), images.double(), labels)
        self.assertEqual(set(gradients), set(exact))
        self.assertAlmostEqual(answer["loss"] / loss, 1, delta=1e-4)
        report["gradients"] = gradient_error(gradients, exact)
        if report["gradients"] > 1e-3:
            report["gradients_torch"] = own_error(twin, images, labels, exact)
        self.assertLessEqual(report["gradients"], max(1e-3, 3 * report.get("gradients_torch", 0)))
        for key in after:
            if key.endswith(("running_mean", "running_var")):  # by the way that they have gone
                way = np.linalg.norm(after[key] - start[key])
                self.assertLessEqual(np.linalg.norm(state[key] - after[key]), 1e-2 * way, key)

    def check_figures(self, name):
        """Parameters, multiply-adds and preprocessing: the twin's, and what torchvision has published."""
        figures = neurim("cost", name)
        classes = 10 if figures["imgsz"] < 64 else 1000
        twin = torch_models.create(name, classes, figures["in_chans"], initialised=False)
        self.assertEqual(figures["parameters"], sum(weight.numel() for weight in twin.parameters()))
        self.assertEqual(figures["multiply_adds"], multiply_adds(twin, figures["imgsz"], figures["in_chans"]))
        if name in OWN:
            return
        published = list(torchvision.models.get_model_weights(name))[0]
        parameters = published.meta["num_params"]
        if name == "inception_v3":  # published with the auxiliary classifier
            aux = torchvision.models.inception.InceptionAux(768, 1000)
            parameters -= sum(weight.numel() for weight in aux.parameters())
        self.assertEqual(figures["parameters"], parameters)
        for weights in torchvision.models.get_model_weights(name):
            preprocessing = weights.transforms()
            if "_ops" in weights.meta and preprocessing.crop_size == [figures["imgsz"]]:
                self.assertAlmostEqual(figures["multiply_adds"] / 1e9, weights.meta["_ops"], delta=1e-3)
        preprocessing = published.transforms()
        if "SWAG" not in published.name:  # which were fine-tuned on larger pictures than the model is for
            self.assertEqual([figures["imgsz"]], preprocessing.crop_size)
        self.assertEqual((figures["mean"], figures["deviation"]), (preprocessing.mean, preprocessing.std))

    def check_initial_values(self, name):
        """Each tensor's distribution is the twin's: the same constants, or mean and deviation within five standard errors, and
        the same kurtosis, which tells a uniform distribution (1.8) from a normal one (3)."""
        torch.manual_seed(2)
        twin = torch_models.arrays(torch_models.create(name, CLASSES, channels_of(name)))
        with tempfile.TemporaryDirectory() as folder:
            neurim("initial", name, "2", str(CLASSES), folder)
            ours = safetensors_files.read(os.path.join(folder, "initial.safetensors"))
        self.assertEqual(set(ours), set(twin))
        for key, expected in twin.items():
            # Older PyTorch draws a few values of a truncated normal distribution at its far bounds.
            distance = np.abs(expected - np.median(expected))
            expected = expected[distance <= 20 * np.median(distance)]
            drawn, count = ours[key].astype(np.float64), expected.size
            deviation = expected.std()
            if deviation == 0:
                self.assertTrue((drawn == expected).all(), key)
                continue
            error = 5 * deviation * np.sqrt(2 / count)
            self.assertLessEqual(abs(drawn.mean() - expected.mean()), error, key)
            self.assertLessEqual(abs(drawn.std() - deviation), error, key)
            if count > 4000:
                self.assertAlmostEqual(kurtosis(drawn), kurtosis(expected), delta=0.6, msg=key)

    def test_lists_name_known_models(self):
        self.assertLessEqual(SMALL | OWN | LARGEST | set(SIZES), set(neurim("names")))


def add_tests(name):
    @unittest.skipUnless(ALL or name in SMALL, "NEURIM_PARITY is not all")
    def test(self):
        self.check_figures(name)
        if name in SMALL:
            self.check_initial_values(name)
        self.check(name)

    setattr(Zoo, "test_" + name, test)


torch.set_num_threads(1)  # other tests run beside this one
for each in neurim("names"):
    add_tests(each)

if __name__ == "__main__":
    unittest.main()
