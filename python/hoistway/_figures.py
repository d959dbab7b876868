"""Goals, conditions and intervals of tune."""

import math
import re
from collections import namedtuple

GOAL = re.compile(r"(min|max)\s+(\S+)")
CONDITION = re.compile(r"(\S+)\s*(>=|<=)\s*(\S+)")

Goal = namedtuple("Goal", "sense metric")
Condition = namedtuple("Condition", "metric relation limit")
# A figure of a configuration with its 99 % interval; low and high are None where there is none.
Figure = namedtuple("Figure", "value low high")


def goal_of(text):
    match = GOAL.fullmatch(text.strip())
    if not match:
        raise ValueError(f"goal: '{text}' is not 'min METRIC' or 'max METRIC', such as 'min latency_p99'")
    return Goal(*match.groups())


def conditions_of(texts):
    texts = [texts] if isinstance(texts, str) else list(texts)
    return [condition_of(text) for text in texts] or conditions_of([""])


def condition_of(text):
    match = CONDITION.fullmatch(text.strip())
    try:
        metric, relation, limit = match.groups()
        return Condition(metric, relation, float(limit))
    except (AttributeError, ValueError):
        example = "throughput_total_ratio >= 0.95"
        raise ValueError(f"subject_to: '{text}' is not 'METRIC >= NUMBER' or 'METRIC <= NUMBER', such as '{example}'") from None


def lack(condition, value):
    """By how much a value misses the limit; 0 or less: it is met."""
    return condition.limit - value if condition.relation == ">=" else value - condition.limit


def worst(condition, values):
    """The value that is nearest to breaking the condition."""
    return min(values) if condition.relation == ">=" else max(values)


def base(metric):
    """What is measured for a metric: a ratio is of two configurations."""
    return metric.removesuffix("_ratio")


def taken(rows, metrics):
    """Of the rows of a cell: metric -> (value over all repetitions, values of the repetitions). None: not known, or a bound."""
    found = {}
    for metric in metrics:
        own = [r for r in rows if r["metric"] == metric]
        if not own:
            there = ", ".join(sorted({r["metric"] for r in rows if not r["metric"].endswith("_ci99")}))
            raise ValueError(f"there is no metric '{metric}' of {rows[0]['experiment']}; there are: {there}")
        known = [(r["rep"], r["value"] if r["bound"] == "" else None) for r in own]
        whole = [value for rep, value in known if rep is None]
        found[metric] = (whole[0] if whole else None, [value for rep, value in sorted(k for k in known if k[0] is not None)])
    return found


def figure(metric, found, reference):
    """The figure of a metric: found and reference are taken() of two configurations with the same seeds."""
    if metric in found:
        value, each = found[metric]
        return Figure(value, *mean_interval(each))
    ours, theirs = found[base(metric)], reference[base(metric)]
    return ratio(ours, theirs)


def ratio(ours, theirs):
    """As the lab: the geometric mean of the ratios of runs with the same seed; of the means if a run has the value 0."""
    if None in ours[1] or None in theirs[1] or not ours[1]:
        # Percentiles of single runs may be missing where those of all samples together are not.
        if ours[0] is None or not theirs[0]:
            return Figure(None, None, None)
        return Figure(ours[0] / theirs[0], None, None)
    if min(ours[1] + theirs[1]) <= 0:
        below = math.fsum(theirs[1])
        return Figure(math.fsum(ours[1]) / below if below else None, None, None)
    logs = [math.log(a / b) for a, b in zip(ours[1], theirs[1], strict=True)]
    low, high = mean_interval(logs)
    value = math.exp(math.fsum(logs) / len(logs))
    return Figure(value, None if low is None else math.exp(low), None if high is None else math.exp(high))


def mean_interval(values):
    """The 99 % Student interval of a mean; (None, None) with fewer than three values."""
    n = len(values)
    if n < 3 or None in values:
        return None, None
    mean = math.fsum(values) / n
    half = student(n - 1) * math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1) / n)
    return mean - half, mean + half


def student(freedom, level=0.99):
    """The half width of the interval in standard errors: the t between whose negative and itself lies level."""
    low, high = 0.0, 1e3
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle, freedom) < level else (low, middle)
    return high


def within(t, freedom):
    """Probability that Student's t lies between -t and t: the finite series of Abramowitz and Stegun 26.7.3 and 26.7.4."""
    angle = math.atan(t / math.sqrt(freedom))
    cos2 = math.cos(angle) ** 2
    odd = freedom % 2
    term = math.cos(angle) if odd else 1.0
    total = 0.0
    for k in range(1 + odd, freedom, 2):
        total += term
        term *= cos2 * k / (k + 1)
    if odd:
        return 2 / math.pi * (angle + math.sin(angle) * total)
    return math.sin(angle) * total


def frontier(points, goal, condition):
    """Indices of the points (goal, figure) that no other one dominates, by figure."""
    up, right = (1 if goal.sense == "min" else -1), (-1 if condition.relation == ">=" else 1)
    ordered = sorted(range(len(points)), key=lambda i: (up * points[i][0], right * points[i][1], i))
    found, best = [], math.inf
    for index in ordered:
        if right * points[index][1] < best:
            best = right * points[index][1]
            found.append(index)
    return sorted(found, key=lambda i: points[i][1])
