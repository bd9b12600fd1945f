"""docs/json.md names every field that the commands print, once, and no other."""
import re

from support import SOURCE, STORIES, TestCase, main

TINY = ["--heads", "2", "--rank", "8", "--nope", "4", "--rope", "4", "--v-dim", "4", "--layers",
        "1", "--contexts", "8", "--rows", "1,4", "--repeats", "1"]
COMMANDS = {
    "generate": ["generate", "-m", STORIES, "-p", "x", "-n", "1"],
    "tokenize": ["tokenize", "-m", STORIES, "-p", "x"],
    "detokenize": ["detokenize", "-m", STORIES, "--tokens", "5"],
    "perplexity": ["perplexity", "-m", STORIES, "-p", "a b"],
    "inspect": ["inspect", "-m", STORIES],
    "footprint": ["footprint"],
    "bench peaks": ["bench", "peaks"],
    "bench crossover": ["bench", "crossover", *TINY],
    "bench prefill": ["bench", "prefill", *TINY],
    "bench attention": ["bench", "attention", "--heads", "2", "--rank", "8", "--nope", "4",
                        "--rope", "4", "--v-dim", "4", "--layers", "1", "--contexts", "8",
                        "--batches", "1", "--steps", "1", "--warmup", "0"],
}
OPEN = {"tflops"}  # objects whose keys are data


def keys(value):
    """All keys of an object and of what it holds."""
    if isinstance(value, list):
        return set().union(*map(keys, value)) if value else set()
    if not isinstance(value, dict):
        return set()
    found = set(value)
    for key, inner in value.items():
        found |= set() if key in OPEN else keys(inner)
    return found


class Document(TestCase):
    def test_fields(self):
        text = (SOURCE / "docs" / "json.md").read_text("utf8")
        sections = re.split(r"(?m)^## ", text)[1:]
        titles = [s.splitlines()[0] for s in sections]
        whole = set(re.findall(r"`([\w-]+)`", text))
        for command, args in COMMANDS.items():
            mine = [s for s, t in zip(sections, titles) if f"`mla {command} --json`" in t]
            self.assertEqual(len(mine), 1, command)
            printed = keys(self.succeed(*args, "--json").json)
            self.assertLessEqual(printed, whole)
            for table in re.findall(r"(?m)(?:^\|.*\n)+", mine[0]):
                rows = table.splitlines()[2:]
                names = [n for row in rows for n in re.findall(r"`(\w+)`", row.split("|")[1])]
                self.assertEqual(len(names), len(set(names)), (command, names))
                if command not in ("tokenize", "detokenize"):  # one table for the two
                    self.assertLessEqual(set(names), printed, command)


if __name__ == "__main__":
    main()
