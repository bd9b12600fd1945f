"""Help, version, option checking, footprint: what needs no model."""
import re

from support import STORIES, TestCase, environment, main, mla

COMMANDS = [["generate"], ["logits"], ["perplexity"], ["tokenize"], ["detokenize"], ["inspect"],
            ["footprint"], ["bench"], ["bench", "attention"], ["bench", "peaks"],
            ["bench", "prefill"], ["bench", "crossover"]]


class Help(TestCase):
    def test_every_command_has_help_with_examples(self):
        for command in [[]] + COMMANDS:
            out = self.succeed(*command, "--help").out
            self.assertIn("Example", out, command)
            self.assertIn("mla " + " ".join(command), out)

    def test_footer_documents_the_exit_status(self):
        self.assertRegex(self.succeed("--help").out, r"Exit status: 0 success; 1 runtime error")

    def test_no_arguments_print_the_help_on_stderr(self):
        result = mla()
        self.assertEqual((result.status, result.bytes), (2, b""))
        self.assertIn("generate", result.err)

    def test_version(self):
        out = self.succeed("--version").out
        self.assertRegex(out, r"\Amla \d+\.\d+\.\d+\n")
        for line in ("compiler", "compiled", "detected", "chosen", "threads"):
            self.assertRegex(out, r"(?m)^%s +\S" % line)
        compiled = re.search(r"compiled +(.*)", out)[1].split()
        detected = re.search(r"detected +(.*)", out)[1].split()
        self.assertIn(re.search(r"chosen +(\S+) \(", out)[1], detected)
        self.assertLessEqual(set(detected), set(compiled))
        for isa in detected:
            forced = self.succeed("--version", env=environment(MLA_ISA=isa)).out
            self.assertRegex(forced, r"chosen +%s \(.*MLA_ISA.*\)" % isa)


    def test_a_variable_that_names_no_isa(self):
        env = environment(MLA_ISA="bogus")
        out = self.succeed("--version", env=env).out
        self.assertRegex(out, r"(?m)^chosen +none \(.*MLA_ISA.*'bogus'.*\)")
        for command in (["generate", "-p", "x"], ["inspect"], ["perplexity", "-p", "a b"]):
            result = self.fail_with(2, ["MLA_ISA", "'bogus'", "avx"], *command, "-m", STORIES,
                                    env=env)
            self.assertNotIn("--help", result.err)
        result = self.fail_with(2, "MLA_ISA", "bench", "attention", env=env)
        self.assertNotIn("--help", result.err)


