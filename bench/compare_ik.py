#!/usr/bin/env python3
"""Attention beside ik_llama.cpp's llama-bench: decode and prefill, interleaved in one run.

Both sides run DeepSeek-V2-Lite's shape. The peer runs a whole model (bench/README.md says how to
get one), mla its attention alone, so the peer's attention is derived from how its time grows with
depth. Prints ratios, theirs / ours: above 1, mla is faster. Exit status: 1 if a program fails, its
output cannot be read or a ratio drowns in noise; 2 for bad arguments.
"""
import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys

# Our cache types and what the peer calls the same.
PEER_CACHE = {"bf16": "f16", "f16": "f16", "int8": "q8_0"}
# Of the peer: tokens of a decode test, of a step of prefill (its default -ub), as many as our rows.
GENERATED = 24
UBATCH = 512
SHORT = GENERATED // 2  # our "depth 0": the peer's context while it generates its tokens


class Failure(Exception):
    """A message for the user; the exit status becomes 1."""


def log(text):
    print(text, file=sys.stderr, flush=True)


def death(status):
    """What a process died of, or None. A shell in between reports a signal as 128 + number."""
    number = -status if status < 0 else status - 128
    try:
        name = signal.Signals(number).name
    except ValueError:
        return None
    hint = (": its build has instructions that this processor lacks; build it on this machine"
            if name == "SIGILL" else "")
    return f"killed by {name}{hint}"


def run(argv, timeout):
    """Standard output of a program that ends well; else Failure with the reason."""
    command = " ".join(argv)
    try:
        result = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                errors="replace", timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise Failure(f"no end after {timeout:g} s (--timeout): {command}") from None
    except OSError as e:
        raise Failure(f"cannot run {argv[0]}: {e.strerror}") from None
    if result.returncode != 0:
        why = death(result.returncode) or f"exit status {result.returncode}"
        last = "\n  ".join(result.stderr.strip().split("\n")[-5:])
        raise Failure(f"{command}\n  {why}\n  {last}".rstrip())
    return result.stdout


def parse(text, what):
    """The JSON value of an output, which may begin with other lines."""
    start = min((i for i in (text.find("["), text.find("{")) if i >= 0), default=0)
    try:
        return json.loads(text[start:])
    except ValueError as e:
        raise Failure(f"{what}: expected JSON, found {text[:200]!r} ({e})") from e


def peer_milliseconds(text, wanted, cache, threads):
    """Milliseconds of each test of `wanted` in llama-bench's JSON (-o json -r 1).

    Checks that the peer ran what it was asked for: an option that a version does not know, or
    resets, would give a ratio to something else.
    """
    tests = parse(text, "llama-bench")
    if not isinstance(tests, list):
        raise Failure("llama-bench: expected an array of tests")
    asked = {"type_k": cache, "n_threads": threads, "mla_attn": 3, "flash_attn": True}
    found = {}
    for test in tests:
        try:
            for field, value in asked.items():
                if test[field] != value:
                    raise Failure(f"llama-bench: asked for {field} {value}, ran {test[field]}")
            (ns,) = test["samples_ns"]
            found[test["test"]] = ns / 1e6
        except (KeyError, TypeError, ValueError) as e:
            raise Failure(f"llama-bench: no {e} in the test {test!r:.300}") from e
    for name in wanted:
        if not found.get(name, 0) > 0:
            raise Failure(f"llama-bench: no time for the test {name}, only {found}")
    return [found[name] for name in wanted]


class Peer:
    def __init__(self, args):
        self.args = args

    def run(self, cache, options, wanted):
        a = self.args
        argv = [str(a.llama_bench), "-m", str(a.model), "-t", str(a.threads), "-fa", "1", "-mla",
                "3", "-ctk", PEER_CACHE[cache], "-ub", str(UBATCH), "-r", "1", "-o", "json",
                *options]
        return peer_milliseconds(run(argv, a.timeout), wanted, PEER_CACHE[cache], a.threads)

    def decode(self, cache, depth):
        """Milliseconds per token with `depth` tokens in the cache."""
        # -p 0 and -n 0: without them it adds tests of its own.
        options, name = ["-p", "0", "-n", str(GENERATED)], f"tg{GENERATED}"
        if depth > 0:
            options = ["-p", "0", "-n", "0", "-gp", f"{depth},{GENERATED}"]
            name += f"@pp{depth}"
        return self.run(cache, options, [name])[0] / GENERATED

    def prefill(self, cache, tokens):
        """Milliseconds of the first UBATCH tokens, and of all."""
        return self.run(cache, ["-n", "0", "-p", f"{UBATCH},{tokens}"],
                        [f"pp{UBATCH}", f"pp{tokens}"])


