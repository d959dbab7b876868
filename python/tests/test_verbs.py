"""Replays, latency targets, benches."""

import json
import os
import subprocess
import tempfile
import unittest
import warnings
from pathlib import Path

import hoistway as hw


def trace(folder):
    """Reads of two volumes, one every 200 us, in the format of Alibaba's traces."""
    path = Path(folder, "trace.csv")
    lines = (f"{i % 2},R,{i * 37 % 5000 * 4096},4096,{1_577_808_000_000_000 + i * 200}\n" for i in range(500))
    path.write_text("".join(lines))
    return path


class Replays(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.trace = trace(folder.name)

    def test_every_record_is_replayed(self):
        told = []
        result = hw.replay(
            self.trace, ["none", "bfq"], format="alibaba", split_by="lun",
            progress=lambda *far: told.append(far),
        )
        self.assertEqual(result.configs, ["none", "bfq"])
        counted = {}
        for row in result.histograms.rows():
            counted[row["config"]] = counted.get(row["config"], 0) + row["count"]
        self.assertEqual(counted, {"none": 500, "bfq": 500})
        self.assertEqual(told[-1][1:], (2, 2))

    def test_it_writes_what_the_command_writes(self):
        program = os.environ.get("HOISTWAY", "")
        if not os.access(program, os.X_OK):
            self.skipTest("the command line is not built (cargo build -p hoistway-cli)")
        words = "--format alibaba --closed --depth 2 --speed 2 --config none --reps 2 --quiet".split()
        out = self.folder / "cli"
        subprocess.run([program, "replay", self.trace, *words, "--out", out], check=True, capture_output=True)
        result = hw.replay(self.trace, "none", format="alibaba", closed=True, depth=2, speed=2, reps=2)
        result.save(self.folder / "python")
        for file in out.rglob("*"):
            if file.is_file():
                ours = self.folder / "python" / file.relative_to(out)
                self.assertTrue(ours.read_bytes() == file.read_bytes(), f"{file.name} differs")

    def test_what_follows_from_the_trace_is_a_warning(self):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            hw.replay(self.trace, "none", format="alibaba", closed=True)
        self.assertIn("the trace does not say when I/Os ended", str(told[0].message))

    def test_mistakes(self):
        for given, text in [
            (dict(trace=self.folder / "none"), "there is no such file"),
            (dict(format="alibba"), "--format alibba: no such format; did you mean 'alibaba'"),
            (dict(speed=0.0), "--speed 0: choose a number from 0.001"),
            (dict(open=True, closed=True), "--open cannot be used with --closed"),
            (dict(depth=2), "--depth is of a closed loop"),
            (dict(split_by="pid"), "--split-by pid: choose one of process"),
            (dict(target="nobody"), "nobody"),
            (dict(configs="bqf"), "did you mean 'bfq'"),
        ]:
            with self.assertRaisesRegex(ValueError, text):
                hw.replay(**{"trace": self.trace, "format": "alibaba", **given})


class Targets(unittest.TestCase):
    def test_an_answer(self):
        answer = hw.what_if("sd-card-2009", {"gold": "200ms"}, duration="500ms")
        self.assertEqual((answer["drive"], answer["loss_permille"]), ("sd-card-2009", 30))
        (target,) = answer["targets"]
        self.assertEqual((target["name"], target["target_ns"]), ("gold", 200_000_000))
        self.assertEqual(answer["kept"], target["kept"])
        self.assertEqual([p["config"] for p in answer["others"]], ["none-none", "none-bfq", "lat-none", "cost-none"])
        self.assertIn("io.latency", " ".join(answer["running"]))

    def test_mistakes(self):
        for given, text in [
            (dict(targets="gold"), "--target: 'gold' is no target; write NAME=TIME"),
            (dict(targets={"gold": "1y"}), "--target: 'gold=1y'"),
            (dict(targets={"gold": "1ms"}, load="latency-2019/none"), "--load: latency-2019 has no workload 'none'"),
            (dict(targets={"gold": "1ms"}, load="latency-2019/readers"), "the load has no process 'gold'"),
            (dict(targets={"gold": "1ms"}, loss=100), "--loss: 100 is not in"),
            (dict(targets={"gold": "1ms"}, duration="2h"), "--duration: 2h must be above 0 and at most 1h"),
        ]:
            with self.assertRaisesRegex(ValueError, text):
                hw.what_if("samsung-970-pro", **given)


class Benches(unittest.TestCase):
    def test_an_answer_and_its_run_directories(self):
        with tempfile.TemporaryDirectory() as folder:
            given = dict(configs="none,bfq", rounds=1, time="10s", out=Path(folder, "bench"))
            answer = hw.bench("sd-card-2009", **given)
            self.assertEqual((answer["level"], answer["rounds"]), ("quick", 1))
            self.assertTrue(answer["results"])
            runs = [hw.load(place) for place in answer["runs"]]
            self.assertTrue(all(r.configs[0] == "none" for r in runs))
            # Nothing is left to run.
            with self.assertWarnsRegex(UserWarning, "finished runs are there already"):
                self.assertEqual(hw.bench("sd-card-2009", **given)["results"], answer["results"])
            json.dumps(answer)

    def test_mistakes(self):
        for given, text in [
            (dict(drive="samsung"), "no drive 'samsung'"),
            (dict(level="fast"), "level is quick, standard or full"),
            (dict(goal="speed"), "speed"),
            (dict(rounds=0), "--rounds: 0 is not in"),
            (dict(configs="none,none"), "configuration 'none' is given twice"),
            (dict(time="0s"), "--time: 0s must be above 0"),
        ]:
            with self.assertRaisesRegex(ValueError, text):
                hw.bench(**{"drive": "samsung-970-pro", **given})


if __name__ == "__main__":
    unittest.main()
