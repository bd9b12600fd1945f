#!/usr/bin/env python3
"""Checks that includes and CMake dependencies between the rooms of src/ only point down.

Usage: check_layers.py [--root DIR]. Prints one line per fault; exit status 1 if there is any.

What fails:
  * an include of a room that ALLOWED does not list, and the same for DEPS of add_room();
  * a cycle of includes;
  * "../" in an include, and a path that is neither "room/file" nor "mla/file";
  * a heavy third-party header outside the rooms of HEAVY, or in more files than it allows;
  * a public header (include/mla) that includes anything but the standard library and mla/.
"""
import argparse
import pathlib
import re
import sys

# Room -> rooms it may include besides itself. Public headers (mla/*.h) are open to all.
ALLOWED = {
    "base": [],
    "tensor": ["base"],
    "parallel": ["base"],
    "comm": ["base", "tensor", "parallel"],
    "io": ["base", "tensor", "parallel"],
    "tokenizer": ["base"],
    "kernels": ["base"],
    "ops": ["kernels", "parallel", "tensor", "base"],
    "attention": ["ops", "kernels", "parallel", "tensor", "base"],
    "layers": ["attention", "ops", "comm", "kernels", "parallel", "tensor", "base"],
    "model": ["io", "layers", "attention", "ops", "comm", "kernels", "parallel", "tensor", "base"],
    "engine": ["model", "tokenizer", "io", "layers", "attention", "ops", "comm", "kernels",
               "parallel", "tensor", "base"],
    "server": ["engine", "base"],
    "cli": ["engine", "base"],
}
APPS = ["server", "cli"]

# First path component of a heavy header -> (rooms, most files that may include it; 0: any).
HEAVY = {
    "nlohmann": (["io", "tokenizer", "server", "cli"], 0),
    "pcre2.h": (["tokenizer"], 1),
    "utf8proc.h": (["tokenizer"], 1),
    "httplib.h": (["server"], 1),
    "CLI": (["cli"], 1),
    "hwy": (["kernels"], 0),
    "mpi.h": (["comm"], 1),
}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)
ADD_ROOM = re.compile(r"\badd_room\s*\(([^)]*)\)")
SUFFIXES = {".h", ".cc"}


def includes(path):
    return INCLUDE.findall(path.read_text(encoding="utf-8", errors="replace"))


def sources(directory):
    if not directory.is_dir():
        return []
    return sorted(p for p in directory.rglob("*") if p.suffix in SUFFIXES)


class Checker:
    def __init__(self, root):
        self.root = root
        self.faults = []
        self.heavy_users = {}
        self.graph = {}

    def fault(self, path, message):
        self.faults.append(f"{path.relative_to(self.root)}: {message}")

    def check_heavy(self, path, name, room):
        key = name.split("/")[0]
        if key not in HEAVY:
            return
        rooms, _ = HEAVY[key]
        self.heavy_users.setdefault(key, set()).add(path)
        if room not in rooms:
            self.fault(path, f"<{name}> belongs to {', '.join(rooms)} only")

    def check_room_file(self, path, room):
        allowed = APPS if room == "apps" else ALLOWED[room] + [room]
        for quote, name in includes(path):
            self.check_heavy(path, name, room)
            if ".." in name.split("/"):
                self.fault(path, f'"{name}": includes start at src/, never with ../')
                continue
            target = name.split("/")[0]
            if target in HEAVY or quote == "<" and target not in ALLOWED:
                continue
            if target == "mla":
                self.graph.setdefault(path, []).append(self.root / "include" / name)
            elif target not in ALLOWED:
                self.fault(path, f'"{name}" is neither "room/file.h" nor "mla/file.h"')
            elif target not in allowed:
                listed = ", ".join(sorted(allowed)) or "nothing"
                self.fault(path, f'{room} must not include "{name}" (it may include: {listed})')
            else:
                self.graph.setdefault(path, []).append(self.root / "src" / name)

    def check_rooms(self):
        src = self.root / "src"
        for path in sources(src):
            room = path.relative_to(src).parts[0]
            if path.parent == src or room not in ALLOWED:
                self.fault(path, f"'{room}' is not a room; add it to ALLOWED of check_layers.py")
                continue
            self.check_room_file(path, room)
        for path in sources(self.root / "apps"):
            self.check_room_file(path, "apps")

    def check_public(self):
        for directory in ("include", "examples"):
            for path in sources(self.root / directory):
                for quote, name in includes(path):
                    if name.startswith("mla/"):
                        self.graph.setdefault(path, []).append(self.root / "include" / name)
                    elif quote == '"' or "/" in name and not name.startswith("sys/"):
                        self.fault(path, f"{name}: only the standard library and mla/ here")

    def check_cmake(self):
        for path in sorted((self.root / "src").rglob("CMakeLists.txt")):
            for body in ADD_ROOM.findall(path.read_text(encoding="utf-8")):
                words = body.split()
                room = words[0]
                if room not in ALLOWED:
                    self.fault(path, f"add_room({room}): not in ALLOWED of check_layers.py")
                    continue
                section = ""
                for word in words[1:]:
                    if word in ("SOURCES", "DEPS", "LIBS"):
                        section = word
                    elif section == "DEPS" and word not in ALLOWED[room]:
                        self.fault(path, f"add_room({room}) must not depend on {word}")

    def check_heavy_counts(self):
        for key, users in sorted(self.heavy_users.items()):
            most = HEAVY[key][1]
            if most and len(users) > most:
                names = ", ".join(str(p.relative_to(self.root)) for p in sorted(users))
                self.faults.append(f"{key}: included by {len(users)} files, at most {most}: {names}")

    def check_cycles(self):
        state = {}

        def visit(node, trail):
            state[node] = "open"
            for target in self.graph.get(node, []):
                if target == node or target not in self.graph and not target.exists():
                    continue
                if state.get(target) == "open":
                    names = trail[trail.index(target):] + [target]
                    self.faults.append("include cycle: " + " -> ".join(
                        str(p.relative_to(self.root)) for p in names))
                elif target not in state:
                    visit(target, trail + [target])
            state[node] = "done"

        for node in sorted(self.graph):
            if node not in state:
                visit(node, [node])

    def run(self):
        if not (self.root / "src").is_dir():
            self.faults.append(f"{self.root}: no src/ directory")
            return
        self.check_rooms()
        self.check_public()
        self.check_cmake()
        self.check_heavy_counts()
        self.check_cycles()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parent.parent,
                        type=pathlib.Path)
    checker = Checker(parser.parse_args().root.resolve())
    checker.run()
    for line in checker.faults:
        print(line)
    print(f"check_layers: {len(checker.faults)} fault(s), {len(checker.graph)} files with includes")
    return 1 if checker.faults else 0


if __name__ == "__main__":
    sys.exit(main())
