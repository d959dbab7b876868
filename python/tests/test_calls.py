"""Calls: errors in the words of the command line, progress, Ctrl-C, other threads."""

import os
import pickle
import signal
import tempfile
import threading
import time
import unittest
import warnings
from pathlib import Path

import hoistway as hw

# Whoever starts the tests in the background lets them ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)

LONG = dict(experiment="control-latency", reps=50)


class Errors(unittest.TestCase):
    def wrong(self, text, **given):
        with self.assertRaisesRegex(ValueError, text):
            hw.compare(**{"experiment": "latency-2019", **given})

    def test_names(self):
        self.wrong("no experiment 'latency-219'; did you mean 'latency-2019'", experiment="latency-219")
        self.wrong("no drive 'plextr'", drives=["plextr"])
        self.wrong("no configuration 'bqf'; did you mean 'bfq'", configs="bqf")
        self.wrong("configuration 'bfq' is given twice", configs=["bfq", "bfq"])
        self.wrong("latency-2019 has no workload 'reader'; did you mean 'readers'", workloads="reader")
        self.wrong("configuration 'bfq{slice_idle=1y}'", configs="bfq{slice_idle=1y}")

    def test_values(self):
        self.wrong("--duration: 25h must be above 0", duration="25h")
        self.wrong("--duration cannot be used with --quick", duration="1s", quick=True)
        self.wrong("--reps: 0 is not in 1..=10000", reps=0)
        self.wrong("--jobs: 0 is not in 1..=1024", jobs=0)
        self.wrong("--seed: .* is not in", seed=2**63)
        self.wrong("--faults: 'pause' has no '='", faults="pause")
        self.wrong("ask for less at a time", reps=10_000, drives=hw.drives()["name"], duration="24h")
        with self.assertRaisesRegex(ValueError, "run takes one configuration, not 'none,bfq'"):
            hw.run("latency-2019", "none,bfq")

    def test_types(self):
        with self.assertRaises(TypeError):
            hw.compare("latency-2019", drives=5)
        with self.assertRaises(TypeError):
            hw.compare("latency-2019", speed=5)

    def test_files_are_named_with_their_line(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "mine.toml")
            text = hw.Experiment.load("latency-2019").toml.replace("reps = 10", "rpes = 10")
            path.write_text(text)
            line = 1 + text[: text.index("rpes")].count("\n")
            self.wrong(f"mine.toml:{line}: unknown key 'rpes'; did you mean 'reps'", experiment=path)

    def test_a_file_without_effect_is_a_warning(self):
        with tempfile.TemporaryDirectory() as folder:
            group = Path(folder, "target")
            group.mkdir()
            Path(group, "io.latency").write_text("DEVICE target=2000\n")
            Path(group, "cgroup.procs").write_text("target\n")
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                hw.run("latency-2019", "max-none", groups=folder, quick=True, reps=1, workloads="readers")
            self.assertTrue(any("does nothing under max-none" in str(w.message) for w in told), told)


class Progress(unittest.TestCase):
    def test_progress_ends_at_the_end(self):
        told = []
        hw.compare(
            "latency-2019", reps=2, quick=True, jobs=1, progress=lambda *far: told.append(far)
        )
        self.assertEqual(told[-1], (1.0, 8, 8))
        self.assertEqual(told, sorted(told))

    def test_an_exception_in_progress_ends_the_runs(self):
        def stop(part, done, total):
            raise LookupError("enough")

        with self.assertRaisesRegex(LookupError, "enough"):
            hw.compare(**LONG, progress=stop)

    def test_other_threads_go_on(self):
        ticks, over = [], threading.Event()

        def count():
            while not over.wait(0.001):
                ticks.append(1)

        thread = threading.Thread(target=count)
        thread.start()
        hw.compare("latency-2019", reps=2, jobs=1)
        over.set()
        thread.join()
        self.assertGreater(len(ticks), 5)

    def test_from_a_thread_of_its_own(self):
        found = []
        work = lambda: found.append(hw.run("latency-2019", reps=1, quick=True).csv())
        threads = [threading.Thread(target=work) for _ in range(2)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        self.assertEqual(len(found), 2)
        self.assertEqual(found[0], found[1])


class Interrupts(unittest.TestCase):
    def test_ctrl_c_ends_the_runs(self):
        pressed = []

        def press():
            time.sleep(0.3)
            pressed.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=press)
        thread.start()
        with self.assertRaises(KeyboardInterrupt):
            hw.compare(**LONG)
        print(f"KeyboardInterrupt {time.monotonic() - pressed[0]:.3f} s after the signal")
        thread.join()
        # Nothing is left of it.
        self.assertEqual(len(hw.run("latency-2019", reps=1, quick=True).runs), 2)


