"""Every model of the zoo against its PyTorch twin: torchvision's, timm's for timm/NAME, or one in torch_models.py, of which
those with timm's names are compared with timm's where timm is installed.

Of all models: parameters, multiply-adds and preprocessing, and the figures that were published.

From the same random weights and batch statistics: names and shapes of the tensors, and the logits, within 1e-4 of the largest
one. Of one small member of each family also the initial values, the way back (what Neurim saves is loaded into the twin), the
gradients, the running statistics after a step, three steps of training, and the ONNX file in ONNX Runtime, but for VGG (see
WIDE). That member alone is tested unless NEURIM_PARITY=all, which does all of that for all models, the largest and timm's among them, NEURIM_PARITY=logits
what comes before "Of one". Gradients are to be within 1e-3 of a tensor's length; where PyTorch's own in f32 are further from
those in f64, three times that is allowed: rounding grows from block to block in a deep network with random weights.

Weights under older names, with auxiliary classifiers, and of torchvision in timm's nets and the other way round are read as
their own. Where timm is not installed, what needs it is skipped.

ctest sets NEURIM_BUILD (the build folder, whose tests/zoo runs the models). One JSON line a model says what was measured;
scripts/model_table makes docs/models.md of them. Exit code 77: not here.
"""
import copy
import json
import os
import re
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

try:
    import timm
except ImportError:
    timm = None

import safetensors_files
import torch_models

PROGRAM = os.path.join(os.environ.get("NEURIM_BUILD", "build"), "tests", "zoo")
PARITY = os.environ.get("NEURIM_PARITY")
CLASSES, BATCH = 10, 4

# Without vit_b_32 and wide_resnet28_10, the small members of theirs, which took a third of the time of all.
SMALL = {"lenet5", *torch_models.ROW_CLASSIFIERS, "resnet20", "alexnet", "vgg11_bn", "squeezenet1_1", "resnet18",
         "resnext50_32x4d", "seresnet50", "densenet121", "googlenet", "inception_v3", "mobilenet_v1", "mobilenet_v2",
         "mobilenet_v3_small", "shufflenet_v2_x0_5", "mnasnet0_5", "efficientnet_b0", "efficientnet_v2_s",
         "regnet_x_400mf", "regnet_y_400mf", "convnext_tiny", "swin_t", "vit_tiny_patch16_224",
         "timm/vgg11_bn", "timm/efficientnet_b0", "timm/efficientnetv2_s", "timm/tf_efficientnet_b0",
         "timm/mobilenetv1_100", "timm/mobilenetv2_100", "timm/mobilenetv3_small_100", "timm/mnasnet_050",
         "timm/regnety_008", "timm/convnext_tiny", "timm/resnet18"}
# Half a gigabyte of fully connected layers, writing which a few times took a quarter of the time of all: AlexNet has as many layers of
# that kind and ResNets the others, so that these are tested as NEURIM_PARITY=logits does.
WIDE = {"vgg11_bn"}
OWN = {"lenet5", "mobilenet_v1", "seresnet50", "wide_resnet28_10", *torch_models.CIFAR_RESNETS, *torch_models.TIMM_VITS,
       *torch_models.ROW_CLASSIFIERS}
GREY = {"lenet5", *torch_models.ROW_CLASSIFIERS}
# 2.6 GB of weights: in ONNX in a file of their own, and their gradients more than a minute's work.
LARGEST = {"regnet_y_128gf", "timm/regnety_1280"}
# The same nets, and those whose batch norms differ, there and in timm.
SAME = {"efficientnet_b0": "efficientnet_b0", "mobilenet_v2": "mobilenetv2_100", "mnasnet0_5": "mnasnet_050",
        "regnet_y_400mf": "regnety_004", "convnext_tiny": "convnext_tiny", "vgg11_bn": "vgg11_bn",
        "densenet121": "densenet121", "resnet18": "resnet18", "inception_v3": "inception_v3",
        "swin_t": "swin_tiny_patch4_window7_224"}
