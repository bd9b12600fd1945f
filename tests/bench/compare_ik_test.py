"""bench/compare_ik.py against a peer, and a program of ours, whose times are given: its arithmetic,
and a clear message for every way in which they can fail."""
import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(os.environ["MLA_SOURCE_DIR"]) / "bench" / "compare_ik.py"

# 100 ms per token, and per 1000 cached tokens 18 ms more with f16, 6 with q8_0. Prefill: 2 s per
# 512 tokens, and for each step 300 ms (100 with q8_0) per step before it.
PEER = """
def option(name):
    return argv[argv.index(name) + 1]
cache = option("-ctk")
assert option("-fa") == "1" and option("-mla") == "3" and option("-r") == "1", argv
tests = []
def add(name, ms):
    tests.append({"test": name, "type_k": cache, "n_threads": int(option("-t")), "mla_attn": 3,
                  "flash_attn": True, "samples_ns": [ms * 1e6]})
slow = {"f16": 18, "q8_0": 6}[cache]
for n in map(int, option("-p").split(",")):
    steps = n // 512
    if n: add("pp%d" % n, 2000 * steps + slow / 0.06 * steps * (steps - 1) / 2)
n = int(option("-n"))
if n: add("tg%d" % n, 100 * n)
if "-gp" in argv:
    depth, n = map(int, option("-gp").split(","))
    add("tg%d@pp%d" % (n, depth), (100 + slow * depth / 1000) * n)
print("a line before the tests")
print(json.dumps(tests))
"""

# Per layer and step 0.25 ms, and 0.1 (int8: 0.05) per 1000 tokens; a step of prefill 40 ms and 10
# per 512 tokens.
OURS = """
def option(name):
    return argv[argv.index(name) + 1]
contexts = [int(c) for c in option("--contexts").split(",")]
assert option("--like") == "deepseek-v2-lite" and option("--threads") == "2", argv
if argv[1:3] == ["bench", "attention"]:
    assert option("--batches") == "1", argv
    slow = {"bf16": 0.1, "int8": 0.05}[option("--dtype")]
    rows = []
    for c in contexts:
        for arm, factor in (("absorbed", 7), ("auto", 1)):
            ms = factor * (0.25 + slow * c / 1000)
            rows.append({"arm": arm, "context": c, "ms_per_step": ms, "kernel": "some-unit",
                         "ms_per_1000_tokens": ms * int(option("--layers")) * 1000 / c})
    print(json.dumps({"rows": rows}))
else:
    assert argv[1:3] == ["bench", "prefill"] and option("--rows") == "512", argv
    print(json.dumps({"cells": [{"context": c, "rows": 512, "arms": [
        {"arm": "absorbed", "ms": 1e6}, {"arm": "auto", "ms": 40 + 10 * c / 512}]}
        for c in contexts]}))
"""


