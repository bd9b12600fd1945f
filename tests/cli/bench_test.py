"""mla bench attention on a tiny geometry: rows, counters, JSON, bad geometry. mla bench peaks."""
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
        self.assertEqual(list(report), ["peaks", "geometry", "kv", "cold", "rows"])
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


class Rows(TestCase):
    ARGS = SHAPE + ["--contexts", "5,300", "--rows", "1,7", "--repeats", "3", "--json"]

    def check(self, report, extra):
        self.assertEqual([(c["context"], c["rows"]) for c in report["cells"]],
                         [(5, 1), (300, 1), (300, 7)])
        # Units of bf16 pairs round each weight by 2^-9, and an up-projected key and value as well.
        bound = 1e-4 if report["kernel"] == "fma" else 2**-7
        for cell in report["cells"]:
            forced = "split_kv" if cell["rows"] == 1 else "up_projected"
            self.assertEqual([a["arm"] for a in cell["arms"]],
                             ["absorbed", forced, "auto", *extra])
            times = {a["arm"]: a["ms"] for a in cell["arms"]}
            best = min(times["absorbed"], times[forced])
            self.assertAlmostEqual(cell["auto_over_best"], times["auto"] / best, 3)
            for arm in cell["arms"]:
                self.assertEqual(sum(arm["paths"].values()), 3, arm)
                self.assertLess(arm["max_error"], bound, arm)
        for costs in (report["costs"], report["expected_costs"]):
            for cost in costs.values():
                self.assertGreater(cost, 0, costs)
        self.assertAlmostEqual(report["costs"]["up_key_ns"], report["expected_costs"]["up_key_ns"])

    def test_crossover(self):
        self.check(self.succeed("bench", "crossover", *self.ARGS).json, [])
        out = self.succeed("bench", "crossover", *self.ARGS[:-1]).out
        self.assertIn("auto takes at most", out)

    def test_prefill(self):
        self.check(self.succeed("bench", "prefill", *self.ARGS).json, ["decompressed"])

    def test_bad_options(self):
        for args, parts in ((["--rows", "0"], "--rows"), (["--like", "v9"], "deepseek-v3"),
                            (["--rope", "7"], "even"), (["--max-ms", "0"], "--max-ms")):
            self.fail_with(2, parts, "bench", "crossover", *args)


UNITS = ["fma", "bf16dot", "vnni512", "vnni256", "amx-bf16", "amx-int8"]
LATENT_16BIT = ["fma", "bf16dot", "amx-bf16"]
LATENT_INT8 = ["vnni512", "vnni256", "amx-int8"]


class Peaks(TestCase):
    def fastest(self, report, names):
        """The rule of the choice, applied to the figures of the report."""
        best = max((u for u in report["units"]
                    if u["unit"] in names and u["usable"] and u["fits_isa"]),
                   key=lambda u: u["tops_all"], default={"unit": "none"})
        return best["unit"]

    def check(self, report):
        self.assertEqual([u["unit"] for u in report["units"]], UNITS)
        for unit in report["units"]:
            self.assertEqual(unit["usable"], unit["why_not"] == "", unit)
            self.assertEqual(unit["usable"], unit["tops_one"] > 0, unit)
            self.assertEqual(unit["usable"], unit["tops_all"] > 0, unit)
            self.assertLessEqual(unit["usable"], unit["detected"], unit)
        self.assertTrue(report["units"][0]["usable"])
        self.assertEqual(report["latent_16bit"], self.fastest(report, LATENT_16BIT))
        self.assertEqual(report["latent_int8"], self.fastest(report, LATENT_INT8))
        for read in (report["probe_read"], report["memory_read"]):
            self.assertGreater(read["bytes"], 0)
            self.assertGreater(read["gbps_one"], 0)
            self.assertGreater(read["gbps_all"], 0)
        self.assertIn(report["isa"], [i["isa"] for i in report["isas"]])
        for isa in report["isas"]:
            self.assertGreater(isa["tflops_one"], 0)
            self.assertGreater(isa["tflops_all"], 0)

    def test_report(self):
        result = self.succeed("bench", "peaks", "--threads", "2", "--json")
        self.assertEqual(result.json["threads"], 2)
        self.check(result.json)
        refused = [u["unit"] for u in result.json["units"] if u["detected"] and not u["usable"]]
        for unit in refused:
            self.assertIn(unit + ": ", result.err)

    def test_a_forced_isa_leaves_nothing_wider(self):
        detected = [i["isa"] for i in self.succeed("bench", "peaks", "--json").json["isas"]]
        for isa in (i for i in ("avx2", "sse4") if i in detected):
            report = self.succeed("bench", "peaks", "--isa", isa, "--threads", "1", "--json").json
            self.assertEqual(report["isa"], isa)
            self.check(report)
            self.assertEqual(report["latent_16bit"], "fma")
            self.assertIn(report["latent_int8"], ["vnni256", "none"] if isa == "avx2" else ["none"])

    def test_table(self):
        out = self.succeed("bench", "peaks", "--threads", "1").out
        for part in UNITS + ["cpu ", "threads  1", "caches ", "read, memory", "all threads",
                             "fastest for a 16-bit latent", "fastest for an int8 latent"]:
            self.assertIn(part, out)

    def test_bad_options(self):
        for args, parts in ((["--isa", "bogus"], "bogus"), (["--threads", "0"], "--threads"),
                            (["--threads", "x"], "--threads"), (["--steps", "1"], "--steps")):
            self.fail_with(2, parts, "bench", "peaks", *args)


if __name__ == "__main__":
    main()