ALIKE = {"efficientnet_v2_s": "efficientnetv2_s", "mobilenet_v3_small": "mobilenetv3_small_100"}
SIZES = {"wide_resnet28_10": 32, "alexnet": 100, "inception_v3": 139, "unet": 188,
         **dict.fromkeys(GREY, 28), **dict.fromkeys(torch_models.CIFAR_RESNETS, 32),
         **dict.fromkeys(["vit_b_16", "vit_b_32", *torch_models.TIMM_VITS], 224),
         **dict.fromkeys([f"timm/swin_{size}_patch4_window7_224" for size in ("tiny", "small", "base")], 224)}
LAYER_SCALES = ("layer_scale", "gamma")
# In millions, what the papers say of nets that torchvision has not. Of LeNet-5 it is the count of its usual form: that of 1998
# has 60,000 parameters, as its second convolution does not see all channels everywhere.
PUBLISHED = {"lenet5": {"parameters": "0.0617"},
             "mobilenet_v1": {"parameters": "4.2", "multiply_adds": "569"},
             "resnet20": {"parameters": "0.27"}, "resnet32": {"parameters": "0.46"}, "resnet44": {"parameters": "0.66"},
             "resnet56": {"parameters": "0.85"}, "resnet110": {"parameters": "1.7"},
             "wide_resnet28_10": {"parameters": "36.5"}}
# torchvision brings their pixels from its usual mean and std to one half each (transform_input).
TRANSFORMED = {"googlenet", "inception_v3"}
# torchvision's names of the parts of a vision transformer, and timm's.
TIMM_NAMES = {"class_token": "cls_token", "conv_proj.": "patch_embed.proj.", "encoder.pos_embedding": "pos_embed",
              "encoder.layers.encoder_layer_": "blocks.", "encoder.ln.": "norm.", "heads.head.": "head.",
              ".ln_1.": ".norm1.", ".self_attention.in_proj_": ".attn.qkv.", ".self_attention.out_proj.": ".attn.proj.",
              ".ln_2.": ".norm2.", ".mlp.0.": ".mlp.fc1.", ".mlp.3.": ".mlp.fc2."}
ATTENTION = (torch.nn.MultiheadAttention, torch_models.TimmAttention,
             *([timm.models.swin_transformer.WindowAttention] if timm else []))


def neurim(*words):
    return json.loads(subprocess.run([PROGRAM, *words], stdout=subprocess.PIPE, check=True).stdout)


def channels_of(name):
    return 1 if name in GREY else 3


def size_of(name):
    return SIZES.get(name, SIZES.get(name.removeprefix("timm/"), 64))


def norms_of(model):
    return [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d)]


def without_chance(model):
    """Nothing is dropped."""
    for module in model.modules():
        if isinstance(module, (torch.nn.Dropout, torchvision.ops.StochasticDepth)):
            module.p = 0
        if timm and isinstance(module, timm.layers.DropPath):
            module.drop_prob = 0
    return model


def calibrate(norm, inputs):
    """Before a batch norm works: running statistics near the batch's, as the norms before it left it. A channel that varies
    little about a large mean gets a larger variance, as it would enlarge rounding errors."""
    mean, variance = inputs[0].mean((0, 2, 3)), inputs[0].var((0, 2, 3)) + 1e-3
    norm.running_mean.copy_(mean * torch.empty_like(mean).uniform_(0.8, 1.2))
    norm.running_var.copy_((variance + mean**2) * torch.empty_like(mean).uniform_(0.8, 1.2))


