"""mla bench attention on a tiny geometry: rows, counters, JSON, bad geometry."""
import subprocess

from support import PATHS, PROGRAM, TestCase, environment, main

SHAPE = ["--heads", "4", "--rank", "32", "--nope", "16", "--rope", "8", "--v-dim", "12", "--layers",
         "2"]
TINY = SHAPE + ["--steps", "3", "--warmup", "1"]
OWN_PATH = {"decompressed": "decompressed", "absorbed": "absorbed_composed",
            "split_kv": "absorbed_split_kv"}


def bench(*args):
    return ("bench", "attention", *args)


class Bench(TestCase):
    def test_every_row_names_its_own_path(self):
        report = self.succeed(*bench(*TINY, "--contexts", "300,700", "--batches", "1,2",
                                     "--json")).json
        self.assertEqual(list(report), ["peaks", "geometry", "kv", "rows"])
        self.assertGreater(report["peaks"]["read_gbps"], 0)
        self.assertTrue(report["peaks"]["tflops"])
        arms = set()
        for row in report["rows"]:
            self.assertTrue(row["ok"], row)
            self.assertEqual(list(row["paths"]), PATHS)
            self.assertGreater(row["ms_per_step"], 0)
            if row["arm"] in OWN_PATH:
                want = dict.fromkeys(PATHS, 0)
                want[OWN_PATH[row["arm"]]] = 3
                self.assertEqual(row["paths"], want)
            arms.add(row["arm"])
        self.assertLessEqual({"decompressed", "absorbed", "split_kv"}, arms)
        seen = {(r["batch"], r["context"]) for r in report["rows"]}
        self.assertEqual(seen, {(1, 300), (1, 700), (2, 300), (2, 700)})
        kv = report["kv"]
        self.assertEqual(kv["latent_bytes_per_token_layer"], 80)
        self.assertEqual(kv["decompressed_bytes_per_token_layer"], 4 * 36 * 2)
        self.assertEqual(kv["fold_elements"], 2 * 4 * 28 * 32)

    def test_table(self):
        out = self.succeed(*bench(*TINY, "--contexts", "256", "--batches", "1")).out
        for part in ("latent", "decompressed", "peaks of this run", "ms/step", "paths="):
            self.assertIn(part, out)

    def test_rows_come_as_soon_as_they_are_measured(self):
        p = subprocess.Popen([PROGRAM, *bench(*SHAPE, "--contexts", "64,65536", "--batches", "1",
                                              "--steps", "20000")],
                             stdout=subprocess.PIPE, env=environment(), text=True)
        seen = [p.stdout.readline()]
        while seen[-1] and not seen[-1].startswith("auto "):
            seen.append(p.stdout.readline())
        p.kill()
        rest = p.stdout.read()
        p.wait()
        p.stdout.close()
        self.assertEqual(sum("paths=" in line for line in seen), 4, seen)
        self.assertNotIn("65536", rest)

    def test_without_split(self):
        report = self.succeed(*bench(*TINY, "--contexts", "256", "--batches", "1", "--no-split",
                                     "--json")).json
        self.assertNotIn("split_kv", {r["arm"] for r in report["rows"]})

    def test_bad_geometry_and_options(self):
        for args, parts in ((["--heads", "0"], "--heads"), (["--rope", "7"], "even"),
                            (["--like", "v9"], "deepseek-v3"), (["--contexts", "0"], "--contexts"),
                            (["--contexts", "1,,2"], "--contexts"), (["--batches", "x"], "--batches"),
                            (["--steps", "0"], "--steps"), (["--dtype", "int9"], "int9"),
                            (["--isa", "bogus"], "bogus"), (["--kv-budget-gib", "nan"], "--kv-budget")):
            self.fail_with(2, parts, *bench(*args))


if __name__ == "__main__":
    main()
