#!/usr/bin/env python3
"""Compiles every header of src/ and include/ alone, twice in one file (include guards).

Usage: check_headers.py --compiler CXX [--root DIR] [--flags "..."] [--jobs N]
Headers named *-inl.h are bodies for other files and are left out.
"""
import argparse
import concurrent.futures
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile


def compile_alone(command, header):
    text = f'#include "{header}"\n#include "{header}"\n'
    with tempfile.NamedTemporaryFile("w", suffix=".cc", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        result = subprocess.run(command + [file.name], capture_output=True, text=True, check=False)
    return header, result.returncode, result.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parent.parent,
                        type=pathlib.Path)
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--flags", default="-Wall -Wextra -Werror")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    root = args.root.resolve()

    headers = []
    for base in ("include", "src"):
        headers += [str(p.relative_to(root / base)) for p in sorted((root / base).rglob("*.h"))
                    if not p.name.endswith("-inl.h")]
    if not headers:
        print(f"check_headers: no headers under {root}")
        return 1
    command = [args.compiler, "-std=c++20", "-fsyntax-only", *shlex.split(args.flags),
               "-I", str(root / "src"), "-I", str(root / "include")]
    faults = 0
    with concurrent.futures.ThreadPoolExecutor(max(1, args.jobs)) as pool:
        for header, status, errors in pool.map(lambda h: compile_alone(command, h), headers):
            if status != 0:
                faults += 1
                print(f"{header} does not compile alone:\n{errors}")
    print(f"check_headers: {len(headers)} headers, {faults} fault(s)")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
