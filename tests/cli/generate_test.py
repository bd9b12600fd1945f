"""mla generate: text, statistics, JSON, stop strings, limits, Ctrl-C."""
import json
import os
import re
import shutil
import signal
import subprocess
import time

from support import (ATTENTION, F32, GOLDENS, PATHS, PROGRAM, STORIES, TestCase, environment,
                     golden, main, mla, wait_until_caught)

STORY = golden(STORIES)[0]["prompts"][0]


def generate(*args):
    return ("generate", "-m", STORIES) + args


class Text(TestCase):
    def test_writes_the_golden_story_on_every_path(self):
        n = str(len(STORY["greedy"]))
        for attention in ATTENTION:
            result = self.succeed(*generate("-p", STORY["text"], "-n", n, "--temperature", "0",
                                            "--ignore-eos", "--attention", attention, *F32))
            self.assertEqual(result.out, STORY["greedy_text"] + "\n", attention)

    def test_prompt_from_file_stdin_and_tokens_are_the_same(self):
        want = self.succeed(*generate("-p", STORY["text"], "-n", "8")).out
        path = self.write("prompt.txt", STORY["text"])
        self.assertEqual(self.succeed(*generate("-f", path, "-n", "8")).out, want)
        self.assertEqual(
            self.succeed(*generate("-f", "-", "-n", "8"), stdin=STORY["text"].encode()).out, want)
        ids = ",".join(map(str, STORY["ids"]))
        self.assertEqual(self.succeed(*generate("--tokens", ids, "-n", "8")).out, want)

    def test_empty_prompt_starts_from_bos(self):
        prompt = next(p for p in golden(STORIES)[0]["prompts"] if p["ids"] == [0])
        report = self.succeed(*generate("-p", "", "-n", "16", "--ignore-eos", "--json", *F32)).json
        self.assertEqual(report["prompt_tokens"], 1)
        self.assertEqual(report["tokens"], prompt["greedy"][:16])

    def test_statistics_go_to_stderr(self):
        result = self.succeed(*generate("-p", STORY["text"], "-n", "5", "--attention", "absorbed"))
        self.assertRegex(result.err, r"load [\d.]+ s \| prompt 11 tokens, [\d.]+ t/s \| "
                                     r"decode 5 tokens, [\d.]+ t/s \| length")
        self.assertRegex(result.err, r"cache \d+ bytes .* paths=decompressed=0,absorbed_prefill=6,"
                                     r"absorbed_composed=24,absorbed_split_kv=0")

    def test_load_line_only_when_absorbed_is_on(self):
        for attention in ATTENTION:
            err = self.succeed(*generate("-p", "x", "-n", "1", "--attention", attention)).err
            shown = "1280 -> 160" in err and "8.0x" in err and "6/6 layers" in err
            self.assertEqual(shown, attention != "decompressed", err)

    def test_model_without_tokenizer_prints_ids(self):
        model = GOLDENS / "deepseek_v2_lite"
        prompt = golden(model)[0]["prompts"][0]
        args = ("generate", "-m", model, "--tokens", ",".join(map(str, prompt["ids"])), "-n", "4",
                "--ignore-eos", *F32)
        self.assertEqual(self.succeed(*args).out,
                         ",".join(map(str, prompt["greedy"][:4])) + "\n")
        self.assertEqual(self.succeed(*args, "--json").json["text"], "")
        self.fail_with(2, "tokenizer", "generate", "-m", model, "-p", "hello")
        self.fail_with(2, "--stop", *args, "--stop", "x")

    def test_a_broken_tokenizer_is_told_at_once(self):
        model = self.dir / "model"
        shutil.copytree(STORIES, model)
        (model / "tokenizer.json").write_bytes((STORIES / "tokenizer.json").read_bytes()[:1000])
        result = self.succeed("generate", "-m", model, "--tokens", "0,2986", "-n", "2")
        self.assertRegex(result.out, r"\A\d+,\d+\n\Z")
        self.assertIn("mla: warning: ", result.err)
        self.assertIn("tokenizer.json", result.err)
        self.fail_with(2, "tokenizer.json", "generate", "-m", model, "-p", "x")

    def test_more_threads_than_cpus(self):
        for extra, lines in ((0, 0), (1, 1)):
            threads = os.cpu_count() + extra
            err = self.succeed(*generate("-p", "x", "-n", "1", "--threads", threads)).err
            self.assertEqual(err.count(f"warning: {threads} threads on "), lines, err)


