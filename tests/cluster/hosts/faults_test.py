#!/usr/bin/python3
"""Bad days on three hosts, under `faibench launch`: how long until what broke is named, what is left of the job, and whether its result is that of an unbroken run.

faults_test.py [Faults.test]     environment as for cluster_test.py
"""
import json
import os
import re
import shutil
import subprocess
import sys
import time
import unittest
from pathlib import Path

from cluster_test import HOSTS, OnThreeHosts, faibench, hosts_sh, patience, read_results, run

STATE = Path(f"/tmp/faibench-hosts-{os.environ.get('FAIBENCH_HOSTS', 't')}")
TASKS = ["grpo*", "coalesced*", "tp_allreduce*", "all2all*", "device_mesh*", "runtime_arena*"]
PROGRAMS = "faib|mpir|orted"  # to pgrep, which takes 15 letters
GANG = "tp_allreduce_bias_fuse/mpi"  # on all six ranks
# On a machine that is not busy with other things; see patience().
DEATH = 10  # seconds until a death is named
LEFT = 15  # until no process is left on any host
# Of one record, what depends on when and where.
ELSEWHERE = ["started", "wall_seconds", "host", "cpus", "rank"]


def words_of_job(*words):
    return ["run", "--workload", "smoke", "--gate-only", "--no-color", *[word for task in TASKS for word in ("--tasks", task)], *words]


def host(name, *words, **options):
    return run([hosts_sh, "run", name, *words], **options)


def until(seconds, condition, pause=0.02):
    """Seconds that it took, or None: not within so many, or what they are on a busy machine."""
    start = time.monotonic()
    while time.monotonic() - start < seconds * patience():
        if condition():
            return time.monotonic() - start
        time.sleep(pause)
    return None


class Supervised:
    """A job under the supervisor, which runs on the head; `folder` holds its results, as this test sees it."""

    number = 0

    def __init__(self, folder, words, hang_after=4, retries=2):
        Supervised.number += 1
        self.folder, self.log = Path(folder), STATE / f"faults-{Supervised.number}.log"
        self.said = self.log.open("w")
        launch = [faibench, "launch", "-n", "6", "--hang-after", str(hang_after), "--retries", str(retries), "--", *map(str, words)]
        self.process = subprocess.Popen([hosts_sh, "run", "head", *launch], stdin=subprocess.DEVNULL, stdout=self.said, stderr=subprocess.STDOUT)

    def output(self):
        return self.log.read_text(errors="replace")

    def records(self):
        try:
            lines = (self.folder / "run.jsonl").read_bytes().split(b"\n")[:-1]
        except OSError:
            return []
        return [line for line in lines if not line.startswith(b'{"format":')]

    def stamp(self, rank):
        try:
            return json.loads((self.folder / f"run.ranks/{rank}").read_text())
        except (OSError, ValueError):
            return None

    def until_busy(self, rank, records, item=""):
        """The stamp of that rank once it has such an item in hand."""
        found = []

        def busy():
            stamp = self.stamp(rank)
            if not stamp or not stamp["item"] or item not in stamp["item"] or len(self.records()) < records:
                return self.process.poll() is not None
            found.append(stamp)
            return True

        until(60, busy, 0.002)
        if not found:
            raise AssertionError(f"rank {rank} did not come to that:\n{self.output()[-3000:]}")
        return found[0]

    def signal_supervisor(self, signal):
        host("head", "pkill", f"-{signal}", "--full", f"^{re.escape(faibench)} launch -n")

    def seconds_until_said(self, words, most):
        return until(most, lambda: re.search(words, self.output()))

    def wait(self, seconds=90):
        return self.process.wait(seconds * patience())

    def end(self):
        if self.process.poll() is None:
            host("head", "pkill", "-KILL", PROGRAMS, check=False)  # theirs are among the head's processes
            self.process.wait(20)
        self.said.close()


