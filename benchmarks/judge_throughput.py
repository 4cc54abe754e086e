"""Throughput and CPU of the judge's client against a bare loop over the ``openai`` client.

Both send the same calls, 64 in flight, to a loopback server that answers each after 500 ms. Ours
also journals, caches, books and budgets every call. Printed are ratios in one run, the median
over alternating rounds.

    python -m benchmarks.judge_throughput [--calls 640] [--rounds 3] [--latency 0.5]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import openai

from rubricnb.judge import Budget, Call, EndpointJudge, Ledger, RecordedJudge, Store
from rubricnb.judge.loop import run

IN_FLIGHT = 64
PROMPT = "Grade the rollout. " * 200


async def timed(work: Callable[[int], Awaitable[object]], calls: int) -> tuple[float, float]:
    """Wall and CPU seconds of all calls, at most IN_FLIGHT at once."""
    slots = asyncio.Semaphore(IN_FLIGHT)

    async def one(i: int) -> None:
        async with slots:
            await work(i)

    wall, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(one(i) for i in range(calls)))
    return time.perf_counter() - wall, time.process_time() - cpu


def bare(url: str, calls: int) -> tuple[float, float]:
    """A loop over the client, as one writes it first."""

    async def work() -> tuple[float, float]:
        async with openai.AsyncOpenAI(api_key="none", base_url=url, max_retries=0) as client:

            async def ask(i: int) -> object:
                message = {"role": "user", "content": f"{i} {PROMPT}"}
                return await client.chat.completions.create(
                    model="m", messages=[message], max_tokens=9
                )

            await timed(ask, IN_FLIGHT)  # connections
            return await timed(ask, calls)

    return asyncio.run(work())


def ours(url: str, calls: int) -> tuple[float, float]:
    """The judge with its memory, ledger and budget."""
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "j.sqlite") as store:
        judge = RecordedJudge(
            EndpointJudge(url, "m", concurrency=IN_FLIGHT),
            store,
            ledger=Ledger(),
            budget=Budget(tokens=10**9),
        )

        def ask(i: int) -> Awaitable[object]:
            message = {"role": "user", "content": f"{i} {PROMPT}"}
            return judge.complete(Call("scoring", (message,), max_tokens=9))

        async def work() -> tuple[float, float]:
            await timed(lambda i: ask(-1 - i), IN_FLIGHT)
            return await timed(ask, calls)

        return run(work())


def measure(calls: int, rounds: int, latency: float) -> dict[str, float]:
    """Medians over the rounds: throughputs, CPU a call, and their ratios."""
    argv = [sys.executable, "-m", "tests.edges.loopback", "--latency", str(latency)]
    server = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    try:
        url = server.stdout.readline().strip()
        pairs = [(bare(url, calls), ours(url, calls)) for _ in range(rounds)]
    finally:
        server.terminate()
        server.wait()
    ideal = IN_FLIGHT / latency
    med = statistics.median
    return {
        "bare_calls_per_s": med(calls / b[0] for b, _ in pairs),
        "ours_calls_per_s": med(calls / o[0] for _, o in pairs),
        "bare_of_ideal": med(calls / b[0] / ideal for b, _ in pairs),
        "bare_cpu_ms": med(1000 * b[1] / calls for b, _ in pairs),
        "ours_cpu_ms": med(1000 * o[1] / calls for _, o in pairs),
        "throughput_ratio": med(b[0] / o[0] for b, o in pairs),
        "cpu_ratio": med(o[1] / b[1] for b, o in pairs),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=640)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--latency", type=float, default=0.5)
    for name, value in measure(**vars(parser.parse_args())).items():
        print(f"{name:18} {value:9.3f}")
    print("wanted: throughput_ratio >= 0.95, cpu_ratio <= 1.3")


if __name__ == "__main__":
    main()
