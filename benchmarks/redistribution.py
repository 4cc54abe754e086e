"""How fast is DRACO's redistribution? Ratios within one run, so that the machine cancels out.

Times 10,000 rollouts of 50 steps: steps to credit, and credit to the float32 token array, against
(a) a plain Python loop over rollouts and (b) one read and one write of that token array. Exit
status 1 where a ratio is not what is wanted.

Run: python benchmarks/redistribution.py [--rollouts 10000] [--steps 50] [--tokens 40]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from time import perf_counter

import numpy as np

from rubricnb.credit import draco, per_token


def fastest(runs: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Seconds of each one's fastest run, taken in turn: the least disturbed ones."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(repeats):
        for name, run in runs.items():
            start = perf_counter()
            run()
            best[name] = min(best[name], perf_counter() - start)
    return best


def rollouts(G: int, S: int, tokens: int, seed: int) -> tuple[np.ndarray, ...]:
    """Advantage, passes, fails and lengths of ragged rollouts; a median step has one citation."""
    rng = np.random.default_rng(seed)
    n = rng.integers(1, 2 * tokens, (G, S))
    n *= np.arange(S) < rng.integers(S // 2, S + 1, (G, 1))
    p, f = rng.poisson(0.9, (2, G, S))
    return rng.normal(size=G), p, f, n


def loop(A: np.ndarray, p: np.ndarray, f: np.ndarray, n: np.ndarray) -> list[list[float]]:
    """The same credit by a plain Python loop over rollouts."""
    out = []
    for a, ps, fs, ns in zip(A.tolist(), p.tolist(), f.tolist(), n.tolist(), strict=True):
        Q = [x / (x + y) if x + y and m else None for x, y, m in zip(ps, fs, ns, strict=True)]
        cited = [q for q in Q if q is not None]
        mean = sum(cited) / len(cited) if cited else 0.0
        w = [mean if q is None else q for q in Q]
        w = [(q if a >= 0 else 1 - q) if m else 0.0 for q, m in zip(w, ns, strict=True)]
        total, N = sum(w), sum(ns)
        if not cited or total == 0:
            out.append([a if m else 0.0 for m in ns])
        else:
            out.append([a * N * q / (m * total) if m else 0.0 for q, m in zip(w, ns, strict=True)])
    return out


def measure(G: int, S: int, tokens: int, repeats: int) -> dict[str, float]:
    """The timings in milliseconds and their ratios."""
    A, p, f, n = rollouts(G, S, tokens, seed=0)
    credit = draco(A, p, f, n)
    np.testing.assert_allclose(credit, loop(A, p, f, n), rtol=1e-9, atol=1e-12)
    width = int(n.sum(axis=1).max())
    step = np.zeros((G, width), dtype=np.uint8 if S < 256 else np.int32)
    for g in range(G):
        step[g, : n[g].sum()] = np.repeat(np.arange(1, S + 1), n[g])
    array = np.ones((G, width), dtype=np.float32)
    target = np.empty_like(array)

    ms = fastest(
        {
            "draco": lambda: draco(A, p, f, n),
            "draco to tokens": lambda: per_token(draco(A, p, f, n), step, out=target),
            "python loop": lambda: loop(A, p, f, n),
            "read + write": lambda: np.copyto(target, array),
        },
        repeats,
    )
    out = {f"{name} ms": round(1e3 * t, 2) for name, t in ms.items()}
    out["token array MB"] = round(array.nbytes / 1e6, 1)
    out["loop / draco (want >= 10)"] = round(ms["python loop"] / ms["draco"], 1)
    copy = ms["read + write"]
    out["draco to tokens / read + write (want <= 6)"] = round(ms["draco to tokens"] / copy, 2)
    out["draco / read + write"] = round(ms["draco"] / copy, 2)
    return out


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rollouts", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--tokens", type=int, default=40, help="mean tokens a step")
    parser.add_argument("--repeats", type=int, default=15)
    a = parser.parse_args()
    found = measure(a.rollouts, a.steps, a.tokens, a.repeats)
    print(json.dumps(found, indent=2))
    loop_ratio, copy_ratio = (found[k] for k in found if "want" in k)
    sys.exit(int(loop_ratio < 10 or copy_ratio > 6))