class Lists(unittest.TestCase):
    def test_what_there_is(self):
        self.assertIn("plextor-px-256m5s", hw.drives()["name"])
        self.assertIn("bfq", hw.schedulers()["name"])
        self.assertIn("latency-2019", hw.experiments()["name"])
        disks = [d["name"] for d in hw.drives().rows() if d["rotational"]]
        self.assertIn("hitachi-hts727550a9e364", disks)

    def test_settings(self):
        rows = {row["setting"]: row for row in hw.settings("mq-deadline").rows()}
        self.assertEqual((rows["fifo_batch"]["default"], rows["fifo_batch"]["min"]), (16, 0))
        for row in hw.settings().rows():
            self.assertLessEqual(row["min"], row["default"])
            self.assertLessEqual(row["default"], row["max"])
            self.assertEqual(row["unit"] == "choice", bool(row["choices"]))
        with self.assertRaisesRegex(ValueError, "no scheduler 'bqf'; did you mean 'bfq'"):
            hw.settings("bqf")


class Experiments(unittest.TestCase):
    def mine(self, **more):
        return hw.Experiment(
            "mine",
            target=hw.reader(pattern="rand", bs="4k"),
            workloads={"busy": [4 * hw.reader(pattern="seq", bs="64k")], "idle": []},
            **{"drives": ["plextor-px-256m5s"], "window": {"measured": "300ms"}, **more},
        )

    def test_made_of_objects(self):
        mine = self.mine(reps=2, title="Mine")
        self.assertEqual((mine.id, mine.title, mine.reps), ("mine", "Mine", 2))
        self.assertEqual(mine.workloads, ["busy", "idle"])
        result = hw.compare(mine)
        self.assertEqual(len(result.runs), 8)
        self.assertIn("hoistway compare mine.toml --config none,bfq", result.command)
        again = hw.Experiment.from_toml(mine.toml, "mine.toml")
        self.assertEqual(hw.compare(again).csv(), result.csv())

    def test_its_text_is_a_file_of_the_command_line(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "mine.toml")
            path.write_text(self.mine().toml)
            self.assertEqual(hw.run(path).csv(), hw.run(self.mine()).csv())

    def test_mistakes_have_a_line(self):
        with self.assertRaisesRegex(ValueError, r"mine.toml:\d+: .*no configuration 'bqf'; did you mean 'bfq'"):
            self.mine(configs=["bqf"])
        with self.assertRaisesRegex(ValueError, r"mine.toml:\d+: no load 'raeder'; did you mean 'reader'"):
            hw.Experiment("mine", workloads={"w": [hw.process("raeder")]})
        with self.assertRaisesRegex(ValueError, r"mine.toml:\d+: unknown key 'jugde'"):
            self.mine(jugde="latency")
        with self.assertRaisesRegex(ValueError, r"x.toml:2: "):
            hw.Experiment.from_toml("schema = 1\n= 2\n", "x.toml")
        with self.assertRaisesRegex(TypeError, r"window\['measured'\]: complex cannot stand"):
            self.mine(window={"measured": 1j})
        with self.assertRaisesRegex(ValueError, "must be the name of a file"):
            hw.Experiment("a/b", workloads={})

    def test_one_process_and_a_table_of_its_own(self):
        mine = hw.Experiment(
            "mine",
            workloads={
                "one": hw.writer(pattern="seq", bs="4k", dsync=1),
                "two": {"summary": "two of them", "procs": [2 * hw.reader(pattern="seq")]},
            },
            configs=["none"],
            reps=1,
        )
        self.assertEqual(mine.all_workloads, [("one", "one"), ("two", "two of them")])
        self.assertEqual(hw.run(mine, quick=True).workloads, ["one", "two"])

    def test_sent_to_another_process(self):
        mine = self.mine()
        back = pickle.loads(pickle.dumps(mine))
        self.assertEqual((back.toml, repr(back)), (mine.toml, repr(mine)))


if __name__ == "__main__":
    unittest.main()
