#!/usr/bin/env python3
"""Checks the size and a few plain habits of every source file.

Usage: check_size.py [--root DIR]. Notes are printed; faults are printed and make the exit status 1.

  * files: over 400 lines a note, over 800 a fault; functions: over 80 a note, over 120 a fault
    (a function counts from its first line to its closing brace);
  * C++ lines over 100 columns, tabs, trailing blanks: a fault;
  * absolute paths into a home or work directory, and open-work markers: a fault;
  * a header of src/ or include/ must open with a comment that has "Called by" or "Thread-safety".
"""
import argparse
import pathlib
import re
import sys

FILE_NOTE, FILE_FAULT = 400, 800
FUNCTION_NOTE, FUNCTION_FAULT = 80, 120
COLUMNS = 100

CPP = {".h", ".cc"}
TEXT = CPP | {".py", ".sh", ".cmake", ".txt", ".md", ".json"}
DIRECTORIES = ["include", "src", "apps", "tests", "fuzz", "bench", "examples", "tools", "cmake",
               "docs", ".ci"]
# Third-party text and generated data are not ours to shape.
SKIP = ("tests/data/", "fuzz/corpus/", "models/")

MACHINE_PATH = re.compile(r"""(?:^|[\s"'(=:])/(?:home|root|Users|mnt|media|work|farm)/""")
OPEN_WORK = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|X" r"XX)\b")
ACCESS_LABELS = {"public", "protected", "private"}
NOT_A_FUNCTION = re.compile(
    r"^(?:inline\s+)?(?:namespace|extern\s+\"C\")\b|\b(?:class|struct|union|enum)\b(?![^(]*\()")


def blank_out(text):
    """Comments, strings and preprocessor lines as blanks of the same length, line breaks kept."""
    pattern = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"([^\s()\\]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
        r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:\\\n|[^\n])*", re.S | re.M)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), text)


def functions(text):
    """Yields (first line, last line, text before the brace) of every outermost function."""
    code = blank_out(text)
    stack = []  # True: a scope that functions may stand in; False: anything else
    start = 0   # where the declaration before the next brace begins
    opened = None
    parens = 0
    for i, c in enumerate(code):
        if c == "(":
            parens += 1
        elif c == ")":
            parens -= 1
        elif c == "{":
            head = code[start:i].strip()
            outer = all(stack)
            is_scope = bool(NOT_A_FUNCTION.search(head)) or head == ""
            if outer and not is_scope and parens == 0 and "(" in head and not head.endswith("="):
                first = start + len(code[start:i]) - len(code[start:i].lstrip())
                opened = (len(stack), code.count("\n", 0, first) + 1, " ".join(head.split()))
            stack.append(outer and is_scope)
            if parens == 0:
                start = i + 1
        elif c == "}":
            if stack:
                stack.pop()
            if opened and len(stack) == opened[0]:
                yield opened[1], code.count("\n", 0, i) + 1, opened[2]
                opened = None
            if parens == 0:
                start = i + 1
        elif parens == 0 and (
                c == ";" or c == ":" and code[start:i].strip() in ACCESS_LABELS):
            start = i + 1


class Checker:
    def __init__(self, root):
        self.root = root
        self.notes = []
        self.faults = []
        self.files = 0

    def check_cpp(self, name, text, lines):
        for number, line in enumerate(lines, 1):
            if len(line) > COLUMNS:
                self.faults.append(f"{name}:{number}: {len(line)} columns, at most {COLUMNS}")
            if "\t" in line or line != line.rstrip():
                self.faults.append(f"{name}:{number}: tab or trailing blank")
        for first, last, head in functions(text):
            length = last - first + 1
            message = f"{name}:{first}: function of {length} lines: {head[:60]}"
            if length > FUNCTION_FAULT:
                self.faults.append(f"{message} (at most {FUNCTION_FAULT})")
            elif length > FUNCTION_NOTE:
                self.notes.append(f"{message} (aim for {FUNCTION_NOTE})")
        if name.endswith(".h") and name.startswith(("src/", "include/")):
            opening = text.split("\n#", 1)[0]
            if not opening.startswith("//") or not re.search(r"Called by|Thread-safety", opening):
                self.faults.append(
                    f"{name}: the opening comment must say what it is, who calls it, thread-safety")

    def check_file(self, path):
        name = str(path.relative_to(self.root))
        text = path.read_text(encoding="utf-8", errors="replace")
        lines = text.split("\n")
        count = len(lines) - 1
        self.files += 1
        if path.suffix not in {".md", ".json"}:
            if count > FILE_FAULT:
                self.faults.append(f"{name}: {count} lines, at most {FILE_FAULT}")
            elif count > FILE_NOTE:
                self.notes.append(f"{name}: {count} lines (aim for {FILE_NOTE})")
        for number, line in enumerate(lines, 1):
            if MACHINE_PATH.search(line):
                self.faults.append(f"{name}:{number}: a path that exists on one machine only")
            if OPEN_WORK.search(line):
                self.faults.append(f"{name}:{number}: open-work marker; finish it or file it")
        if path.suffix in CPP:
            self.check_cpp(name, text, lines)

    def run(self):
        for directory in DIRECTORIES:
            for path in sorted((self.root / directory).rglob("*")):
                name = str(path.relative_to(self.root))
                if path.is_file() and not name.startswith(SKIP) and "__pycache__" not in name and (
                        path.suffix in TEXT or directory == ".ci"):
                    self.check_file(path)
        for path in sorted(self.root.glob("*")):
            if path.is_file() and (path.suffix in TEXT or path.name == "Makefile"):
                self.check_file(path)
        if self.files == 0:
            self.faults.append(f"{self.root}: nothing to check")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parent.parent,
                        type=pathlib.Path)
    checker = Checker(parser.parse_args().root.resolve())
    checker.run()
    for line in checker.notes:
        print("note: " + line)
    for line in checker.faults:
        print(line)
    print(f"check_size: {checker.files} files, {len(checker.notes)} note(s), "
          f"{len(checker.faults)} fault(s)")
    return 1 if checker.faults else 0


if __name__ == "__main__":
    sys.exit(main())
