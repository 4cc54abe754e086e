"""How much memory and time `rubricnb import` takes for a log of a given size.

    python benchmarks/import_memory.py                 100 MB, about half a minute
    python benchmarks/import_memory.py --megabytes 1024 --redact

The log is made here (chat messages with tool calls, a few observations of 400 kB), imported by the
command in a process of its own, and that process's peak memory is read from the system. Exit
status 1 if it is above --limit.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def conversation(r: random.Random, number: int) -> dict:
    """One rollout of about 12 kB; every 200th holds an observation of 400 kB."""
    words = ["the", "order", "of", "refund", "shipment", "was", "W1042", "customer", "to"] * 20
    words += ["ann@example.com", "\u001b[31mred\u001b[0m", "+1 650 253 0000"]
    messages: list[dict] = [
        {"role": "system", "content": "Rules of the shop. " * 60},
        {"role": "user", "content": " ".join(r.choices(words, k=30))},
    ]
    for turn in range(12):
        call = {"name": "lookup", "arguments": json.dumps({"q": r.choice(words), "n": turn})}
        size = 50_000 if number % 200 == 0 and turn == 5 else 80
        messages += [
            {
                "role": "assistant",
                "content": " ".join(r.choices(words, k=40)),
                "tool_calls": [{"id": f"c{turn}", "type": "function", "function": call}],
            },
            {
                "role": "tool",
                "tool_call_id": f"c{turn}",
                "content": " ".join(r.choices(words, k=size)),
            },
        ]
    return {"task_id": number // 8, "reward": r.random() < 0.5, "messages": messages}


def make(path: Path, megabytes: int, as_array: bool) -> int:
    """Write a log of that size and return how many rollouts it holds."""
    r = random.Random(0)
    written = number = 0
    with open(path, "w", encoding="utf-8") as f:
        f.write("[\n" if as_array else "")
        while written < megabytes << 20:
            line = json.dumps(conversation(r, number))
            written += f.write((",\n" if as_array and number else "") + line + "" * as_array)
            written += 0 if as_array else f.write("\n")
            number += 1
        f.write("\n]\n" if as_array else "")
    return number


def main() -> int:
    """Make a log, import it, print what that took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--limit", type=int, default=300, help="peak memory allowed, in MB")
    parser.add_argument("--redact", action="store_true")
    parser.add_argument("--array", action="store_true", help="one JSON array, not JSON lines")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log.json" if args.array else "log.jsonl")
        rollouts = make(log, args.megabytes, args.array)
        out = f"{folder}/out.jsonl"
        command = [sys.executable, "-m", "rubricnb", "import", str(log), "-o", out]
        start = time.perf_counter()
        subprocess.run(command + ["--redact"] * args.redact, check=True)
        seconds = time.perf_counter() - start
    # Linux counts in kB, macOS in bytes.
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / unit
    print(
        f"{args.megabytes} MB, {rollouts} rollouts: {seconds:.0f} s "
        f"({args.megabytes / seconds:.0f} MB/s), peak memory {peak:.0f} MB (limit {args.limit} MB)"
    )
    return int(peak > args.limit)


if __name__ == "__main__":
    sys.exit(main())
