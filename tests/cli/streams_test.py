"""Closed, full and broken standard streams: a message and status 1, never a crash."""
import subprocess

from support import PROGRAM, STORIES, TestCase, environment, main


def shell(command, *args):
    """Runs `command` with $0 = the program and $1... = args."""
    return subprocess.run(["sh", "-c", command, PROGRAM, *map(str, args)], capture_output=True,
                          timeout=120, env=environment())


COMMANDS = (
    "--help", "--version", "footprint", "inspect -m $1", "tokenize -m $1 -p abc",
    "detokenize -m $1 --tokens 5", "generate -m $1 -p Once -n 4", "generate -m $1 -p Once -n 4 --json",
    "perplexity -m $1 -p 'Once upon a time'",
)


class Streams(TestCase):
    def test_closed_standard_output(self):
        for command in COMMANDS:
            p = shell(f'"$0" {command} >&-', STORIES)
            self.assertEqual(p.returncode, 1, (command, p.stderr))
            self.assertIn(b"mla: error: cannot write to standard output", p.stderr)

    def test_full_disk(self):
        for command in COMMANDS:
            p = shell(f'"$0" {command} >/dev/full', STORIES)
            self.assertEqual(p.returncode, 1, (command, p.stderr))
            self.assertIn(b"No space left", p.stderr)

    def test_broken_pipe(self):
        for command in ("generate -m $1 -p Once -n 2000 --ignore-eos", "generate -m $1 -p Once --json"):
            p = shell(f'{{ sleep 0.2; "$0" {command}; echo "status $?" >&2; }} | true', STORIES)
            self.assertIn(b"status 1", p.stderr)
            self.assertIn(b"Broken pipe", p.stderr)

    def test_closed_standard_error_and_input(self):
        p = shell('"$0" generate -m "$1" -p Once -n 4 <&- 2>&-', STORIES)
        self.assertEqual(p.returncode, 0)
        self.assertTrue(p.stdout.strip())

    def test_closed_output_does_not_end_up_in_a_file(self):
        out = self.dir / "l.safetensors"
        p = shell('"$0" logits -m "$1" --tokens 1,2 --out "$2" >&- 2>&- <&-', STORIES, out)
        self.assertEqual(p.returncode, 0)
        self.assertTrue(out.read_bytes()[8:].startswith(b'{"logits"'))

    def test_reading_from_closed_standard_input(self):
        for command in ("generate -m $1 -f -", "tokenize -m $1 --jsonl"):
            p = shell(f'"$0" {command} <&-', STORIES)
            self.assertEqual(p.returncode, 2, p.stderr)
            self.assertIn(b"standard input", p.stderr)


if __name__ == "__main__":
    main()