class CompareIk(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="mla_compare_")
        self.addCleanup(temporary.cleanup)
        self.dir = pathlib.Path(temporary.name)
        self.model = self.dir / "model.gguf"
        self.model.write_bytes(b"GGUF")
        self.peer = self.program("llama-bench", PEER)
        self.ours = self.program("mla", OURS)

    def program(self, name, body):
        path = self.dir / name
        head = f"#!{sys.executable}\nimport json, os, signal, sys\nargv = sys.argv\n"
        path.write_text(head + body, "utf8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def run_script(self, *args, peer=None, ours=None, model=None):
        p = subprocess.run(
            [sys.executable, "-B", SCRIPT, "--llama-bench", peer or self.peer, "--mla",
             ours or self.ours, "--model", model or self.model, "--threads", "2", *args],
            capture_output=True, text=True, timeout=300, check=False)
        return p.returncode, p.stdout, p.stderr

    def fail_with(self, status, parts, *args, **programs):
        code, out, err = self.run_script(*args, **programs)
        self.assertEqual(code, status, err + out)
        self.assertIn("error: ", err)
        self.assertNotIn("Traceback", err)
        for part in parts:
            self.assertIn(part, err)
        self.assertEqual(out, "")

    def test_ratios(self):
        code, out, err = self.run_script("--depths", "0,4096,16384", "--repeat", "2", "--json")
        self.assertEqual(code, 0, err)
        report = json.loads(out)
        rows = {(r["cache"], r["depth"]): r for r in report["decode"]}
        self.assertEqual(list(rows), [(c, d) for c in ("bf16", "int8") for d in (0, 4096, 16384)])
        for cache, theirs, per_layer in (("bf16", 18, 0.1), ("int8", 6, 0.05)):
            self.assertAlmostEqual(rows[cache, 0]["peer_tokens_per_s"], 10)
            for depth in (4096, 16384):
                row = rows[cache, depth]
                self.assertAlmostEqual(row["peer_ms_per_1000"], theirs)
                self.assertAlmostEqual(row["ours_ms_per_1000"], 27 * per_layer)
                self.assertAlmostEqual(row["ratio"], theirs / (27 * per_layer))
                # With what a step takes at any depth.
                whole = 27 * (per_layer + 0.25 / (depth / 1000))
                self.assertAlmostEqual(row["ours_whole_ms_per_1000"], whole)
                self.assertAlmostEqual(row["ratio_whole"], theirs / whole)
                self.assertEqual(len(row["peer_samples_ms"]), 2)
                self.assertEqual(row["kernel"], "some-unit")
        # 32 steps; 0 + 1 + .. + 31 = 496 times what a step takes per step before it.
        for row, theirs in zip(report["prefill"], (300, 100)):
            self.assertEqual(row["tokens"], 16384)
            self.assertAlmostEqual(row["peer_attention_ms"], theirs * 496)
            self.assertAlmostEqual(row["ours_attention_ms"], 27 * 10 * 496)
            self.assertAlmostEqual(row["ours_whole_ms"], 27 * (32 * 50 + 10 * 496))
            self.assertAlmostEqual(row["ratio"], theirs / 270)
        self.assertEqual(len(report["prefill"]), 2)

    def test_median_of_the_passes(self):
        count = self.dir / "count"
        peer = self.program("drifting", PEER.replace("tests = []", f"""tests = []
open({str(count)!r}, "a").write("x")
pass_ = (os.path.getsize({str(count)!r}) - 1) // 2""").replace("18,", "[18, 900, 20][pass_],"))
        code, out, err = self.run_script("--depths", "0,1000", "--cache", "bf16", "--repeat", "3",
                                         "--json", peer=peer)
        self.assertEqual(code, 0, err)
        self.assertAlmostEqual(json.loads(out)["decode"][1]["peer_ms_per_1000"], 20)

    def test_table(self):
        code, out, err = self.run_script("--depths", "0,1024", "--cache", "bf16", "--repeat", "1")
        self.assertEqual(code, 0, err)
        for part in ("load average", "bf16/f16", "18.000", "2.700", "6.667", "prefill"):
            self.assertIn(part, out)

    def test_without_prefill(self):
        code, out, err = self.run_script("--depths", "0,1024", "--prefill", "0", "--repeat", "1",
                                         "--json")
        self.assertEqual(code, 0, err)
        self.assertEqual(json.loads(out)["prefill"], [])

    def test_no_ratio_from_noise(self):
        peer = self.program("flat", PEER.replace("18", "-1"))
        code, out, err = self.run_script("--depths", "0,100", "--cache", "bf16", "--repeat", "1",
                                         "--json", peer=peer)
        self.assertEqual(code, 1)
        self.assertIn("did not grow with the depth", err)
        self.assertIsNone(json.loads(out)["decode"][1]["ratio"])

    def test_a_peer_that_fails(self):
        ends = 'sys.stderr.write("%s\\n")\n'
        for body, parts in (
                ("os.kill(os.getpid(), signal.SIGILL)", ["SIGILL", "build it on this machine"]),
                ("sys.exit(132)", ["SIGILL"]),  # through a shell
                ("os.kill(os.getpid(), signal.SIGKILL)", ["SIGKILL"]),
                (ends % "failed to load" + "sys.exit(1)", ["status 1", "failed to load"]),
                ("print('| model | t/s |')", ["expected JSON", "| model | t/s |"]),
                ("", ["expected JSON"]), ("print('{}')", ["array"]), ("print('[1]')", ["test 1"]),
                ("print('[]')", ["no time for the test tg24"]),
                (PEER.replace("samples_ns", "samples_ts"), ["samples_ns"]),
                (PEER.replace("[ms * 1e6]", "[]"), ["in the test"]),
                (PEER.replace("[ms * 1e6]", "[0]"), ["no time for the test"]),
                (PEER.replace('"type_k": cache', '"type_k": "q4_0"'), ["type_k f16, ran q4_0"]),
                (PEER.replace('"mla_attn": 3', '"mla_attn": 0'), ["mla_attn 3, ran 0"]),
                ("import time; time.sleep(60)", ["--timeout"])):
            with self.subTest(parts=parts):
                self.fail_with(1, ["llama-bench", *parts], "--timeout", "5", "--depths", "0,1024",
                               peer=self.program("bad-llama-bench", body))

    def test_our_program_fails(self):
        for body, parts in (("sys.exit(3)", ["exit status 3"]), ("print('x')", ["expected JSON"]),
                            ("print('[]')", ["expected an object"]),
                            ("print('{\"rows\": []}')", ["report"]),
                            (OURS.replace("'cells'", "'cell'").replace('"cells"', '"cell"'),
                             ["prefill", "cells"]),
                            (OURS.replace("in contexts]}", "in contexts[1:]]}"), ["asked for"])):
            with self.subTest(parts=parts):
                self.fail_with(1, parts, "--depths", "0,1024", ours=self.program("bad-mla", body))

    def test_bad_arguments(self):
        text = self.dir / "text"
        text.write_text("not a program", "utf8")
        for args, programs, parts in (
                ([], {"peer": self.dir / "none"}, ["--llama-bench", "none"]),
                ([], {"model": self.dir / "none"}, ["--model"]),
                ([], {"ours": self.dir}, ["--mla"]),
                (["--depths", "4096"], {}, ["begin with 0"]),
                (["--depths", "0"], {}, ["depth above"]), (["--depths", "0,x"], {}, ["--depths"]),
                (["--cache", "bf16,q5"], {}, ["'q5'", "int8"]),
                (["--prefill", "700"], {}, ["multiple of 512"]),
                (["--repeat", "0"], {}, ["--repeat"])):
            with self.subTest(args=args):
                self.fail_with(2, parts, *args, **programs)
        self.fail_with(1, ["cannot run", "text"], "--depths", "0,100", peer=text)

    def test_our_real_program(self):
        if os.environ.get("MLA_SANITIZED"):
            self.skipTest("the full widths take too long with sanitizers")
        code, out, err = self.run_script("--depths", "0,2048", "--prefill", "1024", "--repeat", "1",
                                         "--cache", "int8", "--json",
                                         ours=os.environ["MLA_PROGRAM"])
        # On a busy machine a time may fail to grow; everything was read all the same.
        if code != 0:
            self.assertEqual(code, 1)
            self.assertIn("did not grow with the depth", err)
        report = json.loads(out)
        self.assertEqual([r["kernel"] != "" for r in report["decode"] if r["depth"]], [True])
        self.assertEqual([r["ours_whole_ms"] > 0 for r in report["prefill"]], [True])


if __name__ == "__main__":
    unittest.main(verbosity=1)