class Options(TestCase):
    def test_unknown_options_and_commands(self):
        for command in [[]] + COMMANDS:
            required = [] if command in ([], ["footprint"]) or "bench" in command else [
                "-m", STORIES]
            required += ["--out", self.dir / "l"] if command == ["logits"] else []
            required += ["attention"] if command == ["bench"] else []
            self.fail_with(2, "--no-such-option", *command, *required, "--no-such-option")
        self.fail_with(2, "frobnicate", "frobnicate")
        self.fail_with(2, "arguments: one two three\n", "generate", "-m", STORIES, "-p", "x", "one",
                       "two", "three")
        self.fail_with(2, "--model is required", "generate", "-p", "x")
        self.fail_with(2, "--out is required", "logits", "-m", STORIES, "--tokens", "1")
        self.fail_with(2, "subcommand", "bench")

    def test_hint_names_the_command(self):
        self.assertIn("'mla generate --help'", mla("generate", "--bogus").err)
        self.assertIn("'mla bench attention --help'", mla("bench", "attention", "--heads", "x").err)

    def test_numbers_are_checked(self):
        for option in ("--threads", "--ctx", "--prefill-chunk", "--max-tokens", "--top-k",
                       "--seed", "--temperature", "--top-p", "--min-p", "--repeat-penalty"):
            for value in ("-1", "nan", "inf", "x", "", "1x", "99999999999999999999999"):
                self.fail_with(2, [option + ": expected", f"'{value}'"], "generate", "-m", STORIES,
                               "-p", "x", option, value)
        for option in ("--threads", "--ctx", "--prefill-chunk", "--repeat-penalty"):
            self.fail_with(2, option + ": expected", "generate", "-m", STORIES, "-p", "x", option,
                           "0")

    def test_top_p_is_above_0(self):
        for value in ("0", "0.0", "-1", "1.5"):
            self.fail_with(2, f"--top-p: expected a number above 0, at most 1, found '{value}'",
                           "generate", "-m", STORIES, "-p", "x", "--top-p", value)

    def test_choices_are_listed(self):
        for option, choices in (("--attention", ["decompressed", "absorbed", "split-kv", "auto"]),
                                ("--cache-type", ["bf16", "f16", "f32"]),
                                ("--compute", ["f32", "auto"]),
                                ("--kernels", ["fast", "reference"])):
            self.fail_with(2, ["bogus"] + choices, "generate", "-m", STORIES, "-p", "x", option,
                           "bogus")
        self.fail_with(2, "bogus", "generate", "-m", STORIES, "-p", "x", "--isa", "bogus")

    def test_an_option_given_twice(self):
        self.fail_with(2, "--prompt", "generate", "-m", STORIES, "-p", "a", "-p", "b")

    def test_sources_of_the_prompt_exclude_each_other(self):
        for args in ([], ["-p", "a", "-f", "b"], ["-p", "a", "--tokens", "1"]):
            self.fail_with(2, "exactly one of", "generate", "-m", STORIES, *args)
        for args in ([], ["--tokens", "1", "--tokens-file", "x"]):
            self.fail_with(2, "exactly one of", "logits", "-m", STORIES, "--out",
                           self.dir / "l", *args)
        for command in ("tokenize", "perplexity"):
            self.fail_with(2, "exactly one of", command, "-m", STORIES)


class Footprint(TestCase):
    def test_example_of_128_heads_of_128(self):
        rows = {r["scheme"]: r for r in self.succeed("footprint", "--like", "deepseek-v3",
                                                     "--json").json["rows"]}
        for scheme, elements in (("MHA", 32768), ("GQA-8", 2048), ("MQA", 256), ("MLA", 576),
                                 ("MLA decompressed", 40960)):
            self.assertEqual(rows[scheme]["elements"], elements)
            self.assertEqual(rows[scheme]["bytes"], 2 * elements)
        self.assertEqual(round(rows["MHA"]["ratio"]), 57)
        self.assertEqual(round(rows["GQA-8"]["ratio"], 1), 3.6)
        self.assertIn("56.9x", self.succeed("footprint").out)

    def test_single_widths_override_the_name(self):
        for args in (["--like", "deepseek-v3", "--heads", "4", "--rank", "32", "--rope", "8"],
                     ["--heads", "4", "--rank", "32", "--rope", "8", "--like", "deepseek-v3"]):
            report = self.succeed("footprint", *args, "--dtype", "f32", "--kv-budget-gib", "1",
                                  "--json").json
            self.assertEqual(report["geometry"], {"name": "custom", "layers": 61, "heads": 4,
                                                  "rank": 32, "nope": 128, "rope": 8,
                                                  "v_dim": 128})
            row = next(r for r in report["rows"] if r["scheme"] == "MLA")
            self.assertEqual((row["elements"], row["bytes"]), (40, 160))
            self.assertEqual(row["tokens_in_budget"], 2**30 // (61 * 160))

    def test_bad_geometry(self):
        self.fail_with(2, ["'v9'", "deepseek-v3"], "footprint", "--like", "v9")
        self.fail_with(2, "divisor of the 16 heads", "footprint", "--heads", "16", "--kv-heads",
                       "5")
        self.fail_with(2, "even", "footprint", "--rope", "7")
        for option in ("--heads", "--rank", "--nope", "--rope", "--v-dim", "--layers"):
            for value in ("0", "-1", "x", "99999999999"):
                self.fail_with(2, option + ": expected", "footprint", option, value)


if __name__ == "__main__":
    main()
