"""Tuning: Optuna searches the settings of a scheduler; what it finds is run again with seeds and drives it never saw."""

import contextlib
import hashlib
import json
import math
import os
import warnings

from . import _hoistway
from . import _figures as fig
from ._executors import opened
from ._found import Tuning
from ._grids import Grid, ask, check, class_of, grid, is_path, name_of, names
from ._spaces import config_of, distributions, params_of, space_of, values_of
from ._sweeps import build, digest

# What a trial is worth to the search whose goal is not known: so many times the defaults'.
UNKNOWN = 10
# So many configurations of the frontier run with held-out seeds and drives.
SHOWN = 6
# So many drives are held out when none are named.
DRIVES = 3


def tune(
    scheduler,
    *,
    goal="min latency_p99",
    subject_to="throughput_total_ratio >= 0.95",
    experiment="latency-2019",
    drives=None,
    workloads=None,
    settings=None,
    held_out=5,
    held_out_drives=None,
    reference="none",
    trials=60,
    reps=3,
    duration=None,
    seed=1,
    batch=8,
    storage=None,
    executor=None,
    workers=None,
    progress=None,
):
    """Searches the settings of a scheduler for the best goal that meets the conditions, by Optuna (TPE).

    goal: "min METRIC" or "max METRIC". subject_to: "METRIC >= NUMBER" or "<=", or several. METRIC_ratio is over the
    configuration reference, run by run with the same seed. With several drives or workloads the goal is the geometric mean
    of its ratios to the defaults, and conditions hold for each.
    experiment, drives, workloads, duration: as for compare. reps: repetitions of a trial, all trials with the same seeds.
    settings: names, or name -> (low, high) in the setting's unit [amounts and switches, up to 100 times the default; skipped
    says what is left out, and why].
    held_out: seeds that no trial had, with which defaults, best and frontier run again; so they do on held_out_drives
    [three others of the same model as the first drive].
    trials: how many, with the defaults as the first. batch: trials that are proposed at a time. executor, workers: as for sweep.
    storage: a file that keeps the trials: SQLite if it ends in .db or .sqlite, else a journal. The same call goes on from
    there, and does what one call would have done; so it may with more trials.
    progress: called with (part of the work from 0 to 1, trials over, trials in all).

    Deterministic for seed and batch, whatever the executor. Needs optuna 5 and pyarrow.
    ValueError: wrong usage, a storage of another search, or a goal that the defaults do not have.
    """
    need_optuna()
    for name, given, least in [("held_out", held_out, 1), ("trials", trials, 1), ("reps", reps, 1), ("batch", batch, 1)]:
        if not isinstance(given, int) or given < least:
            raise ValueError(f"{name}: {given!r} is not a number from {least}")
    axes, skipped = space_of(scheduler, settings)
    base = grid(
        experiment, [scheduler], drives=drives, workloads=workloads, seeds=seed, reps=reps, duration=duration
    )
    others = held_out_of(base, held_out_drives)
    cells = Cells(base, reference, fig.goal_of(goal), fig.conditions_of(subject_to))
    for cell in [*base, *(base[0]._replace(config=reference, drive=d) for d in {c.drive for c in base}), *others]:
        check(cell)
    elsewhere = storage or executor or workers
    if elsewhere and (name := class_of(base[0])):
        raise ValueError(f"scheduler '{name}' is a class, which only this process knows: leave out storage, executor and workers")
    with opened(executor, workers) as outcomes, quiet():
        search = Search(cells, axes, scheduler, seed, batch, outcomes)
        rows = search.run(storage, trials, progress or (lambda part, done, total: None))
        again = search.again(rows, held_out, others)
    found = Tuning(cells, axes, skipped, rows, again, dict(scheduler=scheduler, seed=seed, held_out=held_out))
    if progress:
        progress(1.0, trials, trials)
    return found


def held_out_of(base, given):
    """The cells of the drives that are held out, in place of those of the first drive."""
    tuned = {cell.drive for cell in base}
    if given is None:
        rows = {row["name"]: row for row in _hoistway.drives().rows()}
        model = rows[base[0].drive]["model"] if base[0].drive in rows else None
        given = [name for name, row in rows.items() if row["model"] == model and name not in tuned][:DRIVES]
    given = names(given, ())
    if both := tuned.intersection(given):
        raise ValueError(f"held_out_drives: {', '.join(sorted(both))} is also among drives; hold out another one")
    first = [cell for cell in base if cell.drive == base[0].drive]
    return Grid(cell._replace(drive=os.path.abspath(d) if is_path(d) else d) for d in given for cell in first)


class Cells:
    """What is asked: the cells of a configuration, the goal and the conditions."""

    def __init__(self, base, reference, goal, conditions):
        self.base, self.reference, self.goal, self.conditions = base, reference, goal, conditions
        self.wanted = [goal.metric, *(c.metric for c in conditions)]
        self.metrics = sorted({fig.base(metric) for metric in self.wanted})
        self.units = {}

    def figures(self, found, reference):
        """Of one place: the goal's, then each condition's."""
        return [fig.figure(metric, found, reference) for metric in self.wanted]


