"""Bad input from outside: the class of each message, status 2, no crash."""
import json
import os
import shutil
import struct

from support import GOLDENS, STORIES, TestCase, main, mla

TINY = GOLDENS / "deepseek_v3"


class Model(TestCase):
    def copy(self, **config):
        """A copy of a tiny checkpoint with edits of its config; a value of None removes the key."""
        model = self.dir / "model"
        if not model.exists():
            shutil.copytree(TINY, model)
        values = json.loads((TINY / "config.json").read_text())
        for key, value in config.items():
            values.pop(key, None)
            if value is not None:
                values[key] = value
        (model / "config.json").write_text(json.dumps(values))
        return model

    def refused(self, parts, model):
        self.fail_with(2, parts, "generate", "-m", model, "--tokens", "1,2", "-n", "1")

    def test_no_such_directory(self):
        self.refused("/no/such/model", "/no/such/model")
        self.refused(str(self.dir), self.dir)

    def test_unknown_model_type_says_what_is_supported(self):
        self.refused(["llama", "deepseek_v2", "deepseek_v3", "kimi_k2"],
                     self.copy(model_type="llama"))

    def test_config_fields(self):
        for key, value in (("hidden_size", 0), ("hidden_size", -1),
                           ("hidden_size", "32"), ("num_hidden_layers", 10**15),
                           ("kv_lora_rank", 33), ("qk_rope_head_dim", 7), ("vocab_size", 2**62),
                           ("scoring_func", "softplus"), ("hidden_act", "gelu")):
            self.refused([key, "config.json"] if key != "kv_lora_rank" else "kv_a",
                         self.copy(**{key: value}))

    def test_config_is_not_json(self):
        model = self.copy()
        for text in ("", "{", "[]", "[" * 100_000, "null"):
            (model / "config.json").write_text(text)
            self.refused("config.json", model)

    def test_broken_weights(self):
        model = self.copy()
        whole = (model / "model.safetensors").read_bytes()
        for data in (b"", whole[:7], whole[:100], whole[:-1], struct.pack("<Q", 2**62) + whole[8:],
                     struct.pack("<Q", len(whole)) + whole[8:],
                     whole[:8] + b"[" + whole[9:], whole + b"x"):
            (model / "model.safetensors").write_bytes(data)
            self.refused("model.safetensors", model)

    def test_all_missing_tensors_are_in_one_message(self):
        model = self.copy()
        path = model / "model.safetensors"
        data = path.read_bytes()
        n = struct.unpack("<Q", data[:8])[0]
        header = data[8:8 + n]
        for name in (b"model.norm.weight", b"lm_head.weight"):
            self.assertIn(name, header)
            header = header.replace(name, name.replace(b"weight", b"wright"))
        path.write_bytes(data[:8] + header + data[8 + n:])
        self.refused(["model.norm.weight", "lm_head.weight", "model.norm.wright"], model)

    def test_shard_outside_the_directory(self):
        model = self.copy()
        os.remove(model / "model.safetensors")
        (model / "model.safetensors.index.json").write_text(json.dumps(
            {"weight_map": {"model.norm.weight": "../secret.safetensors"}}))
        self.refused("../secret.safetensors", model)


class Prompt(TestCase):
    def test_token_ids_out_of_range(self):
        for ids in ("4096", "0,1,99999"):
            self.fail_with(2, ids.split(",")[-1], "generate", "-m", STORIES, "--tokens", ids)
        for ids in ("-1", "1,,2", "a", "1.5", "", " ", "2147483648"):
            self.fail_with(2, "--tokens", "generate", "-m", STORIES, "--tokens", ids)

    def test_invalid_utf8(self):
        for command in (["generate", "-n", "1"], ["tokenize"], ["perplexity"]):
            self.fail_with(2, ["-p", "UTF-8", "0xff", "offset 3"], *command, "-m", STORIES, "-p",
                           b"abc\xff")
            path = self.write("bad.txt", b"ab\xc3")
            self.fail_with(2, ["bad.txt", "offset 2"], *command, "-m", STORIES, "-f", path)
            self.fail_with(2, ["standard input", "offset 0"], *command, "-m", STORIES, "-f", "-",
                           stdin=b"\x80")
        self.fail_with(2, "--stop", "generate", "-m", STORIES, "-p", "x", "--stop", b"\xff")

    def test_unreadable_files(self):
        for command in ("generate", "tokenize", "perplexity"):
            self.fail_with(2, ["none.txt", "No such file"], command, "-m", STORIES, "-f",
                           self.dir / "none.txt")
            self.fail_with(2, "Is a directory", command, "-m", STORIES, "-f", self.dir)

    def test_endless_input(self):
        for command in (["generate"], ["perplexity"], ["tokenize"], ["tokenize", "--jsonl"],
                        ["detokenize"]):
            self.fail_with(2, ["/dev/zero", "64 MiB"], *command, "-m", STORIES, "-f", "/dev/zero")
        self.fail_with(2, ["/dev/zero", "64 MiB"], "logits", "-m", STORIES, "--tokens-file",
                       "/dev/zero", "--out", self.dir / "l")

    def test_prompts_that_look_like_options(self):
        for text in ("-x", "--json", "- x", "[a]", "{}", "%s%n", "'", '"', "a\nb", "$HOME"):
            want = self.succeed("tokenize", "-m", STORIES, "-f", "-", "--no-special", "--json",
                                stdin=text.encode()).json
            self.assertEqual(self.succeed("tokenize", "-m", STORIES, "-p", text, "--no-special",
                                          "--json").json, want, text)
            back = self.succeed("detokenize", "-m", STORIES, "--tokens",
                                ",".join(map(str, want["tokens"])), "--json").json["text"]
            self.assertEqual(back, text)

    def test_huge_prompt(self):
        self.fail_with(2, "2048", "generate", "-m", STORIES, "-f", "-", stdin=b"word " * 200_000)


if __name__ == "__main__":
    main()
