#!/usr/bin/env python3
"""Checks that no function of the library and the command has more than 80 lines, from its signature to its last brace.

Tables are left out: functions whose lines are nearly all entries, named below with what they list.
"""
import re
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST = 80
TABLES = {
    "neurim/ops/common/formulas.h": "each_formula",                  # the formula of each op
    "neurim/data/digits.cpp": "glyphs",                               # the strokes of each digit
    "neurim/nn/named_layers.cpp": "built_in",                         # the layers of model files
    "neurim/train/train_options.cpp": "visit",                        # the options of training
}
SKIPPED = re.compile(r'//[^\n]*|/\*.*?\*/|R"\(.*?\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.DOTALL)
NOT_A_FUNCTION = re.compile(r"\b(namespace|struct|class|enum|union|extern)\b|[=,({]\s*$")


def functions(source):
    """The (name, first line, lines) of the functions in a source; not of lambdas, which are part of the function around them."""
    code = SKIPPED.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), source)
    found, opened, inside, start = [], [], 0, 0
    for at, letter in enumerate(code):
        if letter in ";}":
            start = at + 1
        if letter == "{":
            head = code[start:at]
            name = None
            if not inside and ")" in head and not NOT_A_FUNCTION.search(head.rstrip() + ("" if head.rstrip().endswith(")") else " x")):
                named = re.search(r"([\w~]+)\s*\(", head)
                name = named[1] if named else "operator"
            opened.append((name, code.count("\n", 0, start + len(head) - len(head.lstrip())) + 1))
            inside += name is not None
            start = at + 1
        elif letter == "}":
            name, line = opened.pop()
            if name:
                inside -= 1
                found.append((name, line, code.count("\n", 0, at) + 2 - line))
    return found


class FunctionLength(unittest.TestCase):
    def test_no_function_is_longer(self):
        names = subprocess.run(["git", "ls-files", "neurim/*.cpp", "neurim/*.h"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        count, longer = 0, []
        for name in filter(lambda name: (ROOT / name).is_file(), names.splitlines()):
            for function, line, lines in functions((ROOT / name).read_text()):
                count += 1
                if lines > MOST and TABLES.get(name) != function:
                    longer.append(f"{name}:{line}: {function} has {lines} lines")
        self.assertGreater(count, 3000)
        self.assertFalse(longer, "\n" + "\n".join(longer))

    def test_a_longer_one_is_found(self):
        source = "struct A {\n  int f(int x) const {  // {\n" + "    ++x;\n" * 90 + "  }\n};\n\nint g() { return 1; }\n"
        self.assertEqual(functions(source), [("f", 2, 92), ("g", 96, 1)])


if __name__ == "__main__":
    unittest.main()
