"""Compares the image changes with Pillow and torchvision, level by level.

ctest sets NEURIM_BUILD (the build folder, whose tests/augmentations runs our side). Exit code 77: not here. With
NEURIM_VERBOSE set the largest std of each operation is printed.
"""
import collections
import math
import os
import subprocess
import sys
import unittest

try:
    import numpy as np
    from PIL import Image
    from torchvision import transforms
    from torchvision.transforms import functional as F
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

RUNNER = os.path.join(os.environ.get("NEURIM_BUILD", "build"), "tests", "augmentations")
MODES = {1: "L", 3: "RGB"}
SIZES = [(37, 53), (64, 64), (1, 19), (23, 1), (2, 2), (5, 3)]
NEAREST, BILINEAR = 0, 1
TORCH = {NEAREST: transforms.InterpolationMode.NEAREST, BILINEAR: transforms.InterpolationMode.BILINEAR}
# The order of neurim's Operation.
OPERATIONS = ("Identity AutoContrast Equalize Invert Rotate Posterize Solarize SolarizeAdd Color Contrast Brightness "
              "Sharpness ShearX ShearY TranslateX TranslateY").split()


def image(height, width, channels, seed=0):
    """Smooth colours with noise and some flat parts, so that every branch of HSV and every level occurs."""
    random = np.random.default_rng(seed)
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(channels), indexing="ij")
    levels = 127 + 127 * np.sin(x / 7 + c * 2.1) * np.cos(y / 5 + c) + random.normal(0, 12, (height, width, channels))
    levels = np.clip(levels, 0, 255).astype(np.uint8)
    levels[: height // 4, : width // 4] = 40
    return levels


def ours(levels, name, *values, shape=None):
    height, width, channels = levels.shape
    words = [RUNNER, str(height), str(width), str(channels), name, *(repr(float(v)) for v in values)]
    done = subprocess.run(words, input=levels.tobytes(), stdout=subprocess.PIPE, check=True)
    return np.frombuffer(done.stdout, np.uint8).reshape(shape or levels.shape)


def theirs(levels, change):
    if levels.shape[2] == 4:  # plane by plane, since Pillow multiplies colours with alpha before it moves them
        return np.concatenate([theirs(levels[:, :, c : c + 1], change) for c in range(4)], axis=2)
    squeezed = levels[:, :, 0] if levels.shape[2] == 1 else levels
    return np.asarray(change(Image.fromarray(squeezed, MODES[levels.shape[2]]))).reshape(levels.shape)


class ChangesTest(unittest.TestCase):
    largest = collections.defaultdict(int)

    @classmethod
    def tearDownClass(cls):
        if os.environ.get("NEURIM_VERBOSE"):
            print(*(f"{name}: {std}" for name, std in sorted(cls.largest.items())), sep="\n")

    def compare(self, name, values, change, channels=(1, 3, 4), tolerance=1, sizes=SIZES, strays=0.0, seeds=range(3)):
        """Within `tolerance` everywhere but in the part `strays` of the levels."""
        for size in sizes:
            for count in channels:
                for seed in seeds:
                    levels = image(*size, count, seed)
                    difference = np.abs(ours(levels, name, *values).astype(int) - theirs(levels, change))
                    off = difference > tolerance
                    label = name if strays == 0 else name + " (but for strays)"
                    self.largest[label] = max(self.largest[label], int(difference[~off].max(initial=0)))
                    if strays:
                        self.largest[name + " strays"] = max(self.largest[name + " strays"], off.sum() / levels.size)
                    self.assertLessEqual(off.sum(), strays * levels.size, (name, values, size, count, difference.max()))

    def compare_colors(self, name, values, change, **more):
        """Colour and grayscale against the library; with a fourth channel the colours are those without it."""
        self.compare(name, values, change, channels=(1, 3), **more)
        levels = image(37, 53, 4)
        result = ours(levels, name, *values)
        np.testing.assert_array_equal(result[:, :, 3], levels[:, :, 3])
        np.testing.assert_array_equal(result[:, :, :3], ours(np.ascontiguousarray(levels[:, :, :3]), name, *values))

    def test_resize(self):
        """Images, and checks of black and white, whose overshoot is cut between the two passes: columns first."""
        for height, width in ((37, 53), (64, 64), (1, 19), (300, 200)):
            for count in (1, 3):
                sharp = np.repeat((np.indices((height, width)).sum(0) // 3 % 2 * 255).astype(np.uint8)[:, :, None], count, 2)
                for levels in (image(height, width, count), np.ascontiguousarray(sharp)):
                    for to in ((64, 64), (20, 31), (150, 9), (37, 53), (1, 1), (224, 111)):
                        for how, filter in enumerate((Image.NEAREST, Image.BILINEAR, Image.BICUBIC)):
                            source = Image.fromarray(levels[:, :, 0] if count == 1 else levels)
                            if filter == Image.BICUBIC:
                                source = source.resize((to[1], height), filter)
                            expected = np.asarray(source.resize(to[::-1], filter))
                            found = ours(levels, "resize", how, *to, shape=expected.shape)
                            difference = np.abs(found.astype(int) - expected).max()
                            self.largest[f"resize {how}"] = max(self.largest[f"resize {how}"], int(difference))
                            self.assertLessEqual(difference, 1 if how else 0, (how, levels.shape, to))

    def test_flips(self):
        self.compare("hflip", (), F.hflip, tolerance=0)
        self.compare("vflip", (), F.vflip, tolerance=0)

    def test_rotate(self):
        for degrees in (0, 12.5, -33, 45, 90, 180, 201.7):
            self.compare("rotate", (BILINEAR, 0, degrees), lambda p: F.rotate(p, degrees, TORCH[BILINEAR]))
            # Where a point falls between two pixels, rounding chooses.
            self.compare("rotate", (NEAREST, 0, degrees), lambda p: F.rotate(p, degrees, TORCH[NEAREST]),
                         tolerance=0, strays=0.01, sizes=SIZES[:2])

    def test_fill(self):
        for how in (NEAREST, BILINEAR):
            self.compare("rotate", (how, 77, 30), lambda p: F.rotate(p, 30, TORCH[how], fill=77), channels=(1,))
            self.compare("rotate", (how, 77, 30), lambda p: F.rotate(p, 30, TORCH[how], fill=[77] * 3), channels=(3,))

    def test_affine(self):
        for degrees, move, scale, shear in ((10, (3, -4), 1, (0, 0)), (0, (0, 0), 0.73, (0, 0)),
                                            (0, (0, 0), 1.6, (12, 0)), (-40, (5, 2), 1.2, (10, -20)),
                                            (0, (4, 7), 1, (0, 0))):
            values = (degrees, *move, scale, *shear)
            self.compare("affine", (BILINEAR, 0, *values),
                         lambda p: F.affine(p, degrees, list(move), scale, list(shear), TORCH[BILINEAR]))
            self.compare("affine", (NEAREST, 0, *values),
                         lambda p: F.affine(p, degrees, list(move), scale, list(shear), TORCH[NEAREST]),
                         tolerance=0, strays=0.01, sizes=SIZES[:2])

    def test_perspective(self):
        for height, width in SIZES[:2]:
            start = [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]]
            end = [[3, 5], [width - 8, 1], [width - 3, height - 9], [6, height - 2]]
            flat = [v for point in start + end for v in point]
            # The library solves in f32, which moves points by some thousandths of a pixel.
            self.compare("perspective", (BILINEAR, 0, *flat), lambda p: F.perspective(p, start, end, TORCH[BILINEAR]),
                         sizes=[(height, width)], strays=0.002)
            self.compare("perspective", (NEAREST, 0, *flat), lambda p: F.perspective(p, start, end, TORCH[NEAREST]),
                         tolerance=0, sizes=[(height, width)], strays=0.01)

    def test_factors(self):
        for name, change in (("brightness", F.adjust_brightness), ("contrast", F.adjust_contrast),
                             ("saturation", F.adjust_saturation), ("sharpness", F.adjust_sharpness)):
            for factor in (0, 0.3, 1, 1.7, 4):
                self.compare_colors(name, (factor,), lambda p: change(p, factor))

    def test_hue(self):
        for turn in (-0.5, -0.13, 0, 0.01, 0.25, 0.5):
            self.compare_colors("hue", (turn,), lambda p: F.adjust_hue(p, turn))

    def test_gray(self):
        self.compare_colors("gray", (), lambda p: F.to_grayscale(p, 3 if p.mode == "RGB" else 1), tolerance=0)

    def test_tables(self):
        for gamma, gain in ((0.4, 1), (1, 1), (2.2, 1), (1.5, 1.8)):
            self.compare_colors("gamma", (gamma, gain), lambda p: F.adjust_gamma(p, gamma, gain), tolerance=0)
        for threshold in (0, 1, 100, 255, 256):
            self.compare_colors("solarize", (threshold,), lambda p: F.solarize(p, threshold), tolerance=0)
        for bits in range(1, 9):
            self.compare_colors("posterize", (bits,), lambda p: F.posterize(p, bits), tolerance=0)
        self.compare_colors("invert", (), F.invert, tolerance=0)
        self.compare_colors("equalize", (), F.equalize, tolerance=0)
        self.compare_colors("autocontrast", (), F.autocontrast, tolerance=0)

    def test_blur(self):
        for size, sigma in ((1, 1), (3, 0.5), (5, 1.1), (23, 2), (23, 0.1), (9, 8)):
            fits = [s for s in SIZES if min(s) > size // 2]  # torchvision refuses smaller images
            self.compare("blur", (size, sigma), lambda p: F.gaussian_blur(p, size, sigma), sizes=fits)

    def test_steps(self):
        def affine(p, translate=(0, 0), shear=(0, 0), center=None):
            fill = [128] * len(p.getbands())
            return F.affine(p, 0, list(translate), 1, list(shear), TORCH[BILINEAR], fill, center)

        def degrees(slope):
            return math.degrees(math.atan(slope))

        for value in (0.21, -0.3):
            self.compare("step", (OPERATIONS.index("ShearX"), value),
                         lambda p: affine(p, shear=(degrees(value), 0), center=[0, 0]))
            self.compare("step", (OPERATIONS.index("ShearY"), value),
                         lambda p: affine(p, shear=(0, degrees(value)), center=[0, 0]))
        for value in (7.8, -3.9):
            self.compare("step", (OPERATIONS.index("TranslateX"), value), lambda p: affine(p, (int(value), 0)))
            self.compare("step", (OPERATIONS.index("TranslateY"), value), lambda p: affine(p, (0, int(value))))
        for name, values, change in (("Rotate", (11,), lambda p, v: F.rotate(p, v, TORCH[BILINEAR],
                                                                             fill=[128] * len(p.getbands()))),
                                     ("Posterize", (3,), F.posterize), ("Solarize", (99.5,), F.solarize),
                                     ("Color", (1.4,), F.adjust_saturation), ("Contrast", (0.4,), F.adjust_contrast),
                                     ("Brightness", (1.3,), F.adjust_brightness),
                                     ("Sharpness", (1.9,), F.adjust_sharpness)):
            for value in values:
                self.compare("step", (OPERATIONS.index(name), value), lambda p: change(p, value), channels=(1, 3))
        for name, change in (("AutoContrast", F.autocontrast), ("Equalize", F.equalize), ("Invert", F.invert)):
            self.compare("step", (OPERATIONS.index(name), 0), change, channels=(1, 3), tolerance=0)

    def test_auto_augment_tables(self):
        """The frequency of every outcome, against the probabilities of torchvision's tables, at 6 sigma."""
        draws, height, width = 40000, 331, 662
        for name, policy in (("imagenet", "IMAGENET"), ("cifar10", "CIFAR10"), ("svhn", "SVHN")):
            auto = transforms.AutoAugment(getattr(transforms.AutoAugmentPolicy, policy))
            try:
                space = auto._augmentation_space(10, (height, width))
            except TypeError:  # older versions count (width, height)
                space = auto._augmentation_space(10, (width, height))
            expected = collections.defaultdict(float)
            for pair in auto.policies:
                for applied in range(4):
                    chance, outcome = 1 / len(auto.policies), []
                    for k, (operation, probability, level) in enumerate(pair):
                        here = applied >> k & 1
                        chance *= probability if here else 1 - probability
                        if here:
                            magnitudes, signed = space[operation]
                            value = float(magnitudes[level]) if level is not None else 0
                            outcome.append((operation, round(value, 2)))
                    expected[tuple(outcome)] += chance
            done = subprocess.run([RUNNER, str(height), str(width), str(draws), "auto-" + name], check=True,
                                  stdout=subprocess.PIPE, text=True)
            counted = collections.Counter()
            for line in done.stdout.splitlines():
                words = line.split()
                outcome = []
                for operation, value in zip(words[::2], words[1::2]):
                    operation, value = OPERATIONS[int(operation)], float(value)
                    if operation in ("Color", "Contrast", "Brightness", "Sharpness"):
                        value -= 1
                    outcome.append((operation, round(abs(value), 2)))
                counted[tuple(outcome)] += 1
            self.assertEqual(sum(counted.values()), draws)
            self.assertLessEqual(set(counted), {o for o, p in expected.items() if p > 0})
            for outcome, chance in expected.items():
                bound = 6 * math.sqrt(draws * chance * (1 - chance)) + 1e-9
                self.assertLessEqual(abs(counted[outcome] - draws * chance), bound, (name, outcome))


if __name__ == "__main__":
    unittest.main()
