"""Terminal-plain credit: the last step keeps the plain advantage, the others share the rest."""

from __future__ import annotations

import numpy as np

from .batch import CreditBatch
from .common import Array, last_live, quality


def terminal_plain(batch: CreditBatch, *, ddof: int = 1, eps: float = 1e-6) -> Array:
    """Return DRACO's credit among all steps but the last, which keeps A.

        a_last = A;   w_j = Q_j if A >= 0 else 1 - Q_j over the others
        a_j = A (N - n_last) w_j / (n_j sum_k w_k);   a_j = A where no other is cited or all w = 0

    The closing step takes the blame for everything that was left out, in winners and losers
    alike; with weights >= 0 it is pushed down always, and a policy unlearns to finish.

    Laws: sum_j n_j a_j = A N; a_j is 0 or has A's sign; the last step's credit does not depend
    on any verdict or citation beyond A.

    Args:
        batch: tokens_GS, pass_GS, fail_GS, and the advantage of ``grpo``.
        ddof, eps: as ``grpo``.
    Returns:
        (G, S) credit per token, 0 on padding.
    Raises:
        CreditError: a field is missing.
    Reference: ours; ``draco(..., terminal="plain")`` is the same by another way.

    >>> b = CreditBatch([[20, 40, 40]], advantage_G=[1.0], pass_GS=[[1, 1, 0]], fail_GS=[[0, 1, 5]])
    >>> terminal_plain(b).tolist()
    [[2.0, 0.5, 1.0]]
    """
    p, f = batch.need("pass_GS", "terminal_plain"), batch.need("fail_GS", "terminal_plain")
    A = batch.advantage(rule="terminal_plain", ddof=ddof, eps=eps)[:, None]
    n, live = batch.tokens_GS, batch.live_GS
    others = live & ~last_live(live)
    Q, _ = quality(p, f, others)
    w = np.where(others, np.where(A >= 0, Q, 1.0 - Q), 0.0)
    total = np.nan_to_num(w.sum(axis=1))[:, None]
    rest = (n * others).sum(axis=1)[:, None]
    spread = others & (total > 0)
    mult = np.where(spread, rest * w / np.where(spread, n * total, 1.0), 1.0)
    return np.where(live, A * mult, 0.0) + 0.0
