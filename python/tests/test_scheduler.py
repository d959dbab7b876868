"""Schedulers that are classes."""

import itertools
import unittest
from pathlib import Path

import hoistway as hw

DEEP = Path(__file__).with_name("deep.toml")
NUMBER = itertools.count(1)


def name():
    """A name that no other test has."""
    return f"test-{next(NUMBER)}"


def run(config, **more):
    given = dict(drives="plextor-px-256m5s", workloads="readers", reps=1, duration="100ms")
    return hw.run("latency-2019", config, **{**given, **more})


class Fifo:
    """First come, first served."""

    def __init__(self):
        self.waiting = []

    def insert(self, now, request):
        self.waiting.insert(0 if request.requeued else len(self.waiting), request.id)

    def dispatch(self, now):
        return self.waiting.pop(0) if self.waiting else None

    def gone(self, now, id):
        self.waiting.remove(id)


@hw.scheduler("python-turns", tunables={"quantum": (4, 1, 1000, "Requests of a process in its turn.")})
class Turns:
    """A queue per process, some requests of each in turn; the twin of templates/scheduler."""

    def __init__(self):
        self.queues, self.turn, self.served, self.returned = [], 0, 0, []
        self.of = {}

    def insert(self, now, request):
        if request.requeued:
            return self.returned.insert(0, request.id)
        if request.process not in self.of:
            self.of[request.process] = len(self.queues)
            self.queues.append([])
        self.queues[self.of[request.process]].append(request.id)

    def next(self):
        self.served, self.turn = 0, (self.turn + 1) % len(self.queues)

    def dispatch(self, now):
        if self.returned:
            return self.returned.pop(0)
        if self.served >= self.quantum:
            self.next()
        while not self.queues[self.turn]:
            self.next()
        self.served += 1
        return self.queues[self.turn].pop(0)

    def gone(self, now, id):
        for queue in [self.returned, *self.queues]:
            if id in queue:
                queue.remove(id)


class Runs(unittest.TestCase):
    def test_beside_those_in_rust(self):
        result = hw.compare(
            "latency-2019", ["python-turns{quantum=2}", "bfq"], drives="plextor-px-256m5s",
            workloads=["readers", "writers"], reps=2, duration="100ms",
        )
        self.assertEqual(result.configs, ["python-turns{quantum=2}", "bfq"])
        again = run("python-turns{quantum=2}", reps=2)
        of = lambda r: [x["digest"] for x in r.runs.rows() if "turns" in x["config"] and x["workload"] == "readers"]
        self.assertEqual(of(result), of(again))
        self.assertIn("python-turns", hw.schedulers()["name"])
        (setting,) = hw.settings("python-turns").rows()
        self.assertEqual((setting["setting"], setting["default"], setting["max"]), ("quantum", 4, 1000))

    def test_settings_decide(self):
        deep = lambda quantum: hw.run(DEEP, f"python-turns{{quantum={quantum}}}", drives="plextor-px-256m5s")
        self.assertNotEqual(deep(1).runs["digest"], deep(50).runs["digest"])

    def test_digests_for_the_twin(self):
        """Printed for the test in Rust that started this one."""
        for row in hw.run(DEEP, "python-turns{quantum=3}").runs.rows():
            print("digest", row["drive"], row["digest"])

    def test_on_several_threads(self):
        one, two = (run("python-turns", reps=4, jobs=jobs).csv() for jobs in (1, 3))
        self.assertEqual(one, two)

    def test_what_it_is_told(self):
        told = []
        here = name()

        @hw.scheduler(here, tunables={"a": (1, 0, 5), "b": (2, 0, 5)})
        class Told(Fifo):
            def __init__(self):
                super().__init__()
                told.append((self.a, self.b))

            def insert(self, now, request):
                super().insert(now, request)
                told.append(request)

            def done(self, now, id):
                told.append(id)

            def grown(self, now, request):
                assert request.id in self.waiting

        run(f"{here}{{b=5}}", workloads="writers")
        self.assertEqual(told[0], (1, 5))
        requests = [r for r in told if isinstance(r, hw.Request)]
        self.assertEqual([r.id for r in requests], list(range(1, len(requests) + 1)))
        self.assertEqual({r.op for r in requests}, {"read", "write"})
        self.assertTrue(all(r.sectors % 8 == 0 and r.sectors > 0 for r in requests))
        self.assertRegex(repr(requests[0]), r"<hoistway.Request 1: \w+ of process \d+, sector \d+ \+ \d+>")
        done = [r for r in told if isinstance(r, int)]
        self.assertLessEqual(set(done), {r.id for r in requests})
        self.assertGreater(len(done), len(requests) // 2)


class Wrong(unittest.TestCase):
    def ends(self, text, **methods):
        here = name()
        hw.scheduler(here)(type("Bad", (Fifo,), methods))
        with self.assertRaisesRegex(RuntimeError, text) as raised:
            run(here)
        message = str(raised.exception)
        self.assertIn(f"plextor-px-256m5s/{here}/readers", message)
        self.assertNotIn("error in hoistway", message)
        # The process goes on.
        self.assertEqual(len(run("none").runs), 1)

    def test_exceptions_end_the_cell(self):
        def dispatch(self, now):
            return 1 / 0

        self.ends(r"dispatch: ZeroDivisionError: division by zero \(.*test_scheduler.py:\d+\)", dispatch=dispatch)
        self.ends("insert: TypeError", insert=lambda self, now: None)

        def init(self):
            raise LookupError("no")

        self.ends("__init__: LookupError: no", __init__=init)

    def test_answers_are_checked(self):
        self.ends("dispatch: answered 123456789, and no such request waits", dispatch=lambda s, n: 123456789)
        self.ends("dispatch: TypeError: answered x, which is neither", dispatch=lambda s, n: "x")

        def twice(self, now):
            return self.waiting[0]

        self.ends("dispatch: answered 1, and no such request waits", dispatch=twice)

    def test_one_that_never_answers_starves_and_ends(self):
        here = name()
        hw.scheduler(here)(type("Never", (Fifo,), {"dispatch": lambda self, now: None}))
        result = run(here)
        moved = [r["value"] for r in result.metrics.rows() if r["metric"] == "throughput_total"]
        self.assertEqual(set(moved), {0.0})

    def test_registration(self):
        for bad, error, text in [
            (lambda: hw.scheduler("bfq")(Fifo), ValueError, "there is a configuration of that name"),
            (lambda: hw.scheduler("My{x}")(Fifo), ValueError, "small letters, digits"),
            (lambda: hw.scheduler(name())(object), TypeError, "no method 'insert'"),
            (lambda: hw.scheduler(name(), tunables={"a": (9, 1, 5)})(Fifo), ValueError, "a = 9 is outside 1..=5"),
        ]:
            with self.assertRaisesRegex(error, text):
                bad()
        here = name()
        hw.scheduler(here, tunables={"a": (1, 1, 5)})(Fifo)
        with self.assertRaisesRegex(ValueError, "a = 9 is outside 1..=5"):
            run(f"{here}{{a=9}}")
        # Defined again, as a cell of a notebook is.
        hw.scheduler(here)(type("Worse", (Fifo,), {"dispatch": lambda s, n: 0}))
        with self.assertRaisesRegex(RuntimeError, "answered 0"):
            run(here)


if __name__ == "__main__":
    unittest.main()