class Ours:
    def __init__(self, args):
        self.args = args

    def run(self, *options):
        argv = [str(self.args.mla), "bench", *options, "--like", "deepseek-v2-lite", "--threads",
                str(self.args.threads), "--json"]
        report = parse(run(argv, self.args.timeout), "mla bench")
        if not isinstance(report, dict):
            raise Failure("mla bench: expected an object")
        return report

    def decode(self, cache, depth):
        """The rows of the arm auto by context, of a cache of `depth` tokens and a short one."""
        report = self.run("attention", "--cold", "--dtype", cache, "--batches", "1", "--steps",
                          "32", "--contexts", f"{SHORT},{depth}", "--layers", str(self.args.layers))
        try:
            rows = {row["context"]: row for row in report["rows"] if row["arm"] == "auto"}
            return {c: (rows[c]["ms_per_step"], rows[c]["ms_per_1000_tokens"], rows[c]["kernel"])
                    for c in (SHORT, depth)}
        except (KeyError, TypeError) as e:
            raise Failure(f"mla bench attention: no {e} in its report") from e

    def prefill(self, cache, contexts):
        """Milliseconds of one layer's step of UBATCH rows (arm auto), by context."""
        report = self.run("prefill", "--dtype", cache, "--rows", str(UBATCH), "--contexts",
                          ",".join(map(str, contexts)), "--repeats", "3", "--max-ms", "1e8")
        try:
            return {cell["context"]: arm["ms"] for cell in report["cells"] for arm in cell["arms"]
                    if arm["arm"] == "auto"}
        except (KeyError, TypeError) as e:
            raise Failure(f"mla bench prefill: no {e} in its report") from e


def per_1000(at_depth, at_zero, tokens):
    """Extra milliseconds per 1000 cached tokens."""
    return (at_depth - at_zero) / (tokens / 1000)


def ratio(theirs, ours):
    """None where noise was larger than the time itself."""
    return theirs / ours if theirs > 0 and ours > 0 else None


# A peer's prefill is projections and experts, the same for every token, and attention, which grows
# with the tokens before it. Prefill goes in steps of UBATCH tokens. Without attention to earlier
# steps a prompt would take tokens / UBATCH times the first step; what it takes beyond is attention
# to earlier steps. Attention inside a step goes with the subtracted part (1/32 of all pairs at 16K),
# and so does up-projecting the step's own keys. The same subtraction on our side compares the same.
def beyond_first_step(total, first, tokens):
    return total - tokens / UBATCH * first


def sampled_contexts(tokens):
    """Up to 9 of the contexts UBATCH, 2·UBATCH .. tokens of the steps of a prefill, with both ends:
    a step's time is nearly linear in its context."""
    steps = tokens // UBATCH
    count = min(steps, 9)
    return sorted({UBATCH * (1 + round(i * (steps - 1) / max(1, count - 1))) for i in range(count)})


def sum_of_steps(ms, tokens):
    """Sum over the steps of a prefill of the times `ms` {context: ms}, linear between them."""
    total = ms[UBATCH]
    for context in range(2 * UBATCH, tokens + 1, UBATCH):
        low = max(c for c in ms if c < context)
        high = min(c for c in ms if c >= context)
        total += ms[low] + (ms[high] - ms[low]) * (context - low) / (high - low)
    return total


