"""Metrics: success rates, intervals, agreement of judges, votes, overlap and diagnostics.

numpy and scipy only; ``krippendorff`` is imported by the one function that needs it.
"""

from .agreement import (
    Agreement,
    agreement,
    cohen_kappa,
    drift,
    krippendorff_alpha,
    krippendorff_pair,
)
from .correction import (
    ConflictShares,
    GradientVariance,
    completed_length,
    conflict_shares,
    gradient_variance,
    push_second_moment,
)
from .diagnostics import (
    CitationCounts,
    InertShare,
    LabelShares,
    citations_per_step,
    criterion_pass_rates,
    inert_share,
    label_shares,
    mean_by_step_type,
    pass_fraction,
    q_spread,
)
from .intervals import (
    Interval,
    bootstrap_clusters,
    checkpoint_spread,
    cluster_bootstrap,
    paired_difference,
    t_interval,
)
from .overlap import Overlap, overlap, turnover
from .passk import (
    pass_at_k,
    pass_at_k_tasks,
    pass_hat_k,
    pass_hat_k_tasks,
    retention,
    scenario_success,
)
from .votes import VoteRates, all_err, error_correlation, unanimity_rates

__all__ = [
    "Agreement",
    "CitationCounts",
    "ConflictShares",
    "GradientVariance",
    "InertShare",
    "Interval",
    "LabelShares",
    "Overlap",
    "VoteRates",
    "agreement",
    "all_err",
    "bootstrap_clusters",
    "checkpoint_spread",
    "citations_per_step",
    "cluster_bootstrap",
    "cohen_kappa",
    "completed_length",
    "conflict_shares",
    "criterion_pass_rates",
    "drift",
    "error_correlation",
    "gradient_variance",
    "inert_share",
    "krippendorff_alpha",
    "krippendorff_pair",
    "label_shares",
    "mean_by_step_type",
    "overlap",
    "paired_difference",
    "pass_at_k",
    "pass_at_k_tasks",
    "pass_fraction",
    "pass_hat_k",
    "pass_hat_k_tasks",
    "push_second_moment",
    "q_spread",
    "retention",
    "scenario_success",
    "t_interval",
    "turnover",
    "unanimity_rates",
]
