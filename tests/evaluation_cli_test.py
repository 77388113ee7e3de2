"""The files of `neurim val` agree with each other, with what it prints, and with what follows from the predictions."""
import csv
import html.parser
import json
import math
import os
import unittest
from collections import Counter

from command import TrainedRun, neurim, png

CHARTS = "confusion_matrix", "confusion_matrix_normalized", "class_scores", "roc", "precision_recall", "reliability"


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


class Page(html.parser.HTMLParser):
    """Tags that are open, what is loaded, and the cells of tables."""

    def __init__(self, text):
        super().__init__()
        self.open, self.loaded, self.cells, self.alternatives = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.loaded += [attrs[name] for name in ("src", "href") if name in attrs]
        if tag == "img":
            self.alternatives.append(attrs["alt"])
        if tag not in ("img", "meta", "link", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.cells.append(data)


class EvaluationFiles(TrainedRun):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.said = neurim("val", f"model={cls.folder}", "name=files", "exist_ok=true", "--json")
        assert cls.said.returncode == 0, cls.said
        cls.report = cls.folder / "reports" / "files"
        cls.metrics = json.loads((cls.report / "metrics.json").read_text())
        cls.rows = rows_of(cls.report / "predictions.csv")

    def value(self, name):
        return self.metrics["metrics"][name]["value"]

    def test_all_files_are_there(self):
        for chart in CHARTS:
            self.assertEqual((self.report / f"{chart}.png").read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
            self.assertIn("<svg", (self.report / f"{chart}.svg").read_text()[:400])
        for sheet in ("mistakes.jpg", "most_confused.jpg"):
            self.assertEqual((self.report / sheet).read_bytes()[:2], b"\xff\xd8")

    def test_metrics_follow_from_the_predictions(self):
        rows, names, n = self.rows, self.metrics["classes"], len(self.rows)
        self.assertEqual(n, self.metrics["samples"])
        right = [row["label"] == row["predicted"] for row in rows]
        self.assertEqual([row["correct"] == "1" for row in rows], right)
        self.assertAlmostEqual(self.value("accuracy"), sum(right) / n, 15)
        self.assertAlmostEqual(self.value("log_loss"), math.fsum(float(row["loss"]) for row in rows) / n, 12)
        for row in rows:
            p = {name: float(row[f"p:{name}"]) for name in names}
            self.assertEqual(float(row["probability"]), p[row["label"]])
            self.assertEqual(float(row["confidence"]), max(p.values()))
            self.assertAlmostEqual(float(row["loss"]), -math.log(p[row["label"]]), 12)
            self.assertAlmostEqual(sum(p.values()), 1, 5)
        self.assertNotIn("top5", self.metrics["metrics"])  # of three classes it says nothing
        brier = math.fsum((float(row[f"p:{name}"]) - (row["label"] == name)) ** 2 for row in rows for name in names) / n
        self.assertAlmostEqual(self.value("brier"), brier, 12)
        pairs = Counter((row["label"], row["predicted"]) for row in rows)
        truths, answers = Counter(row["label"] for row in rows), Counter(row["predicted"] for row in rows)
        recall = {name: pairs[name, name] / truths[name] for name in truths}
        self.assertAlmostEqual(self.value("balanced_accuracy"), sum(recall.values()) / len(recall), 12)
        f1 = {name: 2 * pairs[name, name] / max(1, truths[name] + answers[name]) for name in names}
        self.assertAlmostEqual(self.value("f1_macro"), sum(f1.values()) / len(names), 12)
        for row in rows_of(self.report / "per_class.csv"):
            self.assertAlmostEqual(float(row["f1"]), f1[row["class"]], 12)
        for row in rows_of(self.report / "most_confused.csv"):
            self.assertEqual(int(row["count"]), pairs[row["true"], row["predicted"]])

    def test_intervals_hold_their_values(self):
        for name, one in self.metrics["metrics"].items():
            if "low" in one:
                self.assertLessEqual(one["low"], one["value"] + 1e-12, name)
                self.assertGreaterEqual(one["high"], one["value"] - 1e-12, name)

    def test_mistakes_and_label_issues_are_in_order(self):
        wrong = [row for row in self.rows if row["correct"] == "0"]
        self.assertGreater(len(wrong), 0)
        mistakes = rows_of(self.report / "mistakes.csv")
        self.assertEqual({row["file"] for row in mistakes}, {row["file"] for row in wrong})
        losses = [float(row["loss"]) for row in mistakes]
        self.assertEqual(losses, sorted(losses, reverse=True))
        issues = rows_of(self.report / "label_issues.csv")
        self.assertEqual(list(issues[0]), ["file", "label", "suggested", "score"])
        scores = [float(row["score"]) for row in issues]
        self.assertEqual(scores, sorted(scores))
        self.assertEqual({(row["file"], row["label"], row["suggested"]) for row in issues},
                         {(row["file"], row["label"], row["predicted"]) for row in wrong})

    def test_the_page_stands_alone_and_agrees(self):
        page = Page((self.report / "report.html").read_text())
        self.assertEqual(page.open, [])
        self.assertTrue(all(address.startswith(("data:", "#")) for address in page.loaded), page.loaded)
        self.assertEqual(len(page.alternatives), len(CHARTS) + 2)
        self.assertTrue(all(page.alternatives))
        accuracy = self.metrics["metrics"]["accuracy"]
        shown = f"{100 * accuracy['value']:.2f} % ({100 * accuracy['low']:.2f} to {100 * accuracy['high']:.2f})"
        self.assertIn(shown, page.cells)
        self.assertIn(f"accuracy                      {shown}\n", self.said.stderr)
        summary = json.loads(self.said.stdout.splitlines()[-1])
        self.assertEqual(summary["top1"], accuracy["value"])
        self.assertEqual(summary["f1_macro"], self.value("f1_macro"))
        self.assertIn(f"{self.value('kappa'):.4f}", " ".join(page.cells))
        for mistake in rows_of(self.report / "mistakes.csv")[:10]:
            self.assertIn(mistake["file"], page.cells)

    def test_the_same_evaluation_gives_the_same_files(self):
        self.assertEqual(neurim("val", f"model={self.folder}", "name=again", "exist_ok=true").returncode, 0)
        for file in ("metrics.json", "label_issues.csv", "report.html"):
            self.assertEqual((self.report / file).read_bytes(), (self.folder / "reports" / "again" / file).read_bytes(), file)

    def test_names_of_classes_are_text_in_pages(self):
        data = self.root / "odd"
        for name, level in (("<b>&\"cat'", 10), ("a, b", 200)):
            for i in range(8):
                png(data / name / f"{i}.png", 28, 28, level + 5 * i)
        run = neurim("train", f"data={data}", "model=lenet5", "batch=4", "epochs=1", "plots=false", f"project={self.root}/odd_runs", "name=odd")
        self.assertEqual(run.returncode, 0, run)
        run = neurim("val", f"model={self.root}/odd_runs/odd", "split=train")
        self.assertEqual(run.returncode, 0, run)
        report = self.root / "odd_runs" / "odd" / "reports" / "train"
        page = Page((report / "report.html").read_text())
        self.assertEqual(page.open, [])
        self.assertIn("<b>&\"cat'", page.cells)
        self.assertEqual({row["label"] for row in rows_of(report / "predictions.csv")}, {"<b>&\"cat'", "a, b"})
        self.assertEqual(set(os.listdir(report)) & {"roc.svg", "metrics.json"}, {"roc.svg", "metrics.json"})


if __name__ == "__main__":
    unittest.main()
