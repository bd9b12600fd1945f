"""The lints themselves: a good tree passes, and each kind of fault is found by name."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
OPENING = "// A thing.\n// Called by: nobody. Thread-safety: a value.\n"


def run(tool, files):
    """Exit status and output of a lint over a tree of {name: text}."""
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = pathlib.Path(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        result = subprocess.run([sys.executable, TOOLS / tool, "--root", root],
                                capture_output=True, text=True, check=False)
    return result.returncode, result.stdout + result.stderr


GOOD = {
    "src/base/a.h": OPENING + "#include <vector>\n",
    "src/ops/b.h": OPENING + '#include "base/a.h"\n#include "mla/e.h"\n',
    "src/ops/CMakeLists.txt": "add_room(ops SOURCES b.cc DEPS kernels base)\n",
    "src/kernels/k.cc": '#include <hwy/highway.h>\n#include "hwy/contrib/math/math-inl.h"\n',
    "include/mla/e.h": OPENING + "#include <string>\n",
}


class Layers(unittest.TestCase):
    def check(self, extra, expected):
        status, output = run("check_layers.py", {**GOOD, **extra})
        self.assertEqual(status, 1, output)
        self.assertIn(expected, output)

    def test_good_tree(self):
        status, output = run("check_layers.py", GOOD)
        self.assertEqual(status, 0, output)

    def test_empty_tree(self):
        self.assertEqual(run("check_layers.py", {})[0], 1)

    def test_upward_include(self):
        self.check({"src/kernels/bad.cc": '#include "ops/b.h"\n'},
                   'kernels must not include "ops/b.h"')

    def test_upward_include_in_angle_brackets(self):
        self.check({"src/io/bad.cc": "#include <kernels/k.h>\n"},
                   'io must not include "kernels/k.h"')

    def test_command_line_sees_the_engine_only(self):
        self.check({"src/cli/bad.cc": '#include "model/config.h"\n'}, "cli must not include")

    def test_relative_include(self):
        self.check({"src/ops/bad.cc": '#include "../base/a.h"\n'}, "never with ../")

    def test_include_without_room(self):
        self.check({"src/ops/bad.cc": '#include "b.h"\n'}, "is neither")

    def test_unknown_room(self):
        self.check({"src/attic/bad.cc": "\n"}, "'attic' is not a room")

    def test_heavy_header(self):
        self.check({"src/engine/bad.cc": "#include <CLI/CLI.hpp>\n"}, "belongs to cli only")

    def test_heavy_header_in_two_files(self):
        text = "#include <pcre2.h>\n"
        self.check({"src/tokenizer/a.cc": text, "src/tokenizer/b.cc": text}, "at most 1")

    def test_public_header(self):
        self.check({"include/mla/bad.h": '#include "base/a.h"\n'}, "only the standard library")

    def test_cmake_dependency(self):
        self.check({"src/io/CMakeLists.txt": "add_room(io SOURCES a.cc DEPS base ops)\n"},
                   "must not depend on ops")

    def test_cycle(self):
        self.check({"src/base/p.h": '#include "base/q.h"\n',
                    "src/base/q.h": '#include "base/p.h"\n'}, "include cycle: ")


def function(lines):
    return "int F(int x) {\n" + "  ++x;\n" * (lines - 3) + "  return x;\n}\n"


class Size(unittest.TestCase):
    def check(self, extra, expected):
        status, output = run("check_size.py", {**GOOD, **extra})
        self.assertEqual(status, 1, output)
        self.assertIn(expected, output)

    def test_good_tree(self):
        status, output = run("check_size.py", {**GOOD, "src/ops/b.cc": function(120)})
        self.assertEqual(status, 0, output)
        self.assertIn("function of 120 lines", output)

    def test_empty_tree(self):
        self.assertEqual(run("check_size.py", {})[0], 1)

    def test_long_file(self):
        self.check({"src/ops/b.cc": "\n" * 801}, "801 lines, at most 800")

    def test_long_function(self):
        nested = "namespace mla {\nnamespace {\n" + function(121) + "}\n}\n"
        self.check({"src/ops/b.cc": nested}, "b.cc:3: function of 121 lines")

    def test_long_member_function(self):
        self.check({"src/ops/c.h": OPENING + "class C {\n public:\n" + function(130) + "};\n"},
                   "function of 130 lines")

    def test_braces_in_text_do_not_count(self):
        text = "int F() {\n  // }\n  Use(\"}\", '}', R\"x(})x\");\n" + "  G();\n" * 130 + "}\n"
        self.check({"src/ops/b.cc": text}, "function of 134 lines")

    def test_machine_path(self):
        self.check({"docs/a.md": "see /" + "home/someone/model\n"}, "one machine only")

    def test_open_work(self):
        self.check({"src/ops/b.cc": "// TO" + "DO later\n"}, "open-work marker")

    def test_columns_and_tabs(self):
        self.check({"src/ops/b.cc": "// " + "x" * 100 + "\n"}, "103 columns")
        self.check({"src/ops/b.cc": "\tint x;\n"}, "tab or trailing blank")

    def test_header_opening(self):
        self.check({"src/ops/c.h": "#include <vector>\n"}, "opening comment")


if __name__ == "__main__":
    unittest.main()
