"""mla logits: the file, the golden figures, stepping and chunks."""
import json
import os
import shutil
import signal
import statistics
import subprocess
import time

from support import (ATTENTION, F32, GOLDENS, PROGRAM, STORIES, TestCase, environment, golden, main,
                     tensors, wait_until_caught)

TOLERANCE = 1e-3  # of the golden logits' standard deviation


class Logits(TestCase):
    def logits(self, model, ids, *args):
        out = self.dir / "l.safetensors"
        self.succeed("logits", "-m", model, "--tokens", ",".join(map(str, ids)), "--out", out,
                     *args)
        return tensors(out)["logits"]

    def check(self, model, prompt, want, *args):
        shape, reference = want
        got_shape, got = self.logits(model, prompt["ids"], *args)
        self.assertEqual(got_shape, [len(prompt["ids"]), shape[1]])
        got = got[(got_shape[0] - shape[0]) * shape[1]:]
        worst = max(abs(a - b) for a, b in zip(got, reference))
        self.assertLessEqual(worst, TOLERANCE * statistics.pstdev(reference), (model.name, args))

    def test_golden_checkpoints(self):
        for model in sorted(GOLDENS.iterdir()):
            data, want = golden(model)
            prompt = data["prompts"][0]
            for attention in ATTENTION:
                for args in ([], ["--prefill-chunk", "1"], ["--prefill-chunk", "7"], ["--step"]):
                    self.check(model, prompt, want["logits.1"], "--attention", attention, *F32,
                               *args)

    def test_long_prompts_of_the_story_model(self):
        data, want = golden(STORIES)
        for k, prompt in enumerate(data["prompts"], 1):
            key = next((x for x in (f"logits.{k}", f"logits_last.{k}") if x in want), None)
            if key is None or not 64 < len(prompt["ids"]) < 500:
                continue
            for attention in ATTENTION:
                self.check(STORIES, prompt, want[key], "--attention", attention, *F32,
                           "--prefill-chunk", "64")

    def test_tokens_from_a_file(self):
        ids = [0, 2986, 638, 262]
        want = self.logits(STORIES, ids)
        for content in (json.dumps(ids), json.dumps({"tokens": ids})):
            path = self.write("ids.json", content)
            out = self.dir / "f.safetensors"
            result = self.succeed("logits", "-m", STORIES, "--tokens-file", path, "--out", out)
            self.assertEqual(tensors(out)["logits"], want)
            self.assertEqual(result.bytes, b"")
            self.assertIn("paths=", result.err)

    def test_replaces_an_older_longer_file(self):
        want = self.logits(STORIES, [0, 1])
        self.write("l.safetensors", b"x" * 10_000_000)
        self.assertEqual(self.logits(STORIES, [0, 1]), want)

    def test_unwritable_file_is_found_before_the_model_is_run(self):
        result = self.fail_with(1, "cannot open", "logits", "-m", STORIES, "--tokens", "1", "--out",
                                self.dir / "nowhere" / "l", "--attention", "absorbed")
        self.assertNotIn("layers folded", result.err)
        self.fail_with(1, "Is a directory", "logits", "-m", STORIES, "--tokens", "1", "--out",
                       self.dir)
        self.fail_with(1, "No space left", "logits", "-m", STORIES, "--tokens", "1", "--out",
                       "/dev/full")

    def test_never_replaces_what_it_reads(self):
        model = self.dir / "model"
        shutil.copytree(STORIES, model)
        for name in ("model.safetensors", "config.json"):
            before = (model / name).read_bytes()
            link = self.dir / "link"
            os.symlink(model / name, link)
            for out in (model / name, link):
                self.fail_with(2, "a file of the model", "logits", "-m", model, "--tokens", "0,1",
                               "--out", out)
            link.unlink()
            self.assertEqual((model / name).read_bytes(), before)
        ids = self.write("ids.json", "[0,1]")
        self.fail_with(2, "--tokens-file", "logits", "-m", STORIES, "--tokens-file", ids, "--out",
                       ids)
        self.assertEqual(ids.read_text(), "[0,1]")
        self.fail_with(2, ["--out", "standard output"], "logits", "-m", STORIES, "--tokens", "0",
                       "--out", "-")

    def test_links_and_devices(self):
        want = self.logits(STORIES, [0, 1])
        os.symlink("real.safetensors", self.dir / "link")  # leads nowhere yet
        for _ in range(2):
            self.succeed("logits", "-m", STORIES, "--tokens", "0,1", "--out", self.dir / "link")
            self.assertTrue((self.dir / "link").is_symlink())
            self.assertEqual(tensors(self.dir / "real.safetensors")["logits"], want)
        piped = self.succeed("logits", "-m", STORIES, "--tokens", "0,1", "--out", "/dev/stdout")
        self.assertEqual(tensors(self.write("piped", piped.bytes))["logits"], want)
        self.succeed("logits", "-m", STORIES, "--tokens", "0,1", "--out", "/dev/null")
        self.assertEqual(sorted(p.name for p in self.dir.iterdir()),
                         ["l.safetensors", "link", "piped", "real.safetensors"])

    def test_a_signal_leaves_everything_as_it_was(self):
        out = self.write("old.safetensors", "old")
        ids = self.write("ids.json", json.dumps([2 + i for i in range(1900)]))
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            p = subprocess.Popen(
                [PROGRAM, "logits", "-m", str(STORIES), "--tokens-file", str(ids), "--out",
                 str(out), "--kernels", "reference", "--threads", "1", "--attention", "absorbed"],
                stderr=subprocess.PIPE, env=environment())
            self.addCleanup(p.kill)
            wait_until_caught(p, number)
            time.sleep(0.5)
            p.send_signal(number)
            _, err = p.communicate(timeout=240)
            self.assertEqual(p.returncode, status, err)
            self.assertIn(b"of 1900 tokens", err)
            self.assertEqual(out.read_text(), "old")
            self.assertEqual(sorted(p.name for p in self.dir.iterdir()),
                             ["ids.json", "old.safetensors"])

    def test_a_failed_run_leaves_an_older_file(self):
        out = self.write("old.safetensors", "old")
        self.fail_with(2, "4096", "logits", "-m", STORIES, "--tokens", "1,4096", "--out", out)
        self.assertEqual(out.read_text(), "old")

    def test_a_failed_run_leaves_no_file(self):
        out = self.dir / "bad.safetensors"
        self.fail_with(2, "4096", "logits", "-m", STORIES, "--tokens", "1,4096", "--out", out)
        self.assertFalse(out.exists())

    def test_bad_token_files(self):
        for content in ("", "{", "3", "{}", '{"tokens":3}', "[1.5]", '["1"]', "[-1]",
                        "[99999999999]", "[" * 1000):
            path = self.write("bad.json", content)
            self.fail_with(2, "bad.json", "logits", "-m", STORIES, "--tokens-file", path, "--out",
                           self.dir / "l")
        self.fail_with(2, "empty", "logits", "-m", STORIES, "--tokens-file",
                       self.write("empty.json", "[]"), "--out", self.dir / "l")
        self.fail_with(2, "No such file", "logits", "-m", STORIES, "--tokens-file",
                       self.dir / "none.json", "--out", self.dir / "l")


if __name__ == "__main__":
    main()
