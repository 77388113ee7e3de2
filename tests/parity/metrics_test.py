"""Compares metrics with scikit-learn's, on drawn and on degenerate samples, whole and in parts.

ctest sets NEURIM_BUILD (the build folder, whose tests/metrics runs our side). Exit code 77: not here.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
import warnings

try:
    import numpy as np
    import sklearn.metrics as sk
    import torch
    from torchmetrics.functional.classification.calibration_error import _ce_compute
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

RUNNER = os.path.join(os.environ.get("NEURIM_BUILD", "build"), "tests", "metrics")
BETA = 0.7


def answers(cases):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(cases, file)
        file.flush()
        run = subprocess.run([RUNNER, file.name], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def probabilities(logits):
    shifted = np.exp(logits - logits.max(1, keepdims=True))
    return (shifted / shifted.sum(1, keepdims=True)).astype(np.float32)


def classified(scores, labels):
    return {"probabilities": scores.tolist(), "labels": labels.tolist(), "classes": scores.shape[1], "beta": BETA}


def drawn(seed, samples, classes, spread=1.5, absent=()):
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, samples)
    for label in absent:
        labels[labels == label] = (label + 1) % classes
    logits = random.normal(size=(samples, classes)) * spread
    logits[np.arange(samples), labels] += 1
    return classified(probabilities(logits), labels)


def degenerate():
    one_hot = np.eye(3, dtype=np.float32)[np.array([0, 1, 2, 2, 1])]
    half = np.full((6, 2), 0.5, np.float32)
    ties = np.array([[0.25, 0.25, 0.5], [0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.5, 0.5, 0]], np.float32)
    return [classified(one_hot, np.array([0, 1, 2, 2, 1])),       # all right and sure
            classified(one_hot, np.array([1, 2, 0, 0, 2])),       # all wrong and sure
            classified(half, np.array([0, 1, 0, 1, 1, 1])),       # nothing known
            classified(half, np.zeros(6, int)),                   # one class alone
            classified(ties, np.array([2, 0, 0, 1])),
            classified(one_hot[:1], np.array([0])),               # one sample
            drawn(9, 50, 5, absent=(1, 3))]


def cases():
    return [drawn(seed, samples, classes) for seed, (samples, classes) in
            enumerate([(40, 2), (300, 2), (300, 3), (1000, 10), (600, 40)])] + degenerate()


def without_warnings(metric, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return metric(*args, **options)


def calibration_error(scores, labels, bins=15):
    confidence, right = scores.max(1), scores.argmax(1) == labels
    place = np.clip(np.floor(confidence * bins), 0, bins)
    return sum(abs(right[place == b].mean() - confidence[place == b].mean()) * (place == b).mean() for b in set(place))


def expected(case):
    scores = np.array(case["probabilities"], np.float32).astype(np.float64)
    labels, classes = np.array(case["labels"]), case["classes"]
    said, known, truth = scores.argmax(1), np.arange(classes), np.eye(classes)[labels]
    by_class = {"labels": known, "zero_division": 0}
    out = {}
    out["precision"], out["recall"], out["f1"], _ = sk.precision_recall_fscore_support(labels, said, **by_class)
    out["averages"] = np.concatenate([sk.precision_recall_fscore_support(labels, said, average=kind, **by_class)[:3]
                                      for kind in ("macro", "micro", "weighted")])
    out["f_beta"] = sk.fbeta_score(labels, said, beta=BETA, average=None, **by_class)
    out["iou"] = sk.jaccard_score(labels, said, average=None, **by_class)
    matrices = sk.multilabel_confusion_matrix(labels, said, labels=known)
    out["specificity"] = [m[0, 0] / m[0].sum() if m[0].sum() else 0 for m in matrices]
    out["accuracy"] = sk.accuracy_score(labels, said)
    out["balanced_accuracy"] = without_warnings(sk.balanced_accuracy_score, labels, said)
    out["kappa"] = without_warnings(sk.cohen_kappa_score, labels, said, labels=known)
    out["matthews"] = without_warnings(sk.matthews_corrcoef, labels, said)
    losses = -np.log(np.clip(scores[np.arange(len(labels)), labels], *[np.finfo(float).eps, 1 - np.finfo(float).eps]))
    out["log_loss"] = without_warnings(sk.log_loss, labels, scores, labels=known)
    out["deviation"] = losses.std(ddof=1) if len(losses) > 1 else np.nan
    out["brier"] = ((scores - truth) ** 2).sum(1).mean() * (0.5 if classes == 2 else 1)
    out["calibration_error"] = calibration_error(scores, labels)
    varied = [0 < (labels == c).sum() < len(labels) for c in known]
    out["roc_auc"] = [sk.roc_auc_score(truth[:, c], scores[:, c]) if varied[c] else np.nan for c in known]
    out["average_precision"] = [sk.average_precision_score(truth[:, c], scores[:, c]) if (labels == c).any() else np.nan
                                for c in known]
    return out


class Metrics(unittest.TestCase):
    def agree(self, ours, theirs, tolerance=1e-12):
        for name, value in theirs.items():
            found = np.array(ours[name], np.float64)  # null becomes NaN
            np.testing.assert_allclose(found, value, rtol=tolerance, atol=tolerance, equal_nan=True, err_msg=name)

    def test_classes(self):
        tests = cases()
        for ours, case in zip(answers(tests), tests):
            self.agree(ours, expected(case))

    def test_top_k(self):
        case = drawn(3, 400, 7)
        theirs = sk.top_k_accuracy_score(case["labels"], np.array(case["probabilities"]), k=2)
        self.assertAlmostEqual(answers([case])[0]["top2"], theirs, places=12)

    def test_brier_is_that_of_sklearn(self):
        for classes in (2, 5):
            case = drawn(classes, 200, classes)
            scores = np.array(case["probabilities"], np.float32).astype(np.float64)
            scores /= scores.sum(1, keepdims=True)  # which it asks for
            theirs = sk.brier_score_loss(case["labels"], scores[:, 1] if classes == 2 else scores)
            self.assertAlmostEqual(answers([case])[0]["brier"], theirs, places=6)

    def test_intervals_of_areas(self):
        """That their variance is the sum of squares of derivatives to the weights of samples, which are taken here by differences."""
        for classes in (2, 3):
            case = drawn(classes, 60, classes)
            scores, labels = np.array(case["probabilities"], np.float32).astype(np.float64).round(2), np.array(case["labels"])
            case["probabilities"] = scores.tolist()
            found = answers([case])[0]["areas"]
            scores = scores.astype(np.float32)
            chosen = [1] if classes == 2 else range(classes)
            for metric, (value, low, high) in zip((sk.roc_auc_score, sk.average_precision_score), (found[:3], found[3:])):
                def mean(weights):
                    return np.mean([metric(labels == c, scores[:, c], sample_weight=weights) for c in chosen])
                step, one = 1e-4, np.eye(len(labels))
                change = [(mean(1 + step * one[i]) - mean(1 - step * one[i])) / (2 * step) for i in range(len(labels))]
                whole = mean(np.ones(len(labels)))
                self.assertAlmostEqual(value, whole, places=12)
                n, z = whole * (1 - whole) / np.square(change).sum(), 1.959963984540054
                middle, half = (whole + z * z / 2 / n) / (1 + z * z / n), z / (1 + z * z / n) * np.sqrt(whole * (1 - whole) / n + z * z / 4 / n / n)
                np.testing.assert_allclose([low, high], [middle - half, middle + half], rtol=1e-5)

    def test_areas_without_errors_are_known_as_well_as_shares(self):
        labels = np.array([0, 1] * 10)
        found = answers([classified(np.eye(2, dtype=np.float32)[labels], labels)])[0]["areas"]
        self.assertEqual([found[0], found[2], found[3], found[5]], [1, 1, 1, 1])
        self.assertAlmostEqual(found[1], 10 / (10 + 1.959963984540054 ** 2), places=9)

    def test_calibration_error_is_that_of_torchmetrics(self):
        for seed, (samples, classes) in enumerate([(40, 2), (1000, 10), (600, 40)]):
            case = drawn(seed, samples, classes)
            confidences, answers_ = torch.tensor(case["probabilities"], dtype=torch.float32).double().max(1)
            right = (answers_ == torch.tensor(case["labels"])).double()
            theirs = _ce_compute(confidences, right, torch.linspace(0, 1, 16, dtype=torch.float64), norm="l1")  # whose public form rounds to f32
            self.assertAlmostEqual(answers([case])[0]["calibration_error"], theirs.item(), places=9)

    def test_numbers(self):
        random = np.random.default_rng(1)
        truths = [random.normal(size=500), random.normal(size=500) + 1e8, np.zeros(4), np.ones(3), np.array([2.0])]
        tests = [{"truth": truth.tolist(), "predicted": (truth + error).tolist()}
                 for truth in truths for error in (random.normal(size=truth.shape), 0 * truth)]
        for ours, case in zip(answers(tests), tests):
            pair = np.array(case["truth"]), np.array(case["predicted"])
            self.agree(ours, {"mae": sk.mean_absolute_error(*pair), "mse": sk.mean_squared_error(*pair),
                              "rmse": sk.root_mean_squared_error(*pair), "mape": sk.mean_absolute_percentage_error(*pair),
                              "r2": without_warnings(sk.r2_score, *pair) if len(pair[0]) > 1 else np.nan})

    def test_parts_in_any_order_give_the_same_bits(self):
        random = np.random.default_rng(2)
        numbers = {"truth": (random.normal(size=300) * 1e5).tolist(), "predicted": (random.normal(size=300) * 1e-5).tolist()}
        for case in (drawn(4, 300, 6), drawn(5, 300, 2), numbers):
            split = [{"parts": [120], "order": [1, 0]}, {"parts": [10, 10, 100, 290], "order": [3, 0, 4, 2, 1]},
                     {"parts": [299], "order": [0, 1]}]
            whole, *parts = answers([case] + [{**case, **parts} for parts in split])
            for part in parts:
                self.assertEqual(whole, part)


if __name__ == "__main__":
    unittest.main()
