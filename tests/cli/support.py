"""What the black-box tests of the program have in common. Standard library only."""
import array
import json
import os
import pathlib
import re
import struct
import subprocess
import tempfile
import time
import unittest

PROGRAM = os.environ["MLA_PROGRAM"]
SOURCE = pathlib.Path(os.environ["MLA_SOURCE_DIR"])
STORIES = SOURCE / "models" / "stories-mla"
GOLDENS = SOURCE / "tests" / "data" / "goldens"
TOKENIZERS = SOURCE / "tests" / "data" / "tokenizers"
ATTENTION = ["decompressed", "absorbed", "split-kv", "auto"]
PATHS = ["decompressed", "absorbed_prefill", "absorbed_composed", "absorbed_split_kv"]
F32 = ["--compute", "f32", "--cache-type", "f32"]


class Result:
    def __init__(self, status, out, err):
        self.status, self.bytes, self.err = status, out, err.decode("utf8", "replace")

    @property
    def out(self):
        return self.bytes.decode("utf8")

    @property
    def json(self):
        return json.loads(self.out)


def environment(**changes):
    env = {k: v for k, v in os.environ.items()
           if k not in ("MLXCEL_MLA_ABSORBED", "MLXCEL_MLA_SPLIT_KV")}
    env.update(changes)
    return env


def mla(*args, stdin=b"", env=None):
    """Runs the program; arguments may be bytes, paths or anything with a str()."""
    argv = [PROGRAM] + [a if isinstance(a, (str, bytes)) else str(a) for a in args]
    p = subprocess.run(argv, input=stdin, capture_output=True, timeout=300,
                       env=environment() if env is None else env)
    return Result(p.returncode, p.stdout, p.stderr)


def wait_until_caught(process, number):
    """Until the process has a handler for signal `number`; before, the signal just kills it."""
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text("ascii", "replace")
        caught = int(re.search(r"^SigCgt:\s*([0-9a-f]+)", status, re.M)[1], 16)
        if caught >> (number - 1) & 1:
            return
        time.sleep(0.005)
    raise AssertionError(f"status {process.returncode}, and signal {number} is not caught")


def golden(directory):
    """golden.json of a checkpoint directory, and its tensors as name -> (shape, array)."""
    here = directory / "golden" if (directory / "golden").is_dir() else directory
    return (json.loads((here / "golden.json").read_text("utf8")),
            tensors(here / "golden.safetensors"))


def tensors(path):
    data = pathlib.Path(path).read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    out = {}
    for name, t in json.loads(data[8:8 + n]).items():
        code = {"F32": "f", "F64": "d", "I32": "i", "I64": "q"}.get(t.get("dtype"))
        if name == "__metadata__" or code is None:
            continue
        begin, end = t["data_offsets"]
        values = array.array(code)
        values.frombytes(data[8 + n + begin:8 + n + end])
        out[name] = (t["shape"], values)
    return out


class TestCase(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="mla_cli_")
        self.addCleanup(temporary.cleanup)
        self.dir = pathlib.Path(temporary.name)

    def write(self, name, content):
        path = self.dir / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf8"))
        return path

    def succeed(self, *args, **options):
        result = mla(*args, **options)
        self.assertEqual(result.status, 0, result.err)
        return result

    def fail_with(self, status, parts, *args, **options):
        """The program ends with `status`, one error message that names all `parts`, no output."""
        result = mla(*args, **options)
        self.assertEqual(result.status, status, result.err + result.out)
        self.assertIn("mla: error: ", result.err)
        for part in [parts] if isinstance(parts, str) else parts:
            self.assertIn(part, result.err)
        self.assertEqual(result.bytes, b"")
        return result


def main():
    unittest.main(verbosity=1)