def random_twin(name, images):
    """A twin whose biases and norms are not the usual zeros and ones, and whose running statistics let the activations
    neither vanish nor explode."""
    torch.manual_seed(0)
    size = images.shape[-1]
    model = without_chance(torch_models.create(name, CLASSES, channels_of(name), initialised=False, size=size)).eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if key.endswith(LAYER_SCALES):
                parameter.uniform_(0.3, 0.7)  # at its initial value, all but 0, the branch would not show
            elif parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
            elif not norms_of(model) and name not in torch_models.ROW_CLASSIFIERS:  # nothing else would keep the signal
                torch.nn.init.kaiming_normal_(parameter)
        # The stronger the residual branches, the more does each enlarge rounding errors; but these functions dampen what is weak.
        dampens = any(isinstance(module, (torch.nn.SiLU, torch.nn.Hardswish)) for module in model.modules())
        hooks = []
        for norm in norms_of(model):
            norm.weight.uniform_(*((0.15, 0.35) if dampens else (0.1, 0.25)))
            hooks.append(norm.register_forward_pre_hook(calibrate))
        model(images)
        for hook in hooks:
            hook.remove()
    return model


def image_batch(channels, size):
    """Noise, unlike in colour and in its large parts, so that the logits differ from image to image."""
    torch.manual_seed(1)
    large = torch.nn.functional.interpolate(torch.randn(BATCH, channels, 4, 4), size=size, mode="bilinear")
    return torch.randn(BATCH, channels, 1, 1) + large + 0.3 * torch.randn(BATCH, channels, size, size)


def largest_difference(values, reference):
    """As a share of the largest magnitude."""
    return float(np.abs(values - reference).max() / np.abs(reference).max())


def kurtosis(values):
    squares = np.square(values.astype(np.float64) - values.mean())
    return np.mean(np.square(squares)) / np.mean(squares)**2


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
    """Of convolutions, linear layers, attention and recurrent layers for one image, counted on tensors without data; recurrent
    layers need some."""
    device = "cpu" if any(isinstance(module, torch.nn.RNNBase) for module in model.modules()) else "meta"
    model, count = copy.deepcopy(model).to_empty(device=device).eval(), 0

    def add(module, inputs, output):
        nonlocal count
        count += output.numel() * module.weight[0].numel()

    def add_attention(module, inputs, output):
        """The scores and their products with the values; PyTorch's module does not call its linear layers."""
        nonlocal count
        windows, length, width = (inputs or output)[0].shape  # torchvision may give the inputs by keyword, which hooks are not told
        count += 2 * windows * length**2 * width
        if isinstance(module, torch.nn.MultiheadAttention):
            count += 4 * length * width**2

    def add_steps(module, inputs, output):
        nonlocal count
        steps = inputs[0].shape[0] * inputs[0].shape[1]
        count += steps * sum(weight.numel() for weight in module.parameters() if weight.dim() == 2)

    for module in model.modules():
        if isinstance(module, (torch.nn.Conv2d, torch.nn.Linear)):
            module.register_forward_hook(add)
        if isinstance(module, torch.nn.RNNBase):
            module.register_forward_hook(add_steps)
        if isinstance(module, ATTENTION):
            module.register_forward_hook(add_attention)
    with torch.no_grad():
        model(torch.empty(1, channels, side, side, device=device))
    return count


def renamed(arrays, names):
    """Under names in which those of the table are replaced."""
    result = {}
    for name, array in arrays.items():
        for here, there in names.items():
            name = name.replace(here, there)
        result[name] = array
    return result


def drawn(model):
    """Small random numbers for the tensors of a model by name."""
    chance = np.random.default_rng(0)
    return {name: (chance.random(tuple(tensor.shape), np.float32) - 0.5) / 5 for name, tensor in model.state_dict().items()
            if not name.endswith("num_batches_tracked")}