class Comparison:
    """The samples of all passes, and what follows from their medians."""

    def __init__(self, args):
        self.args = args
        self.peer, self.ours = Peer(args), Ours(args)
        self.samples = {}

    def add(self, *key_and_value):
        *key, value = key_and_value
        self.samples.setdefault(tuple(key), []).append(value)

    def median(self, *key):
        return statistics.median(self.samples[key])

    def measure(self):
        """One pass of everything; peer and ours alternate, so that both see the same machine."""
        for cache in self.args.cache:
            for depth in self.args.depths:
                self.measure_decode(cache, depth)
            if self.args.prefill > 0:
                self.measure_prefill(cache, self.args.prefill)

    def measure_decode(self, cache, depth):
        ms = self.peer.decode(cache, depth)
        self.add("peer", cache, depth, ms)
        log(f"{cache} depth {depth}: peer {ms:.2f} ms per token")
        if depth == 0:
            return
        rows = self.ours.decode(cache, depth)
        extra = per_1000(rows[depth][0], rows[SHORT][0], depth - SHORT) * self.args.layers
        self.add("ours", cache, depth, extra)
        self.add("ours_whole", cache, depth, rows[depth][1])
        self.add("kernel", cache, depth, rows[depth][2])
        log(f"{cache} depth {depth}: ours {extra:.3f} ms per 1000 tokens")

    def measure_prefill(self, cache, tokens):
        first, total = self.peer.prefill(cache, tokens)
        self.add("peer_first", cache, first)
        self.add("peer_prefill", cache, total)
        contexts = sampled_contexts(tokens)
        ms = self.ours.prefill(cache, contexts)
        if sorted(ms) != contexts:
            raise Failure(f"mla bench prefill: asked for {contexts}, found {sorted(ms)}")
        whole = sum_of_steps(ms, tokens)
        extra = beyond_first_step(whole, ms[UBATCH], tokens)
        self.add("ours_prefill_whole", cache, whole * self.args.layers)
        self.add("ours_prefill", cache, extra * self.args.layers)
        log(f"{cache} prefill: peer {first:.0f} ms for {UBATCH} tokens, {total:.0f} for {tokens}; "
            f"ours {extra * self.args.layers:.0f} of attention")

    def decode_row(self, cache, depth):
        ms = self.median("peer", cache, depth)
        row = {"cache": cache, "peer_cache": PEER_CACHE[cache], "depth": depth,
               "peer_tokens_per_s": 1000 / ms,
               "peer_samples_ms": self.samples["peer", cache, depth]}
        if depth == 0:
            return row
        peer = per_1000(ms, self.median("peer", cache, 0), depth)
        ours, whole = self.median("ours", cache, depth), self.median("ours_whole", cache, depth)
        return row | {"peer_ms_per_1000": peer, "ours_ms_per_1000": ours,
                      "ratio": ratio(peer, ours), "ours_whole_ms_per_1000": whole,
                      "ratio_whole": ratio(peer, whole),
                      "ours_samples_ms_per_1000": self.samples["ours", cache, depth],
                      "kernel": self.samples["kernel", cache, depth][-1]}

    def prefill_row(self, cache, tokens):
        first, total = self.median("peer_first", cache), self.median("peer_prefill", cache)
        peer, ours = beyond_first_step(total, first, tokens), self.median("ours_prefill", cache)
        return {"cache": cache, "peer_cache": PEER_CACHE[cache], "tokens": tokens,
                "peer_first_ms": first, "peer_total_ms": total, "peer_attention_ms": peer,
                "ours_attention_ms": ours, "ratio": ratio(peer, ours),
                "ours_whole_ms": self.median("ours_prefill_whole", cache),
                "peer_samples_ms": self.samples["peer_prefill", cache],
                "ours_samples_ms": self.samples["ours_prefill", cache]}

    def report(self):
        a = self.args
        return {"decode": [self.decode_row(c, d) for c in a.cache for d in a.depths],
                "prefill": [self.prefill_row(c, a.prefill) for c in a.cache if a.prefill > 0]}


def cpu_name():
    rows = pathlib.Path("/proc/cpuinfo").read_text("utf8").splitlines()
    names = [row.split(":", 1)[1].strip() for row in rows if row.startswith("model name")]
    return names[0] if names else "unknown processor"


def line(cells, widths):
    """Cells under each other: numbers with their digits, None as a dash, the first to the left."""
    texts = ["-" if c is None else f"{c:.3f}" if isinstance(c, float) else str(c) for c in cells]
    return (texts[0].ljust(widths[0]) +
            "".join(t.rjust(w) for t, w in zip(texts[1:], widths[1:]))).rstrip()


def print_table(report):
    print(f"{report['cpu']}, {report['threads']} threads, {report['layers']} layers, "
          f"{report['repeats']} passes, load average {report['load_before']:.2f} before, "
          f"{report['load_after']:.2f} after\n")
    widths = [12, 7, 10, 12, 12, 9, 13, 9, 10]
    print(line(["decode", "depth", "peer t/s", "peer ms/1K", "ours ms/1K", "ratio", "whole ms/1K",
                "ratio", "kernel"], widths))
    for r in report["decode"]:
        cells = [f"{r['cache']}/{r['peer_cache']}", r["depth"], r["peer_tokens_per_s"]]
        if r["depth"] > 0:
            cells += [r[k] for k in ("peer_ms_per_1000", "ours_ms_per_1000", "ratio",
                                     "ours_whole_ms_per_1000", "ratio_whole", "kernel")]
        print(line(cells, widths))
    if report["prefill"]:
        print("\n" + line(["prefill", "tokens", "peer s", "peer att. s", "ours att. s", "ratio"],
                          widths))
    for r in report["prefill"]:
        print(line([f"{r['cache']}/{r['peer_cache']}", r["tokens"], r["peer_total_ms"] / 1000,
                    r["peer_attention_ms"] / 1000, r["ours_attention_ms"] / 1000, r["ratio"]],
                   widths))


