"""mla perplexity and mla inspect."""
import math
import os
import random
import unittest

from support import ATTENTION, F32, GOLDENS, STORIES, TestCase, golden, main, mla

PERPLEXITY = golden(STORIES)[0]["perplexity"]
SANITIZED = bool(os.environ.get("MLA_SANITIZED"))


class Perplexity(TestCase):
    def setUp(self):
        super().setUp()
        self.text = self.write("text.txt", PERPLEXITY["text"])

    def run_json(self, *args):
        return self.succeed("perplexity", "-m", STORIES, "-f", self.text, "--json", *args).json

    def test_golden_figure_on_every_path(self):
        # A run takes many seconds under a sanitizer, which looks at memory rather than at figures.
        for attention in ("decompressed", "auto") if SANITIZED else ATTENTION:
            report = self.run_json("--attention", attention, *F32)
            self.assertEqual(list(report), ["nll", "perplexity", "tokens"])
            self.assertEqual(report["tokens"], len(PERPLEXITY["ids"]) - 1)
            self.assertAlmostEqual(report["nll"], PERPLEXITY["mean_nll"], delta=2e-5)
            self.assertAlmostEqual(report["perplexity"], math.exp(report["nll"]), delta=1e-6)

    @unittest.skipIf(SANITIZED, "a figure")
    def test_defaults_are_within_half_a_percent(self):
        for attention in ATTENTION:
            report = self.run_json("--attention", attention)
            self.assertAlmostEqual(report["nll"], PERPLEXITY["mean_nll"], delta=math.log(1.005))

    def test_windows_predict_every_token_once(self):
        whole = self.run_json()
        for ctx in ("97",) if SANITIZED else ("512", "97"):
            windows = self.run_json("--ctx", ctx)
            self.assertEqual(windows["tokens"], whole["tokens"])
            self.assertNotEqual(windows["nll"], whole["nll"])

    def test_a_window_is_the_text_alone(self):
        # With --ctx 12 the first window of a longer text is that text's first 12 ids.
        first = self.succeed("tokenize", "-m", STORIES, "-f", self.text, "--json").json["tokens"]
        head = self.succeed("detokenize", "-m", STORIES, "--tokens",
                            ",".join(map(str, first[1:12])), "--json").json["text"]
        path = self.write("head.txt", head)
        alone = self.succeed("perplexity", "-m", STORIES, "-f", path, "--json").json
        self.assertEqual(alone["tokens"], 11)
        in_windows = self.succeed("perplexity", "-m", STORIES, "-f", path, "--json", "--ctx",
                                  "12").json
        self.assertEqual(alone, in_windows)

    def test_plain_output(self):
        out = self.succeed("perplexity", "-m", STORIES, "-p", "Once upon a time").out
        self.assertRegex(out, r"\Aperplexity [\d.]+ \| [\d.]+ nats per token \| \d+ tokens predicted\n\Z")

    def test_without_a_tokenizer(self):
        result = self.fail_with(2, ["perplexity", "tokenizer.json"], "perplexity", "-m",
                                GOLDENS / "deepseek_v3", "-p", "x")
        self.assertNotIn("token ids", result.err)

    def test_nothing_to_predict(self):
        self.fail_with(2, "nothing to predict", "perplexity", "-m", STORIES, "-p", "")
        self.fail_with(2, "at least 2", "perplexity", "-m", STORIES, "-p", "some text", "--ctx",
                       "1")


class Inspect(TestCase):
    def test_figures_of_the_story_model(self):
        report = self.succeed("inspect", "-m", STORIES, "--ctx", "512", "--attention", "absorbed",
                              "--json").json
        self.assertEqual(report["family"], "deepseek_v2")
        self.assertEqual(report["parameters"], 9533056)
        self.assertEqual(sum(k["parameters"] for k in report["weights"]["kinds"]), 9533056)
        self.assertEqual(sum(k["bytes"] for k in report["weights"]["kinds"]),
                         report["weights"]["bytes"])
        cache = report["cache"]
        self.assertEqual(cache["latent_bytes_per_token"], 6 * 80 * 2)
        self.assertEqual(cache["decompressed_bytes_per_token"], 6 * 640 * 2)
        self.assertEqual((cache["latent_bytes"], cache["bytes"]), (512 * 960, 512 * 960))
        self.assertEqual(report["fold"]["layers"], 6)
        self.assertEqual(report["fold"]["elements"], 6 * 8 * 64 * 64)
        self.assertEqual(report["geometry"]["heads"], 8)
        self.assertEqual(report["total_bytes"],
                         report["weights"]["bytes"] + report["fold"]["extra_bytes"] +
                         cache["bytes"] + report["scratch_bytes"] + report["program_bytes"])

    def test_layout_follows_the_setting(self):
        for attention in ATTENTION:
            cache = self.succeed("inspect", "-m", STORIES, "--attention", attention,
                                 "--cache-type", "f32", "--json").json["cache"]
            kind = "decompressed" if attention == "decompressed" else "latent"
            self.assertEqual(cache["bytes"], cache[kind + "_bytes_per_token"] * 2048)
            self.assertEqual(cache["context"], 2048)

    def test_plan_agrees_with_a_run(self):
        for attention in ATTENTION:
            plan = self.succeed("inspect", "-m", STORIES, "--ctx", "11", "--attention", attention,
                                "--json").json
            run = self.succeed("generate", "-m", STORIES, "--tokens", "0,1,2,3,4,5,6,7,8,9,10",
                               "-n", "1", "--attention", attention, "--json").json
            self.assertEqual(plan["cache"]["bytes"], run["cache_bytes"])

    @unittest.skipIf(SANITIZED, "a sanitizer has memory of its own")
    def test_total_is_what_a_run_uses(self):
        # Every embedding page, expert, cache row and buffer is touched: full chunks of 512, and a
        # last one of the 64 rows that are the most for absorbed attention without up-projection.
        ids = [0] + random.Random(1).choices(range(2, 4096), k=3 * 512 + 64 - 1)
        for attention in ATTENTION:
            run = self.succeed("generate", "-m", STORIES, "--tokens", ",".join(map(str, ids)), "-n",
                               "300", "--ignore-eos", "--attention", attention, "--json").json
            plan = self.succeed("inspect", "-m", STORIES, "--attention", attention, "--ctx",
                                len(ids) + 300, "--json").json
            # Beside the 1 %, 2 MB for buffers that a run only partly touches (partial states, what
            # broken values need) and for the system's counters, which each processor adds to in
            # steps of many pages.
            self.assertAlmostEqual(plan["total_bytes"], run["peak_rss_bytes"],
                                   delta=0.01 * run["peak_rss_bytes"] + 2e6)
            # The weights, the cache and at most 60 MB more.
            self.assertLessEqual(run["peak_rss_bytes"], plan["weights"]["file_bytes"] +
                                 run["cache_bytes"] + 60_000_000)

    def test_every_golden_can_be_inspected(self):
        for model in sorted(GOLDENS.iterdir()):
            out = self.succeed("inspect", "-m", model).out
            for word in ("family", "parameters", "latent", "decompressed", "scratch", "total"):
                self.assertIn(word, out)


if __name__ == "__main__":
    main()
