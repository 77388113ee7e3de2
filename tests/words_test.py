#!/usr/bin/env python3
"""Checks that the words of docs/glossary.md are used: finds none of the words that they replaced.

Looks at names and comments of the C++ sources, and at the text of everything else but docs/decisions and CHANGELOG.md, which
keep the words of their time. An option's old name may stand in the list of its aliases.
"""
import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KERNELS = ("neurim/backend/", "neurim/compile/", "neurim/core/", "neurim/graph/")

# (pattern, the word to use, where it is searched; "": everywhere)
RETIRED = [
    (r"\b(?:Onnx)?Sites?\b|\bconv_site\b|\btuning_site\b", "kernel request, tuning key", ""),
    (r"\bsites?\b", "request", KERNELS),
    (r"\bSpecs?\b|\bspec_of\b", "TensorDesc, tensor descriptor", ""),
    (r"\bChain(?:s|Site)?\b|\b(?:Byte|Pointwise)Chain\b|\bask_chain\b", "fusion group", (*KERNELS, "tests/ask", "tests/fusion", "tests/plan")),
    (r"\boutrun\b", "superseded", ""),
    (r"\bwants\b", "propose_layouts", KERNELS),
    (r"\bmay_round\b", "may_store_as", ""),
    (r"\bfew_channels\b|\bplain_conv\b|\bdirect_grad\b|\bdirect_input_grad\b|\bone_pixel\b|\bone_row\b|\bpair_weights\b",
     "conv_nchw16n, conv_nchw, conv_direct_wgrad, conv_direct_dgrad, gemv, vnni_weights", ""),
    (r"\bcpu (?:bands|few channels|one pixel|one row|plain|pairs)\b|\b(?:onednn|winograd) region\b", "the kernel's present name", ""),
    (r"\bown_(?:step|bytes|offset)\b", "workspace_step", ""),
    (r"\bproducts_named\b|\bPlanOptions::products\b|\boptions\.products\b", "compute_dtype", ""),
    (r"\bLayout::Half\b|\bHalfVec\b|\bhalf_of\b", "StorageDtype, HalfVector, storage_of", ""),
    (r"\bkStraight\b", "unrolled", ""),
    (r"\brelaid\b", "layout alias", ""),
    (r"\bpictures?\b|\bPictures?\b|\b\w*[a-z]Pictures?\b", "image", ""),
    (r"\bjudge[sd]?\b|\bjudging\b|\bJudges?\b", "evaluate", ""),
    (r"\bdeviations?\b", "std", ""),
    (r"\bModelCard\b|\bmodel card\b|\bSequenceCard\b", "model config", ""),
]

# Interfaces that keep a word: keys of JSON events and files, a tensor in saved weights, aliases of options.
ALLOWED = [
    r'[\[{(,] ?["\'](?:pictures|deviation)["\']',
    r'["\'](?:pictures|deviation)["\'] ?[:,\]]',
    r'"(?:max_picture_mib|train_pictures|val_pictures)"',
    r"pictures/",
]
LEFT_OUT = ("docs/decisions/", "CHANGELOG.md", "tests/words_test.py", "benchmarks/results")


def files():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [name for name in listed.splitlines() if not name.startswith(LEFT_OUT) and (ROOT / name).is_file()]


def faults(name, text):
    """The lines of a file with a retired word: (number, word, the word to use)."""
    found = []
    rules = [(re.compile(pattern), use) for pattern, use, where in RETIRED if name.startswith(where)]
    for number, line in enumerate(text.splitlines(), 1):
        for allowed in ALLOWED:
            line = re.sub(allowed, "", line)
        for pattern, use in rules:
            if match := pattern.search(line):
                found.append((number, match[0], use))
    return found


class Words(unittest.TestCase):
    def test_no_retired_word_is_left(self):
        found, seen = [], 0
        for name in files():
            try:
                text = (ROOT / name).read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue
            seen += 1
            found += [f"{name}:{number}: {word!r}: say {use}" for number, word, use in faults(name, text)]
        self.assertGreater(seen, 500)
        self.assertFalse(found, "\n" + "\n".join(found))

    def test_a_retired_word_is_found(self):
        self.assertEqual(faults("neurim/compile/x.cpp", "ok\nSpec spec;  // a site"), [(2, "site", "request"), (2, "Spec", "TensorDesc, tensor descriptor")])
        self.assertEqual(faults("neurim/data/x.cpp", "// the official site\n// a judged picture")[0][0], 2)


if __name__ == "__main__":
    if subprocess.run(["git", "rev-parse"], cwd=ROOT, capture_output=True).returncode != 0:
        print("not a git checkout")
        sys.exit(77)
    unittest.main()