class Zoo(unittest.TestCase):
    def check(self, name, tasks=None, size=None):
        """`tasks` and `size`: for what is not tested as the models are."""
        size, channels = size or size_of(name), channels_of(name)
        images, labels = image_batch(channels, size), torch.arange(BATCH) % CLASSES
        twin = random_twin(name, images)
        trained = not tasks and (PARITY == "all" or not PARITY and name in SMALL - WIDE)
        if tasks:
            labels = torch.randint(CLASSES, (BATCH, *twin(images).shape[2:]))
        elif trained:
            tasks = ["save", "onnx", *([] if name in LARGEST else ["gradients"]), str(small_rate(twin, images, labels))]
        else:
            tasks = []
        report = {"model": name if size == size_of(name) else f"{name} at {size}", "imgsz": size}
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
            unlike = np.ptp(expected, axis=0).max()  # how far the images are apart
            self.assertLess(np.abs(logits - expected).max(), 1e-3 * unlike)
            if "save" in tasks:
                saved = safetensors_files.read(os.path.join(folder, "saved.safetensors"))
                torch_models.load(copy.deepcopy(twin), saved)
                for key, array in start.items():
                    np.testing.assert_array_equal(saved[key], array, key)
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
        apart = max(report["logits"], report.get("onnx", 0))
        if apart > 1e-4:  # of 152 layers rounding alone makes so much: PyTorch's own distance from f64 says
            with torch.no_grad():
                exact = copy.deepcopy(twin).double()(images.double()).numpy()
            self.assertLessEqual(apart, 3 * largest_difference(expected, exact))
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
        """Parameters, multiply-adds and preprocessing: the twin's, and what torchvision and the papers have published."""
        figures = neurim("cost", name)
        classes = 10 if figures["imgsz"] < 64 else 1000
        with torch_models.without_data():
            twin = torch_models.create(name, classes, figures["in_chans"], initialised=False)
        self.assertEqual(figures["parameters"], sum(weight.numel() for weight in twin.parameters()))
        for figure, published in PUBLISHED.get(name, {}).items():
            decimals = len(published.partition(".")[2])
            self.assertEqual(f"{figures[figure] / 1e6:.{decimals}f}", published, figure)
        if not name.startswith("swin"):  # whose matrix products are not all in modules
            self.assertEqual(figures["multiply_adds"], multiply_adds(twin, figures["imgsz"], figures["in_chans"]))
        if name.startswith("timm/"):
            published = twin.default_cfg
            self.assertEqual((figures["in_chans"], figures["imgsz"], figures["imgsz"]), tuple(published["input_size"]))
            self.assertEqual((figures["mean"], figures["deviation"]), (list(published["mean"]), list(published["std"])))
        if name in OWN or name.startswith("timm/"):
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
        if "SWAG" not in published.name:  # which were fine-tuned on larger images than the model is for
            self.assertEqual([figures["imgsz"]], preprocessing.crop_size)
        mean, std = ([0.5] * 3,) * 2 if name in TRANSFORMED else (preprocessing.mean, preprocessing.std)
        self.assertEqual((figures["mean"], figures["deviation"]), (mean, std))

    def check_initial_values(self, name):
        """Each tensor's distribution is the twin's: the same constants, or mean and std within five standard errors, and
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
            std = expected.std()
            if expected.min() == expected.max():
                self.assertTrue((drawn == expected.flat[0]).all(), key)
                continue
            error = 5 * std * np.sqrt(2 / count)
            self.assertLessEqual(abs(drawn.mean() - expected.mean()), error, key)
            self.assertLessEqual(abs(drawn.std() - std), error, key)
            if count > 4000:
                self.assertAlmostEqual(kurtosis(drawn), kurtosis(expected), delta=0.6, msg=key)

    @unittest.skipUnless(timm, "timm is not installed")
    def test_twins_with_timms_names_are_timms(self):
        images = image_batch(3, 224)[:1]
        for name in torch_models.TIMM_VITS:
            with self.subTest(name), torch.no_grad():
                twin = torch_models.create(name, CLASSES).eval()
                theirs = timm.create_model(name, num_classes=CLASSES).eval()
                self.assertEqual([key for key, _ in theirs.named_parameters()], [key for key, _ in twin.named_parameters()])
                for key, tensor in theirs.state_dict().items():
                    values = tensor.numpy().astype(np.float64)
                    self.assertAlmostEqual(values.std(), twin.state_dict()[key].std(unbiased=False).item(),
                                           delta=1e-12 + 0.3 * values.std(), msg=key)
                theirs.load_state_dict(twin.state_dict())
                self.assertLess(largest_difference(twin(images).numpy(), theirs(images).numpy()), 1e-4)
                figures, config = neurim("cost", name), theirs.pretrained_cfg
                self.assertEqual((figures["mean"], figures["deviation"]), (list(config["mean"]), list(config["std"])))
                self.assertEqual([3, figures["imgsz"], figures["imgsz"]], list(config["input_size"]))

    @unittest.skipUnless(timm, "timm is not installed")
    def test_timms_swin_where_windows_are_not_whole(self):
        self.check("timm/swin_tiny_patch4_window7_224", ["save", "onnx"], size=256)

    def test_unet(self):
        for name in ("unet", "unet_padded"):
            with self.subTest(name):
                self.check(name, ["save", "onnx", "gradients"])

    def test_lists_name_known_models(self):
        self.assertLessEqual(SMALL | OWN | LARGEST | TRANSFORMED | set(PUBLISHED) | set(SIZES), {"unet", *neurim("names")})


class Loading(unittest.TestCase):
    """Weights whose names are not the net's."""

    def check(self, model, given, expected, *notes):
        """The net gets the expected tensors, and the notes are these, by a part of each."""
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ("from.safetensors", "to.safetensors")]
            safetensors_files.write(paths[0], given)
            said = neurim("convert", model, *paths)["notes"]
            found = safetensors_files.read(paths[1])
        self.assertEqual(set(found), set(expected))
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array, name)
        self.assertEqual(len(said), len(notes), said)
        for note in notes:
            self.assertTrue(any(note in line for line in said), said)

    def test_auxiliary_classifiers_are_passed_over(self):
        for name, begins in ("googlenet", ("aux1.", "aux2.")), ("inception_v3", ("AuxLogits.",)):
            with self.subTest(name):
                with torch_models.without_data():
                    model = getattr(torchvision.models, name)(weights=None, num_classes=CLASSES, aux_logits=True,
                                                              init_weights=False)
                given = drawn(model)
                kept = {key: array for key, array in given.items() if not key.startswith(begins)}
                self.assertLess(len(kept), len(given))
                self.check(name, given, kept, *(f"passes over '{begin}" for begin in begins))

    def test_older_names_of_densenet(self):
        with torch_models.without_data():
            expected = drawn(torch_models.create("densenet121", CLASSES))
        older = {re.sub(r"(denselayer\d+\.(?:norm|conv))(\d)", r"\1.\2", name): array for name, array in expected.items()}
        self.assertIn("features.denseblock1.denselayer1.norm.1.weight", older)
        self.check("densenet121", older, expected)

    def test_vision_transformers_of_both_libraries_and_older_ones(self):
        with torch_models.without_data():
            torchvisions = torch_models.create("vit_b_16", CLASSES)
            timms = torch_models.create("vit_base_patch16_224", CLASSES)
        here = drawn(torchvisions)
        there, older = renamed(here, TIMM_NAMES), renamed(here, {".mlp.0.": ".mlp.linear_1.", ".mlp.3.": ".mlp.linear_2."})
        self.assertIn("blocks.0.attn.qkv.weight", there)
        self.assertIn("encoder.layers.encoder_layer_0.mlp.linear_1.weight", older)
        self.check("vit_b_16", there, here, "names of another library")
        self.check("vit_base_patch16_224", here, there, "names of another library")
        self.check("vit_b_16", older, here)
        # The tables of names are right: the twins agree, and torchvision reads the older ones.
        logits = []
        for twin, arrays in (torchvisions, older), (timms, there):
            twin.to_empty(device="cpu")
            torch_models.load(twin, arrays)
            with torch.no_grad():
                logits.append(twin.eval()(image_batch(3, 224)[:1]).numpy())
        self.assertLess(largest_difference(*logits), 1e-4)


