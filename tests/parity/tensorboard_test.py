"""Reads an event file of ours with TensorBoard's own reader.

ctest sets NEURIM_BUILD (the build folder, whose tests/tensorboard_test writes the file). Exit code 77: not here.
"""
import glob
import os
import subprocess
import sys
import tempfile
import unittest

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

WRITER = os.path.join(os.environ.get("NEURIM_BUILD", "build"), "tests", "tensorboard_test")


def written_scalars():
    """Curves by tag as lists of (step, value), from a run that stopped at step 20 and resumed at step 11."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [WRITER, "--gtest_filter=TensorBoard.WritesForTheRealReader"],
            env={**os.environ, "NEURIM_TENSORBOARD": folder},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        assert len(glob.glob(folder + "/events.out.tfevents.*")) == 2
        events = EventAccumulator(folder)
        events.Reload()
        tags = events.Tags()["scalars"]
        return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in tags}


class TensorBoardReads(unittest.TestCase):
    def test_scalars(self):
        curves = written_scalars()
        self.assertEqual(sorted(curves), ["loss/train", "läuft/gut"])
        loss = dict(curves["loss/train"])
        self.assertEqual(sorted(loss), list(range(1, 16)))
        for step, value in loss.items():
            self.assertAlmostEqual(value, 1 / step if step <= 10 else -step, places=6)
        # The resumed file takes back every point from step 11 on, of every curve.
        self.assertEqual(curves["läuft/gut"], [(step, 100.0 * step) for step in range(1, 11)])


if __name__ == "__main__":
    unittest.main()
