"""mla logits: the file, the golden figures, stepping and chunks."""
import json
import statistics

from support import ATTENTION, F32, GOLDENS, STORIES, TestCase, golden, main, mla, tensors

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