class Environment(TestCase):
    def attention(self, *args, **env):
        result = self.succeed(*generate("-p", "x", "-n", "2", "--json", *args),
                              env=environment(**env))
        return result.json["attention"], result.err

    def test_variables_decide_without_the_flag(self):
        self.assertEqual(self.attention()[0], "auto")
        self.assertEqual(self.attention(MLXCEL_MLA_ABSORBED="")[0], "auto")
        self.assertEqual(self.attention(MLXCEL_MLA_ABSORBED=" On ")[0], "absorbed")
        self.assertEqual(self.attention(MLXCEL_MLA_ABSORBED="2")[0], "decompressed")
        self.assertEqual(
            self.attention(MLXCEL_MLA_ABSORBED="1", MLXCEL_MLA_SPLIT_KV="yes")[0], "split-kv")

    def test_split_alone_does_nothing_and_says_so(self):
        attention, err = self.attention(MLXCEL_MLA_SPLIT_KV="1")
        self.assertEqual(attention, "auto")
        self.assertIn("MLXCEL_MLA_SPLIT_KV", err)

    def test_the_flag_wins(self):
        attention, err = self.attention("--attention", "absorbed", MLXCEL_MLA_SPLIT_KV="1")
        self.assertEqual(attention, "absorbed")
        self.assertNotIn("MLXCEL", err)


class Json(TestCase):
    def test_has_exactly_the_documented_fields(self):
        for attention in ATTENTION:
            result = self.succeed(*generate("-p", STORY["text"], "-n", "6", "--json", "--attention",
                                            attention))
            report = result.json
            self.assertEqual(result.out.count("\n"), 1)
            self.assertEqual(list(report), [
                "tokens", "text", "finish_reason", "prompt_tokens", "prompt_tps", "decode_tps",
                "cache_bytes", "peak_rss_bytes", "attention", "isa", "kernel", "paths"])
            self.assertIn(report["kernel"], ["fma"] if attention == "decompressed" else
                          ["fma", "bf16dot", "amx-bf16"])
            self.assertEqual(list(report["paths"]), PATHS)
            self.assertEqual(report["attention"], attention)
            self.assertEqual(report["prompt_tokens"], 11)
            self.assertEqual(len(report["tokens"]), 6)
            self.assertEqual(sum(report["paths"].values()), 6 * 6)
            per_token = 7680 if attention == "decompressed" else 960
            self.assertEqual(report["cache_bytes"], 16 * per_token)
            self.assertGreater(report["peak_rss_bytes"], 1 << 20)
            self.assertGreater(report["prompt_tps"], 0)
            self.assertGreater(report["decode_tps"], 0)

    def test_text_is_what_streaming_prints(self):
        args = generate("-p", "In 1984 the", "-n", "40", "--temperature", "1.5", "--seed", "3")
        self.assertEqual(self.succeed(*args, "--json").json["text"] + "\n", self.succeed(*args).out)


class Limits(TestCase):
    def test_a_full_context_is_a_normal_end(self):
        report = self.succeed(*generate("--tokens", "0,2986,638", "--ctx", "8", "-n", "100",
                                        "--ignore-eos", "--json")).json
        # Positions 3 to 7 are fed; the last token comes from the logits of position 7.
        self.assertEqual((len(report["tokens"]), report["finish_reason"]), (6, "length"))
        report = self.succeed(*generate("--tokens", "0,2986,638", "--ctx", "3", "-n", "100",
                                        "--json")).json
        self.assertEqual((len(report["tokens"]), report["finish_reason"]), (1, "length"))

    def test_no_new_tokens(self):
        report = self.succeed(*generate("-p", "x", "-n", "0", "--json")).json
        self.assertEqual((report["tokens"], report["finish_reason"]), ([], "length"))
        self.assertEqual(report["decode_tps"], 0)

    def test_prompt_longer_than_the_context(self):
        self.fail_with(2, ["has 3 tokens", "holds 2"], *generate("--tokens", "0,1,2", "--ctx", "2"))
        ids = ",".join(["5"] * 2049)
        self.fail_with(2, ["has 2049 tokens", "holds 2048"], *generate("--tokens", ids))

    def test_context_beyond_the_model(self):
        self.fail_with(2, ["2049", "2048"], *generate("-p", "x", "--ctx", "2049"))

    def test_stops_at_end_of_text(self):
        greedy = STORY["greedy"]
        model = self.dir / "model"
        for count in (0, 2, 4):  # tokens before the one that is made the end of the text
            self.assertNotIn(greedy[count], greedy[:count])
            shutil.rmtree(model, ignore_errors=True)
            shutil.copytree(STORIES, model)
            for name in ("config.json", "generation_config.json"):
                values = json.loads((model / name).read_text("utf8"))
                values["eos_token_id"] = greedy[count]
                (model / name).write_text(json.dumps(values))
            args = ("generate", "-m", model, "-p", STORY["text"], "-n", "12", "--json", *F32)
            report = self.succeed(*args).json
            self.assertEqual((report["tokens"], report["finish_reason"]), (greedy[:count], "stop"))
            on = self.succeed(*args, "--ignore-eos").json
            self.assertEqual((on["tokens"], on["finish_reason"]), (greedy[:12], "length"))