class Search:
    """Runs configurations and proposes others."""

    def __init__(self, cells, axes, scheduler, seed, batch, outcomes):
        self.cells, self.axes, self.scheduler = cells, axes, scheduler
        self.seed, self.batch, self.outcomes = seed, batch, outcomes
        self.done = {}

    def measure(self, configs, cells):
        """config -> figures of each cell of the grid, in its order. What has run is not run again."""
        wanted = [c._replace(config=config) for config in dict.fromkeys([self.cells.reference, *configs]) for c in cells]
        missing = [cell for cell in wanted if cell not in self.done]
        with contextlib.closing(self.outcomes(measured, [(cell, self.cells.metrics) for cell in missing])) as ended:
            for index, outcome in ended:
                if isinstance(outcome, Exception):
                    raise RuntimeError(f"{name_of(missing[index])}: {outcome}") from outcome
                found, units = outcome
                self.done[missing[index]] = found
                self.cells.units.update(units)

        def figures(config):
            of = [(self.done[c._replace(config=config)], self.done[c._replace(config=self.cells.reference)]) for c in cells]
            return [self.cells.figures(found, reference) for found, reference in of]

        return {config: figures(config) for config in configs}

    def run(self, storage, trials, progress):
        """The rows of the trials: dictionaries."""
        progress(0.0, 0, trials)
        self.defaults = self.measure([self.scheduler], self.cells.base)[self.scheduler]
        for cell, (goal, *_) in zip(self.cells.base, self.defaults):
            if goal.value is None or (goal.value == 0 and len(self.defaults) > 1):
                what = "0" if goal.value == 0 else "not known: too few samples, or only a bound"
                raise ValueError(
                    f"goal: {self.cells.goal.metric} of the defaults is {what} ({name_of(cell)}); "
                    "choose another one, a longer duration or more reps"
                )
        study = self.study(storage)
        while (over := len(complete(study))) < trials:
            asked = self.propose(study, trials - over)
            values = [values_of(self.axes, trial.params) for trial in asked]
            configs = [config_of(self.scheduler, self.axes, v) for v in values]
            found = self.measure(configs, self.cells.base)
            for trial, config, value in zip(asked, configs, values):
                self.tell(study, trial, self.row(config, value, found[config]))
            progress((over + len(asked)) / (trials + 1), over + len(asked), trials)
        return [{"trial": n, **t.user_attrs["row"]} for n, t in enumerate(complete(study))]

    def row(self, config, values, found):
        """A trial's objective, and the worst figure of each condition."""
        goals = [of[0].value for of in found]
        each = [[of[1 + n].value for of in found] for n in range(len(self.cells.conditions))]
        row = dict(config=config, settings=values, goal=self.objective(goals), figures=[], met=True)
        for condition, known in zip(self.cells.conditions, each):
            value = None if None in known else fig.worst(condition, known)
            row["figures"].append(value)
            row["met"] &= value is not None and fig.lack(condition, value) <= 0
        row["met"] &= row["goal"] is not None
        return row

    def objective(self, goals):
        """The goal of one place, or the geometric mean of the ratios to the defaults."""
        if None in goals:
            return None
        if len(goals) == 1:
            return goals[0]
        ratios = [goal / of[0].value for goal, of in zip(goals, self.defaults, strict=True)]
        return 0.0 if min(ratios) <= 0 else math.exp(math.fsum(map(math.log, ratios)) / len(ratios))

    def study(self, storage):
        """The trials so far. What decides them stands in the study: another search does not go on with them."""
        import optuna

        direction = "minimize" if self.cells.goal.sense == "min" else "maximize"
        kept = storage_of(storage)
        study = optuna.create_study(storage=kept, study_name="hoistway", direction=direction, load_if_exists=True)
        question = self.question()
        asked = study.user_attrs.get("question")
        if asked is None and not study.get_trials(deepcopy=False):
            study.set_user_attr("question", question)
            study.enqueue_trial(params_of(self.axes, {a.name: a.default for a in self.axes}))
        elif asked != question:
            differ = [key for key in question if (asked or {}).get(key) != question[key]]
            raise ValueError(f"storage: {storage} holds another search ({', '.join(differ)} differ); name another file")
        return study

    def question(self):
        cells = self.cells
        places = [[c.drive, digest(c.drive) if is_path(c.drive) else None, c.workload, c.reps, c.duration] for c in cells.base]
        text = cells.base[0].experiment.toml
        question = dict(
            scheduler=self.scheduler, goal=cells.goal, subject_to=cells.conditions, settings=self.axes, seed=self.seed,
            batch=self.batch, reference=cells.reference, places=places,
            experiment=hashlib.sha256(text.encode()).hexdigest(), build=[_hoistway.__version__, build()],
        )  # fmt: skip
        return json.loads(json.dumps(question))

    def propose(self, study, room):
        """The trials of a batch. Those that were asked for, but not told, are of a call that was ended: they come first."""
        import optuna
        from optuna.trial import TrialState

        space = distributions(self.axes)
        asked = []
        for frozen in study.get_trials(states=(TrialState.RUNNING,)):
            trial = optuna.trial.Trial(study, frozen._trial_id)
            if set(trial.params) == set(space):
                asked.append(trial)
            else:
                study.tell(trial, state=TrialState.FAIL)
        over = len(complete(study))
        end = min((over // self.batch + 1) * self.batch - over, room)
        while len(asked) < end:
            # A seed for each trial: proposals do not depend on how often the search was ended and went on.
            number = over + len(asked)
            seed = int.from_bytes(hashlib.sha256(f"{self.seed} {number}".encode()).digest()[:4], "big")
            study.sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
            asked.append(study.ask(space))
        return asked[:room]

    def tell(self, study, trial, row):
        goal = row["goal"]
        trial.set_user_attr("row", row)
        trial.set_constraint("known", 0.0 if goal is not None else 1.0)
        for condition, value in zip(self.cells.conditions, row["figures"]):
            # Not known is worse than anything measured, and still a number.
            trial.set_constraint(condition.metric + condition.relation, 1e9 if value is None else fig.lack(condition, value))
        if goal is None:
            usual = self.objective([of[0].value for of in self.defaults])
            goal = usual * UNKNOWN if self.cells.goal.sense == "min" else usual / UNKNOWN
        study.tell(trial, goal)

    def again(self, rows, held_out, others):
        """Defaults, best and the frontier with held-out seeds, then on held-out drives."""
        best, at_defaults, shown = chosen(rows, self.cells)
        base = self.cells.base
        later = base[0].seed + base[0].reps
        configs = list(dict.fromkeys([self.scheduler, *(rows[n]["config"] for n in [best, at_defaults, *shown])]))
        held = []
        for kind, cells in (("seeds", base), ("drives", others)):
            cells = [cell._replace(seed=later, reps=held_out) for cell in cells]
            found = self.measure(configs, cells) if cells else {}
            for config in found:
                for cell, figures in zip(cells, found[config]):
                    held.append((kind, cell, config, figures, self.over_defaults(cell, config)))
        return held

    def over_defaults(self, cell, config):
        """The goal's measured metric over that of the defaults."""
        metric = fig.base(self.cells.goal.metric)
        ours, theirs = (self.done[cell._replace(config=c)][metric] for c in (config, self.scheduler))
        return fig.ratio(ours, theirs)


def chosen(rows, cells):
    """Rows of the trials: the best, the frontier's with the best goal at the figure of the defaults, and those to be shown."""
    up = 1 if cells.goal.sense == "min" else -1
    known = [n for n, row in enumerate(rows) if row["goal"] is not None and None not in row["figures"]]

    def miss(n):
        return max(fig.lack(c, v) for c, v in zip(cells.conditions, rows[n]["figures"]))

    met = [n for n in known if rows[n]["met"]]
    best = min(met, key=lambda n: (up * rows[n]["goal"], n)) if met else min(known, key=lambda n: (miss(n), n), default=0)
    first = cells.conditions[0]
    front = [known[i] for i in fig.frontier([(rows[n]["goal"], rows[n]["figures"][0]) for n in known], cells.goal, first)]
    if rows[0]["figures"][0] is None:
        return best, 0, front[:SHOWN]
    least = first._replace(limit=rows[0]["figures"][0])
    as_good = [n for n in front if fig.lack(least, rows[n]["figures"][0]) <= 0]
    at_defaults = min(as_good, key=lambda n: (up * rows[n]["goal"], n), default=0)
    step = max(1, len(front) - 1) / max(1, min(SHOWN, len(front)) - 1)
    return best, at_defaults, [front[round(i * step)] for i in range(min(SHOWN, len(front)))]


def measured(task):
    """One cell, wherever it runs: what is known of the metrics, and their units."""
    cell, metrics = task
    with warnings.catch_warnings():
        # They were told when the cells were checked.
        warnings.simplefilter("ignore")
        rows = ask(cell, jobs=1).metrics.rows()
    return fig.taken(rows, metrics), {r["metric"]: r["unit"] for r in rows if r["metric"] in metrics}


def complete(study):
    from optuna.trial import TrialState

    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))


def storage_of(path):
    if path is None:
        return None
    path = os.path.abspath(os.fspath(path))
    if path.endswith((".db", ".sqlite", ".sqlite3")):
        return f"sqlite:///{path}"
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    return JournalStorage(JournalFileBackend(path))


@contextlib.contextmanager
def quiet():
    """Optuna says on standard error that it began, and that what is used here is new or told twice."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="optuna")
            warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
            warnings.filterwarnings("ignore", message="The constraint value is ignored")
            yield
    finally:
        optuna.logging.set_verbosity(before)


def need_optuna():
    try:
        import optuna
        import pyarrow
    except ImportError as error:
        raise ImportError(f"tune needs optuna and pyarrow ({error}): pip install 'optuna>=5' pyarrow") from None
    if not hasattr(optuna.trial.Trial, "set_constraint"):
        raise ImportError(f"tune needs optuna 5, this is {optuna.__version__}: pip install 'optuna>=5'")
