"""Expected loss reduction against H alone and against the dense evaluation in NumPy/SciPy.

One evaluation is one (candidate, anchor, label, outcome). "entropy" evaluates H on as many points;
"dense", with --against dense, follows Eqs. 2 to 4 with scipy.special.betainc on --dense-candidates
of the candidates, its time scaled to all of them.

Tried for the kernel on two busy CPU cores, as processor time per evaluation at P=188 and P=1878
(two idle cores need half of it), where H alone takes 2.2 to 2.5 ns:
  differences of H, the power by exp and log   3.4-3.9, 2.7-2.9 ns; gains below 1e-6 are noise
  curvature by a rational function of r        1.8-2.1, 1.4-1.8 ns; relative error 2e-6 at any size
  ... both outcomes over one denominator       1.7-1.8, 1.2-1.4 ns; ties the outcomes together
  ... of the root of r (kept)                  two thirds to four fifths of that of r, in one run
  ... four labels in one loop step             1.6, 2.6 ns
  ... member sum fused in, without a matmul    9.9, 9.8 ns: the fusion repeats it at every use
"""

import argparse
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from crabjax.benchmarks.common import Row, measure, peak_extra_megabytes
from crabjax.scoring import BetaRule, beta_entropy, expected_loss_reduction


def run(arguments: argparse.Namespace) -> list[Row]:
    """H alone, the kernel and, if asked for, the dense evaluation."""
    rule = BetaRule(arguments.alpha, arguments.beta)
    candidates, anchors = ensemble_probabilities(
        arguments.members, arguments.candidates, arguments.anchors, arguments.labels
    )
    evaluations = 2 * arguments.candidates * arguments.anchors * arguments.labels
    rows = [
        _entropy_row(rule, evaluations, arguments),
        _kernel_row(candidates, anchors, rule, evaluations, arguments),
    ]
    if arguments.against == "dense":
        rows.append(_dense_row(candidates, anchors, rule, evaluations, arguments))
    kernel = rows[1]["seconds"]
    return [{**row, "of kernel": row["seconds"] / kernel} for row in rows]


def ensemble_probabilities(
    members: int, candidates: int, anchors: int, labels: int
) -> tuple[np.ndarray, np.ndarray]:
    """Members that lean towards 0, as on rare labels, and disagree by about one logit.

    Returns:
      float32 [E, X, K] and [E, P, K].
    """
    random = np.random.default_rng(0)
    rows = candidates + anchors
    shared = random.normal(-2, 2, (1, rows, labels)).astype(np.float32)
    own = random.standard_normal((members, rows, labels), np.float32)
    probs = special.expit(shared + own)
    return probs[:, :candidates], probs[:, candidates:]


def _row(name: str, seconds: float, evaluations: int, arguments, **rest: Any) -> Row:
    return {
        "what": name,
        "candidates": arguments.candidates,
        "anchors": arguments.anchors,
        "labels": arguments.labels,
        "members": arguments.members,
        "seconds": seconds,
        "ns/evaluation": 1e9 * seconds / evaluations,
        "spread": rest.get("spread"),
        "compile s": rest.get("compile"),
        "peak extra MB": rest.get("memory"),
    }


def _entropy_row(rule: BetaRule, evaluations: int, arguments) -> Row:
    """H on a block that stays in cache, as often as it takes: memory traffic is not H's cost."""
    block = 1 << 16
    rounds = -(-evaluations // block)
    points = jnp.asarray(np.random.default_rng(1).random(block, np.float32))
    # Each pass starts from the last result, so that none can be left out.
    one_pass = lambda q: jnp.clip(q + beta_entropy(q, rule) * 1e-3, 0, 1)
    evaluate = jax.jit(lambda q: jax.lax.fori_loop(0, rounds, lambda _, q: one_pass(q), q))
    timing = measure(evaluate, points, repeats=arguments.repeats)
    return _row("entropy", timing.median, evaluations, arguments, **timing._asdict())


def _kernel_row(candidates, anchors, rule, evaluations: int, arguments) -> Row:
    score = lambda: expected_loss_reduction(
        candidates, anchors, rule, chunk_size=arguments.chunk_size
    )
    timing = measure(score, repeats=arguments.repeats)
    rest = timing._asdict() | {"memory": peak_extra_megabytes(score)}
    return _row("kernel", timing.median, evaluations, arguments, **rest)


def _dense_row(candidates, anchors, rule, evaluations: int, arguments) -> Row:
    some = candidates[:, : arguments.dense_candidates]
    share = some.shape[1] / candidates.shape[1]
    timing = measure(dense_expected_loss_reduction, some, anchors, rule, repeats=1)
    return _row("dense", timing.median / share, evaluations, arguments)


def dense_expected_loss_reduction(
    candidates: np.ndarray, anchors: np.ndarray, rule: BetaRule
) -> np.ndarray:
    """Eqs. 2 to 4 as they stand, all pairs and labels at once, for alpha, beta > 0.

    Args:
      candidates: [E, X, K].
      anchors: [E, P, K].
      rule: the scoring rule.

    Returns:
      [X, P].
    """
    gain = _dense_entropy(anchors.mean(axis=0), rule)[None]  # [1, P, K]
    for outcome in (candidates, 1 - candidates):
        posterior = outcome / outcome.sum(axis=0)
        predictive = np.einsum("exk,epk->xpk", posterior, anchors)
        gain = gain - outcome.mean(axis=0)[:, None] * _dense_entropy(predictive, rule)
    return gain.sum(axis=2)


def _dense_entropy(q: np.ndarray, rule: BetaRule) -> np.ndarray:
    alpha, beta = rule.alpha, rule.beta
    q = np.clip(q.astype(np.float64), 0, 1)
    if_one = special.beta(alpha, beta + 1) * special.betainc(beta + 1, alpha, 1 - q)
    if_zero = special.beta(alpha + 1, beta) * special.betainc(alpha + 1, beta, q)
    return q * if_one + (1 - q) * if_zero