class Faults(OnThreeHosts):
    def start(self, *words, **options):
        started = Supervised(options.pop("folder", self.folder), words_of_job(*words), **options)
        self.addCleanup(started.end)
        return started

    def judged(self, run_file):
        """{(task, variant, ranks): record} without what depends on when and where."""
        table = read_results.records(run_file).drop(columns=ELSEWHERE)
        table["samples"] = 0
        found = {(row["task"], row["variant"], row["ranks"]): {key: str(value) for key, value in row.items()} for row in table.to_dict("records")}
        self.assertEqual(len(found), len(table), "each once")
        return found

    def unbroken(self):
        file = STATE / "unbroken.h5"
        if not file.exists():
            run = self.start("--out", self.folder / "fresh.h5")
            self.assertEqual(run.wait(), 0, run.output())
            self.assertFalse((self.folder / "fresh.ranks").exists(), "stamps of a run that ended as it should")
            shutil.move(self.folder / "fresh.h5", file)
        return self.judged(file)

    def same_as_unbroken(self, found):
        expected = self.unbroken()
        self.assertEqual(set(found), set(expected))
        for key, record in found.items():
            self.assertEqual(record, expected[key])

    def no_process_within(self, seconds, hosts=HOSTS):
        took = until(seconds, lambda: not any(run([hosts_sh, "ps", name]).stdout.strip() for name in hosts), 0.2)
        self.assertIsNotNone(took, {name: run([hosts_sh, "ps", name]).stdout for name in hosts})
        left = host("head", "pgrep", "--list-name", PROGRAMS, check=False).stdout
        self.assertEqual(left, "", "left on the head")
        return took

    def told(self, job, words, most, what):
        took = job.seconds_until_said(f"faibench: launch: {words}", most)
        self.assertIsNotNone(took, job.output()[-4000:])
        print(f"{what}: named after {took:.1f} s", file=sys.stderr)

    def whole(self, job, before, what):
        """The end of a job that went on by itself."""
        start = time.monotonic()
        self.assertEqual(job.wait(), 0, job.output()[-6000:])
        went_on = time.monotonic() - start
        left = self.no_process_within(LEFT)
        print(f"{what}: went on for {went_on:.1f} s to its end, hosts empty {left:.1f} s later", file=sys.stderr)
        after = job.records()
        self.assertEqual(after[:len(before)], before, "no finished verdict is lost")
        self.same_as_unbroken(self.judged(job.folder / "run.h5"))

    def hurt(self, rank, signal, words, most, item=""):
        self.unbroken()
        name = HOSTS[rank // 2]
        run = self.start("--out", self.folder / "run.h5")
        stamp = run.until_busy(rank, 1, item)
        self.assertEqual(stamp["host"], name)
        before = run.records()
        host(name, "kill", f"-{signal}", str(stamp["pid"]))
        what = f"{signal} to rank {rank} on {name}" + (f" within {item}" if item else "")
        self.told(run, f"rank {rank} on {name} {words}", most, what)
        self.whole(run, before, what)
        self.assertRegex(run.output(), r"\d+ records? (is|are) safe in .*; going on with launch 2")

    def test_a_killed_rank(self):
        self.hurt(3, "KILL", "died of signal 9", DEATH)

    def test_a_killed_coordinator(self):
        self.hurt(0, "KILL", "died of signal 9", DEATH)

    def test_a_rank_killed_within_a_gang(self):
        self.hurt(4, "KILL", "died of signal 9", DEATH, GANG)

    def test_a_stopped_rank_on_another_host_than_the_coordinators(self):
        # Half of --hang-after and five beats until it counts as silent, four seconds for mpirun to end the others, one for a busy machine.
        self.hurt(3, "STOP", "shows no sign of life", 12)

    def test_a_rank_stopped_within_a_gang(self):
        self.hurt(5, "STOP", "shows no sign of life", 12, GANG)

    def test_a_killed_launch_daemon(self):
        self.unbroken()
        run = self.start("--out", self.folder / "run.h5")
        run.until_busy(3, 1)
        before = run.records()
        host("h2", "pkill", "-KILL", "orted")
        self.told(run, r"host h2 is lost: .* \(of rank 2, 3\)", DEATH, "killed launch daemon")
        self.whole(run, before, "killed launch daemon")

    def cut(self, name, ranks, hang_after=20, retries=2):
        """Cuts the link in the middle of a job, until that host is found to be out of reach."""
        self.unbroken()
        job = self.start("--out", self.folder / "run.h5", hang_after=hang_after, retries=retries)
        job.until_busy(3, 1)
        before = job.records()
        self.addCleanup(run, [hosts_sh, "mend", name])
        run([hosts_sh, "cut", name])
        self.told(job, rf"host {name} is lost: .* \(of rank {ranks}\)", DEATH, f"cut link of {name}")
        self.assertIsNotNone(job.seconds_until_said(f"{name} cannot be reached: what is left of the job there is ended when it can", 25), job.output())
        # What runs there finds that it is alone.
        self.no_process_on_hosts_within(LEFT)
        return job, before

    def no_process_on_hosts_within(self, seconds):
        took = until(seconds, lambda: not any("faibench" in run([hosts_sh, "ps", name]).stdout for name in HOSTS), 0.2)
        self.assertIsNotNone(took, {name: run([hosts_sh, "ps", name]).stdout for name in HOSTS})

    def test_a_cut_link_that_is_mended(self):
        job, before = self.cut("h2", "2, 3")
        run([hosts_sh, "mend", "h2"])
        self.whole(job, before, "mended link")

    def test_a_cut_link_of_the_coordinators_host_until_the_time_is_up(self):
        job, before = self.cut("h1", "0, 1")
        start = time.monotonic()
        job.signal_supervisor("TERM")  # while it waits for the host
        self.assertEqual(job.wait(40), 143, job.output())
        print(f"told to stop while a host is cut: {time.monotonic() - start:.1f} s", file=sys.stderr)
        self.assertRegex(job.output(), "h1 was not reached again")
        run([hosts_sh, "mend", "h1"])
        self.no_process_within(LEFT)
        self.whole(self.start("--resume", self.folder / "run.h5"), before, "resumed after a cut link")

    def test_a_host_that_does_not_come_back(self):
        job, before = self.cut("h3", "4, 5", hang_after=10, retries=0)
        start = time.monotonic()
        self.assertEqual(job.wait(110), 4, job.output())
        print(f"a host that does not come back: gave up after {time.monotonic() - start:.1f} s", file=sys.stderr)
        self.assertRegex(job.output(), r"waiting for h3, 50 s at most")
        self.assertRegex(job.output(), r"h3 cannot be reached\); .* giving up \(\d+ records? (is|are) safe in ")
        self.assertEqual(job.records(), before + job.records()[len(before):], "no finished verdict is lost")
        run([hosts_sh, "mend", "h3"])
        self.no_process_within(LEFT)

    def test_full_shared_memory_on_one_host(self):
        self.unbroken()
        self.addCleanup(host, "h2", "mount", "-o", "remount,size=1g", "/dev/shm")
        host("h2", "bash", "-c", "rm -f /dev/shm/*; mount -o remount,size=256k /dev/shm")
        job = self.start("--out", self.folder / "run.h5")
        code = job.wait()
        self.no_process_within(LEFT)
        self.assertRegex(job.output(), r"h2.*/dev/shm|/dev/shm.*h2")
        self.assertIn(code, (0, 1), job.output())
        expected = self.unbroken()
        found = self.judged(self.folder / "run.h5")
        self.assertEqual(set(found), set(expected))
        for key, record in found.items():
            if record["verdict"] == "skipped" and "registered" in key[1]:
                continue  # tensors in memory that ranks share
            self.assertEqual(record, expected[key])

    def test_a_full_disk_under_the_results(self):
        self.unbroken()
        disk = STATE / "disk"  # 64 KiB of all hosts'
        head = int((STATE / "head.pid").read_text())
        seen_here = Path(f"/proc/{head}/root{disk}")
        self.addCleanup(host, "head", "bash", "-c", f"rm -rf {disk}/*; mount -o remount,size=64k {disk}")
        job = self.start("--out", disk / "run.h5", "--quiet", folder=seen_here)
        start = time.monotonic()
        self.assertEqual(job.wait(), 2, job.output())
        print(f"full disk: ended after {time.monotonic() - start:.1f} s", file=sys.stderr)
        self.no_process_within(LEFT)
        said = job.output()
        self.assertIn("No space left on device", said)
        self.assertEqual(said.count("faibench: "), 1, said)
        before = job.records()
        host("head", "mount", "-o", "remount,size=16m", disk)
        go_on = ["--resume", disk / "run.h5"] if before else ["--force", "--out", disk / "run.h5"]
        self.whole(self.start(*go_on, folder=seen_here), before, "more room on the disk")

    def test_a_time_limit(self):
        for signal, code in (("USR1", 1), ("TERM", 143)):
            with self.subTest(signal):
                self.unbroken()
                job = self.start("--force", "--out", self.folder / "run.h5")
                job.until_busy(3, 1)
                job.signal_supervisor(signal)
                start = time.monotonic()
                self.assertEqual(job.wait(), code, job.output())
                took = time.monotonic() - start
                print(f"{signal}: stopped after {took:.1f} s", file=sys.stderr)
                self.assertLess(took, DEATH * patience())
                self.no_process_within(1)
                self.assertIn(f"go on with --resume {self.folder}/run.h5", job.output())
                before = job.records()
                self.assertGreater(len(before), 0)
                self.whole(self.start("--resume", self.folder / "run.h5"), before, f"resumed after {signal}")


if __name__ == "__main__":
    lacking = run([hosts_sh, "probe"], check=False)
    if lacking.returncode != 0:
        print(lacking.stdout, end="")
        sys.exit(lacking.returncode)
    unittest.main(verbosity=2)
