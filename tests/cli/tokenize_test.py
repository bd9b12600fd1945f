"""mla tokenize and mla detokenize."""
import json
import shutil
import subprocess

from support import PROGRAM, STORIES, TOKENIZERS, TestCase, golden, main, mla

PROMPTS = golden(STORIES)[0]["prompts"]


def lines(rows):
    return "".join(json.dumps(r) + "\n" for r in rows).encode()


class Tokenize(TestCase):
    def test_golden_prompts(self):
        for prompt in PROMPTS:
            if not prompt.get("add_special_tokens"):
                continue
            path = self.write("t.txt", prompt["text"])
            self.assertEqual(self.succeed("tokenize", "-m", STORIES, "-f", path, "--json").json,
                             {"tokens": prompt["ids"]})
            self.assertEqual(
                self.succeed("tokenize", "-m", STORIES, "-f", path, "--json", "--no-special").json,
                {"tokens": prompt["ids"][1:]})

    def test_plain_output_feeds_the_other_commands(self):
        out = self.succeed("tokenize", "-m", STORIES, "-p", "A fox").out
        self.assertRegex(out, r"\A\d+(,\d+)*\n\Z")
        back = self.succeed("detokenize", "-m", STORIES, "-f", "-", "--skip-special",
                            stdin=out.encode()).out
        self.assertEqual(back, "A fox\n")
        self.succeed("generate", "-m", STORIES, "--tokens", out.strip(), "-n", "1")

    def test_special_tokens_in_the_text(self):
        bos = self.succeed("detokenize", "-m", STORIES, "--tokens", "0", "--json").json["text"]
        as_token = self.succeed("tokenize", "-m", STORIES, "-p", bos, "--no-special",
                                "--json").json["tokens"]
        as_text = self.succeed("tokenize", "-m", STORIES, "-p", bos, "--no-special", "--plain",
                               "--json").json["tokens"]
        self.assertEqual(as_token, [0])
        self.assertNotIn(0, as_text)
        for ids in (as_token, as_text):
            self.assertEqual(self.succeed("detokenize", "-m", STORIES, "--tokens",
                                          ",".join(map(str, ids)), "--json").json["text"], bos)

    def test_tokenizer_files_alone_are_enough(self):
        shutil.copy(STORIES / "tokenizer.json", self.dir)
        self.assertEqual(self.succeed("tokenize", "-m", self.dir, "-p", "Once upon", "--json").json,
                         self.succeed("tokenize", "-m", STORIES, "-p", "Once upon", "--json").json)
        self.fail_with(2, "none", "tokenize", "-m", self.dir / "none", "-p", "x")

    def test_parity_sets(self):
        sets = [p.parent for p in sorted(TOKENIZERS.glob("**/parity.json"))]
        self.assertTrue(sets)
        for folder in sets:
            cases = json.loads((folder / "parity.json").read_text("utf8"))
            for key, args in (("ids", []), ("ids_no_special", ["--no-special"]),
                              ("ids_plain", ["--no-special", "--plain"])):
                rows = [c for c in cases if key in c]
                out = self.succeed(
                    "tokenize", "-m", folder, "--jsonl", *args,
                    stdin=lines([{"bytes_hex": c["bytes_hex"]} if "bytes_hex" in c else
                                 {"text": c["text"]} for c in rows]))
                self.assertEqual([json.loads(x)["tokens"] for x in out.out.splitlines()],
                                 [c[key] for c in rows], (folder, key))


class Lines(TestCase):
    def test_one_line_in_one_line_out(self):
        texts = ["", "a", "two\nlines", "\u2028\u0085", "\U0001f431", "x" * 200_000]
        out = self.succeed("tokenize", "-m", STORIES, "--jsonl", "--no-special",
                           stdin=lines([{"text": t} for t in texts])).out
        tokens = [json.loads(x) for x in out.splitlines()]
        self.assertEqual(len(tokens), len(texts))
        back = self.succeed("detokenize", "-m", STORIES, "--jsonl", stdin=lines(tokens)).out
        self.assertEqual([json.loads(x)["text"] for x in back.splitlines()], texts)

    def test_answers_before_the_input_ends(self):
        p = subprocess.Popen([PROGRAM, "tokenize", "-m", str(STORIES), "--jsonl"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for text in ("a", "b c"):
            p.stdin.write(lines([{"text": text}]))
            p.stdin.flush()
            self.assertIn("tokens", json.loads(p.stdout.readline()))
        p.stdin.close()
        self.assertEqual(p.wait(timeout=60), 0)
        p.stdout.close()

    def test_last_line_without_a_break_and_blank_lines(self):
        out = self.succeed("tokenize", "-m", STORIES, "--jsonl", stdin=b'\n{"text":"a"}\r\n \n{"text":"b"}')
        self.assertEqual(len(out.out.splitlines()), 2)
        self.assertEqual(self.succeed("tokenize", "-m", STORIES, "--jsonl").bytes, b"")

    def test_from_a_file(self):
        path = self.write("in.jsonl", lines([{"text": "a"}]))
        self.assertIn("tokens", self.succeed("tokenize", "-m", STORIES, "--jsonl", "-f", path).json)

    def test_bad_lines_are_named(self):
        first = self.succeed("tokenize", "-m", STORIES, "--jsonl", stdin=b'{"text":"a"}\n').out
        for line in (b"{", b"[1]", b"3", b"{}", b'{"text":3}', b'{"text":"\\ud800"}',
                     b'{"bytes_hex":"6"}', b'{"bytes_hex":"zz"}', b'{"text":"a","bytes_hex":"61"}',
                     b"\xff", b"[" * 100_000):
            result = mla("tokenize", "-m", STORIES, "--jsonl", stdin=b'{"text":"a"}\n' + line)
            self.assertEqual(result.status, 2, line[:40])
            self.assertIn("standard input, line 2", result.err)
            self.assertEqual(result.out, first)
        for line in (b'{"tokens":3}', b'{"tokens":["1"]}', b'{"tokens":[-1]}', b'{"text":"a"}'):
            result = mla("detokenize", "-m", STORIES, "--jsonl", stdin=line)
            self.assertEqual(result.status, 2, line)
            self.assertIn("standard input, line 1", result.err)
        result = mla("detokenize", "-m", STORIES, "--jsonl",
                     stdin=b'{"tokens":[5]}\n\n{"tokens":[4096]}\n{"tokens":[5]}\n')
        self.assertEqual((result.status, result.out.count("\n")), (2, 1))
        self.assertIn("standard input, line 3: ", result.err)
        self.assertIn("4096", result.err)

    def test_id_outside_of_the_vocabulary(self):
        self.fail_with(2, "4096", "detokenize", "-m", STORIES, "--tokens", "1,4096")


if __name__ == "__main__":
    main()