class Stop(TestCase):
    def test_stop_text_is_not_printed(self):
        whole = STORY["greedy_text"]
        for stop in (", and she", "children", " was", whole[5:30]):
            result = self.succeed(*generate("-p", STORY["text"], "-n", "64", *F32, "--stop", stop,
                                            "--stop", "never [x]"))
            self.assertEqual(result.out, whole[:whole.index(stop)] + "\n")
        report = self.succeed(*generate("-p", STORY["text"], "-n", "64", *F32, "--stop",
                                        "children", "--json")).json
        self.assertEqual(report["finish_reason"], "stop")
        self.assertEqual(report["text"], whole[:whole.index("children")])

    def test_text_held_back_comes_at_the_end(self):
        whole = STORY["greedy_text"]
        result = self.succeed(*generate("-p", STORY["text"], "-n", "64", *F32, "--stop",
                                        whole[-3:] + "XYZ"))
        self.assertEqual(result.out, whole + "\n")

    def test_empty_stop(self):
        self.fail_with(2, "--stop", *generate("-p", "x", "--stop", ""))


class Sampling(TestCase):
    def tokens(self, *args):
        return self.succeed(*generate("-p", STORY["text"], "-n", "24", "--json", *args)).json[
            "tokens"]

    def test_seed_decides(self):
        a = self.tokens("--temperature", "1", "--seed", "1")
        self.assertEqual(a, self.tokens("--temperature", "1", "--seed", "1"))
        self.assertNotEqual(a, self.tokens("--temperature", "1", "--seed", "2"))

    def test_filters_down_to_one_token_are_greedy(self):
        greedy = self.tokens("--temperature", "0")
        for args in (["--top-k", "1"], ["--top-p", "0.000001"], ["--min-p", "1"]):
            self.assertEqual(self.tokens("--temperature", "1", *args), greedy, args)

    def test_repeat_penalty_changes_a_repetitive_text(self):
        self.assertNotEqual(self.tokens(), self.tokens("--repeat-penalty", "1.3"))


class Interrupt(TestCase):
    PROMPT = ("--tokens", ",".join(str(2 + i * 7 % 4000) for i in range(1900)))

    def start(self, *args, prompt=("-p", "Once")):
        """A run that takes many seconds if it is left alone; its prompt has just begun."""
        p = subprocess.Popen([PROGRAM] + [str(a) for a in generate(
            *prompt, "-n", "1900", "--ignore-eos", "--kernels", "reference", "--threads", "1",
            "--attention", "absorbed", *args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environment())
        self.addCleanup(p.kill)
        wait_until_caught(p, signal.SIGINT)
        return p

    def interrupt(self, p):
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=240)
        self.assertEqual(p.returncode, 0, err)
        return out, err

    def test_ctrl_c_ends_with_the_statistics(self):
        p = self.start()
        first = p.stdout.read(1)
        out, err = self.interrupt(p)
        self.assertTrue((first + out).endswith(b"\n"))
        self.assertIn(b"interrupted", err)
        self.assertIn(b"paths=", err)
        produced = int(re.search(rb"decode (\d+) tokens", err)[1])
        self.assertTrue(0 < produced < 1900)

    def test_ctrl_c_with_json_still_prints_the_object(self):
        p = self.start("--json")
        time.sleep(0.5)
        out, _ = self.interrupt(p)
        self.assertEqual(json.loads(out)["finish_reason"], "interrupted")

    def test_ctrl_c_stops_within_a_chunk(self):
        # A chunk of 512 tokens takes many seconds with these kernels. Fed 512, it was finished first.
        out, err = self.interrupt(self.start(prompt=self.PROMPT))
        self.assertEqual(out, b"\n")
        self.assertIn(b"interrupted", err)
        self.assertIn(b"prompt 0 of 1900 tokens, 0.0 t/s", err)

    def test_ctrl_c_in_the_prompt_counts_what_was_fed(self):
        p = self.start("--prefill-chunk", "4", prompt=self.PROMPT)
        time.sleep(0.7)
        out, err = self.interrupt(p)
        self.assertEqual(out, b"\n")
        self.assertIn(b"interrupted", err)
        fed, rate = re.search(rb"prompt (\d+) of 1900 tokens, ([\d.]+) t/s", err).groups()
        self.assertEqual(int(fed) % 4, 0, err)
        # The rate is that of the tokens fed, not of the prompt; less than 0.7 s, in case that the
        # program was late to begin.
        self.assertLessEqual(float(rate), int(fed) / 0.35)

    def test_chunks_do_not_depend_on_the_speed(self):
        ids = ",".join(str(2 + i) for i in range(200))
        args = generate("--tokens", ids, "-n", "0", "--kernels", "reference", "--threads", "1",
                        "--attention", "decompressed", "--json")
        self.assertEqual(self.succeed(*args).json["paths"]["decompressed"], 6)
        self.assertEqual(self.succeed(*args, "--prefill-chunk", "50").json["paths"]["decompressed"],
                         24)


if __name__ == "__main__":
    main()
