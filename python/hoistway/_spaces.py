"""What tune searches: the settings of a scheduler with ranges in which a search makes sense."""

import re
from collections import namedtuple

from . import _hoistway

# A setting that is searched, from low to high, in its own unit. log: equal factors are equal steps.
Axis = namedtuple("Axis", "name unit default low high log")

# A range reaches this many times the default, within what the setting allows.
TIMES = 100
# Where the default is 0 (off, or by the drive) it says nothing about the range: up to so many units.
FROM_ZERO = 1_000_000
# From this factor between the ends steps are factors.
DECADES = 100

ALIAS = re.compile(r"^The same in ")
# A quirk by its number, or a version of the kernel.
VERSION = re.compile(r"\bQ\d+\b|\b\d+\.\d+\b|\bkernel")
REPORTS = re.compile(r"^1: figures|^Writing 1 forgets")


def space_of(scheduler, chosen=None):
    """The axes of a scheduler, and what is left out: name -> reason.

    chosen: names, or name -> (low, high); those are searched whatever they are.
    """
    rows = {row["setting"]: row for row in _hoistway.settings(scheduler).rows()}
    if chosen is None:
        skipped = {name: reason for name, row in rows.items() if (reason := reason_against(row))}
        axes = [axis(row) for name, row in rows.items() if name not in skipped]
    else:
        chosen = dict.fromkeys(chosen) if not isinstance(chosen, dict) else chosen
        for name in chosen:
            if name not in rows:
                raise ValueError(f"settings: {scheduler} has no setting '{name}'; there are: {', '.join(rows)}")
        axes = [axis(rows[name], limits) for name, limits in chosen.items()]
        skipped = {name: "not asked for" for name in rows if name not in chosen}
    if not axes:
        raise ValueError(f"{scheduler} has no setting to search" + ("; name some with settings=" if rows else ""))
    return axes, skipped


def reason_against(row):
    """Why a setting is not searched unless it is asked for; None: it is."""
    about = row["about"]
    if row["unit"] == "choice":
        return "a choice between rules"
    if ALIAS.search(about):
        return "another name of a setting"
    if row["unit"] == "switch" and VERSION.search(about):
        return "a rule of a version of the kernel, or the mending of one"
    if REPORTS.search(about):
        return "decides nothing"
    return None


def axis(row, limits=None):
    low, high = row["min"], row["max"]
    if limits is not None:
        low, high = limits
        if not row["min"] <= low < high <= row["max"]:
            raise ValueError(f"settings: {row['setting']} from {low} to {high} is not within {row['min']}..={row['max']}")
    elif row["unit"] not in ("switch", "choice"):
        high = min(high, TIMES * row["default"] or FROM_ZERO)
    log = row["unit"] not in ("switch", "choice") and high / max(low, 1) >= DECADES
    return Axis(row["setting"], row["unit"], row["default"], low, high, log)


def distributions(axes):
    """Optuna's, of whole numbers. An axis of logarithms begins at 1: one from 0 is moved by 1."""
    from optuna.distributions import IntDistribution

    moved = [(a, shift(a)) for a in axes]
    return {a.name: IntDistribution(a.low + by, a.high + by, log=a.log) for a, by in moved}


def shift(axis):
    return 1 if axis.log and axis.low == 0 else 0


def params_of(axes, values):
    """Optuna's parameters of values."""
    return {a.name: values[a.name] + shift(a) for a in axes}


def values_of(axes, params):
    """Values of Optuna's parameters."""
    return {a.name: params[a.name] - shift(a) for a in axes}


def config_of(scheduler, axes, values):
    """A configuration: what differs from the defaults."""
    differ = [f"{a.name}={values[a.name]}" for a in axes if values[a.name] != a.default]
    return f"{scheduler}{{{','.join(differ)}}}" if differ else scheduler