def parse_args(argv):
    def positive(text):
        if int(text) < 1:
            raise ValueError(text)
        return int(text)

    root = pathlib.Path(__file__).resolve().parent.parent
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--llama-bench", required=True, type=pathlib.Path, metavar="PATH",
                   help="the peer's program")
    p.add_argument("--model", required=True, type=pathlib.Path, metavar="GGUF",
                   help="a file of DeepSeek-V2-Lite's shape")
    p.add_argument("--mla", type=pathlib.Path, default=root / "build" / "mla", metavar="PATH",
                   help="our program (default: %(default)s)")
    p.add_argument("--threads", type=positive, default=len(os.sched_getaffinity(0)), metavar="N",
                   help="of both (default: %(default)s)")
    p.add_argument("--depths", type=lambda text: [int(part) for part in text.split(",")],
                   default=[0, 4096, 16384], metavar="LIST",
                   help="cached tokens of decode, 0 first (default: 0,4096,16384)")
    p.add_argument("--cache", type=lambda text: text.split(","), default=["bf16", "int8"],
                   metavar="LIST", help="of ours: bf16 or f16 beside f16, int8 beside q8_0 "
                   "(default: bf16,int8)")
    p.add_argument("--prefill", type=int, metavar="TOKENS",
                   help=f"length of prefill, a multiple of {UBATCH}; 0: none (default: the largest "
                   "depth, rounded down)")
    p.add_argument("--layers", type=positive, default=27, help="of the model (default: 27)")
    p.add_argument("--repeat", type=positive, default=3, metavar="N",
                   help="passes over everything; medians are compared (default: %(default)s)")
    p.add_argument("--timeout", type=float, default=7200, metavar="SECONDS",
                   help="of one run of a program (default: %(default)g)")
    p.add_argument("--json", action="store_true", help="print one JSON object")
    args = p.parse_args(argv)
    if args.depths[0] != 0:
        p.error("--depths must begin with 0: the extra time is measured from there")
    if len(args.depths) < 2 or min(args.depths[1:]) <= SHORT:
        p.error(f"--depths must have a depth above {SHORT} beside 0")
    for cache in args.cache:
        if cache not in PEER_CACHE:
            p.error(f"--cache: '{cache}' is not one of {', '.join(PEER_CACHE)}")
    if args.prefill is None:
        steps = max(args.depths) // UBATCH
        args.prefill = steps * UBATCH if steps > 1 else 0
    if args.prefill % UBATCH != 0 or args.prefill < 0 or args.prefill == UBATCH:
        p.error(f"--prefill must be 0 or a multiple of {UBATCH} from {2 * UBATCH} on: the time "
                f"beyond the first {UBATCH} tokens is compared")
    for name, path in (("--llama-bench", args.llama_bench), ("--model", args.model),
                       ("--mla", args.mla)):
        if not path.is_file():
            p.error(f"{name}: no file {path}")
    # A bare name would be looked for in PATH.
    args.llama_bench, args.mla = args.llama_bench.resolve(), args.mla.resolve()
    return args


def read_once(path):
    """Brings a file into the page cache: the peer maps its model, and reading it from the disk
    would count as its time."""
    with open(path, "rb", buffering=0) as file:
        while file.read(1 << 24):
            pass


def main(argv=None):
    args = parse_args(argv)
    report = {"cpu": cpu_name(), "threads": args.threads, "layers": args.layers,
              "repeats": args.repeat, "load_before": os.getloadavg()[0]}
    if report["load_before"] > 0.5:
        log(f"WARNING: load average {report['load_before']:.2f}: other work distorts the ratios")
    comparison = Comparison(args)
    try:
        read_once(args.model)
        for i in range(args.repeat):
            log(f"pass {i + 1} of {args.repeat}")
            comparison.measure()
    except (Failure, OSError) as e:
        log(f"compare_ik: error: {e}")
        return 1
    report |= {"load_after": os.getloadavg()[0]} | comparison.report()
    print(json.dumps(report)) if args.json else print_table(report)
    noisy = [r for r in report["decode"] + report["prefill"] if r.get("ratio", 0) is None]
    for r in noisy:
        log(f"compare_ik: error: no ratio for {r['cache']}, {r.get('depth', r.get('tokens'))} "
            "tokens: a time did not grow with the depth; use a quieter machine or more --repeat")
    return 1 if noisy else 0


if __name__ == "__main__":
    sys.exit(main())