@unittest.skipUnless(timm, "timm is not installed")
class Exchange(unittest.TestCase):
    def exchanged(self, source, target, folder):
        """The logits of a random twin of one library, and of the other's with its weights, which Neurim has renamed."""
        images = image_batch(3, max(size_of(source), size_of(target)))
        twin, other = random_twin(source, images), without_chance(torch_models.create(target, CLASSES, 3, initialised=False))
        paths = [os.path.join(folder, name) for name in ("from.safetensors", "to.safetensors")]
        safetensors_files.write(paths[0], torch_models.arrays(twin))
        neurim("convert", target, *paths)
        torch_models.load(other, safetensors_files.read(paths[1]))
        with torch.no_grad():
            return twin(images).numpy(), other.eval()(images).numpy()

    def test_weights_go_both_ways(self):
        for here, there in {**SAME, **ALIKE}.items():
            for source, target in ((here, "timm/" + there), ("timm/" + there, here)):
                with self.subTest(source), tempfile.TemporaryDirectory() as folder:
                    expected, found = self.exchanged(source, target, folder)
                    if here in SAME:
                        self.assertLessEqual(largest_difference(found, expected), 1e-5)

    def test_swins_with_and_without_what_follows_from_their_design(self):
        torchvisions = torch_models.create("swin_t", CLASSES).state_dict()
        index = {name: tensor.numpy() for name, tensor in torchvisions.items() if name.endswith(".relative_position_index")}
        learnt = {name: tensor.numpy() for name, tensor in torchvisions.items() if name not in index}
        timms = torch_models.create("timm/swin_tiny_patch4_window7_224", CLASSES)
        there = {name: tensor.numpy() for name, tensor in timms.state_dict().items()}
        older = {name: tensor.numpy() for name, tensor in timms.named_buffers()}  # which older versions of timm have stored
        self.assertIn("layers.2.blocks.5.attn_mask", older)
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ("from.safetensors", "to.safetensors")]
            for name, given, expected in (("swin_t", learnt, {**learnt, **index}),
                                          ("timm/swin_tiny_patch4_window7_224", {**there, **older}, there)):
                safetensors_files.write(paths[0], given)
                self.assertEqual(neurim("convert", name, *paths)["notes"], [])
                found = safetensors_files.read(paths[1])
                self.assertEqual(set(found), set(expected))
                for key, array in expected.items():
                    np.testing.assert_array_equal(found[key], array, key)
            for key in ("layers.0.blocks.0.attn.relative_position_index", "layers.1.blocks.1.attn_mask"):
                other = older[key].copy()
                other.flat[3] += 1
                safetensors_files.write(paths[0], {**there, **older, key: other})
                run = subprocess.run([PROGRAM, "convert", "timm/swin_tiny_patch4_window7_224", *paths], stderr=subprocess.PIPE,
                                     text=True, check=False)
                self.assertNotEqual(run.returncode, 0)
                self.assertIn(f"{key} ", run.stderr)
                self.assertIn("that the model computes", run.stderr)


def add_tests(name):
    of_timm = name.startswith("timm/")

    @unittest.skipUnless(timm or not of_timm, "timm is not installed")
    @unittest.skipUnless(PARITY or name in SMALL, "NEURIM_PARITY is not all")
    def test(self):
        if name in SMALL and not of_timm:  # which has our initial values
            self.check_initial_values(name)
        self.check(name)

    @unittest.skipUnless(timm or not of_timm, "timm is not installed")
    def test_figures(self):
        self.check_figures(name)

    setattr(Zoo, "test_" + name.replace("/", "_"), test)
    setattr(Zoo, "test_figures_of_" + name.replace("/", "_"), test_figures)


torch.set_num_threads(1)  # other tests run beside this one
for each in neurim("names"):
    add_tests(each)


def load_tests(loader, tests, pattern):
    """With NEURIM_SHARD=2/3 the second, fifth, eighth … test."""
    shard, shards = map(int, os.environ.get("NEURIM_SHARD", "1/1").split("/"))
    return unittest.TestSuite([test for suite in tests for test in suite][shard - 1::shards])


if __name__ == "__main__":
    unittest.main()
