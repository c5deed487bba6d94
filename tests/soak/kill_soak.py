#!/usr/bin/env python3
"""Kills random processes of smoke runs and resumes them, again and again; with --launch it is `faibench launch` that resumes them.

After every kill: the run ends within its deadline, no process is left, every finished verdict is still in the journal, none is
there twice, and the HDF5 file opens and holds nothing the journal does not hold.

    FAIBENCH_BIN=build/test/bin/faibench tests/soak/kill_soak.py --kills 200
    FAIBENCH_BIN=build/test/bin/faibench tests/soak/kill_soak.py --kills 1000 --launch

With --launch ranks are also stopped and the launcher is killed; the supervisor names what broke and goes on within its deadline, and the whole result
equals that of a run that nothing happened to, but for times.

Exit code 0 if all that held, 1 otherwise.
"""
import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import h5py

DEADLINE_AFTER_DEATH = 20  # seconds: 10 for the ranks to stop together; as the others, for a machine that is not busy with other things
HANG_AFTER = 4  # seconds that a rank may hang under --launch
START_UP_LIMIT = 2 * HANG_AFTER + 30 + 15  # for a rank that is stopped before it left its first stamp
MARK = "FAIBENCH_SOAK"


def patience():
    """How many times longer than on a quiet machine a limit is: runnable processes a core."""
    return max(1, max(os.getloadavg()[:2]) / os.cpu_count())


def parent_of(pid):
    """The process id of the parent, 0 where it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


def processes(mark):
    """(pid, role) of every process that carries our mark in its environment."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                environment = file.read().split(b"\0")
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                arguments = file.read().split(b"\0")
        except OSError:
            continue
        if f"{MARK}={mark}".encode() not in environment:
            continue
        program = os.path.basename(arguments[0].decode(errors="replace"))
        role = "launcher"
        if program == "faibench":
            ranks = [entry for entry in environment if entry.startswith(b"OMPI_COMM_WORLD_RANK=")]
            role = "supervisor" if not ranks else "coordinator" if ranks[0].endswith(b"=0") else "rank"
        elif program == "faibench-worker":
            role = arguments[1].decode(errors="replace") if len(arguments) > 1 else "worker"
        found.append((int(entry), role))
    # A rank's child is called like it until it becomes a judge, a judge's until it becomes a candidate, and a reader of files stays so: what happens to it is no rank's and no judge's death.
    parents = {pid for pid, role in found if role in ("coordinator", "rank", "judge")}
    return [(pid, "child of a " + role if pid in parents and parent_of(pid) in parents and role == dict(found)[parent_of(pid)] else role) for pid, role in found]


def journal_records(path):
    """Finished verdicts: whole lines only. Raises ValueError on damage."""
    records = []
    with open(path, "rb") as file:
        content = file.read()
    for line in content.split(b"\n")[:-1]:
        value = json.loads(line)
        if "format" not in value:
            records.append(value)
    return records


class Soak:
    def __init__(self, options):
        self.options = options
        self.random = random.Random(options.seed)
        self.folder = tempfile.mkdtemp(prefix="faibench-soak-")
        self.failures = []
        self.kills = {}
        self.delays = {}
        self.run_number = 0
        self.start_run()

    def start_run(self):
        self.run_number += 1
        self.file = os.path.join(self.folder, f"run{self.run_number}.h5")
        self.journal = self.file[:-3] + ".jsonl"
        self.known = {}

    def fail(self, what):
        self.failures.append(what)
        print(f"FAILED: {what}", flush=True)

    def launch(self):
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        environment[MARK] = str(os.getpid())
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(self.options.ranks), self.options.faibench, "run", "--workload", "smoke",
                   "--budget", str(self.options.budget), "--quiet"]
        command += ["--resume", self.file] if os.path.exists(self.journal) else ["--out", self.file, "--force"]
        self.output = open(os.path.join(self.folder, "output.txt"), "wb")
        return subprocess.Popen(command, env=environment, stdout=self.output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def check_files(self, after):
        if not os.path.exists(self.journal):
            if self.known:
                self.fail(f"{after}: the journal is gone")
            return
        try:
            records = journal_records(self.journal)
        except ValueError as error:
            return self.fail(f"{after}: the journal is damaged: {error}")
        keys = [record["key"] for record in records]
        if len(set(keys)) != len(keys):
            self.fail(f"{after}: a verdict is in the journal twice")
        for record in records:
            old = self.known.get(record["key"])
            if old is not None and old != record["verdict"]:
                self.fail(f"{after}: {record['task']} changed from {old} to {record['verdict']}")
        lost = set(self.known) - set(keys)
        if lost:
            self.fail(f"{after}: {len(lost)} finished verdicts are lost")
        self.known = {record["key"]: record["verdict"] for record in records}
        if os.path.exists(self.file):
            try:
                with h5py.File(self.file, "r") as file:
                    folded = {key.decode() if isinstance(key, bytes) else key for key in file["records"]["key"]}
            except Exception as error:  # whatever h5py raises: the file does not open
                return self.fail(f"{after}: {self.file} does not open: {error}")
            if not folded <= set(keys):
                self.fail(f"{after}: the HDF5 file holds a verdict that the journal does not")

    def check_processes(self, after):
        started = time.time()
        while time.time() - started < 15 * patience():
            left = processes(os.getpid())
            if not left:
                return
            time.sleep(0.2)
        self.fail(f"{after}: still running: {left}")
        for pid, _ in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def kill_one(self):
        """True if a process was killed before the run ended by itself."""
        run = self.launch()
        moment = time.time() + self.random.uniform(0, self.options.longest_wait)
        wanted = self.random.choice(["coordinator", "rank", "judge", "candidate"])
        victim = None
        while run.poll() is None and victim is None:
            if time.time() >= moment:
                candidates = [(pid, role) for pid, role in processes(os.getpid()) if role == wanted]
                if candidates:
                    victim = self.random.choice(candidates)
                elif time.time() > moment + 1:
                    wanted = self.random.choice(["coordinator", "rank", "judge", "candidate"])
            time.sleep(0.005)
        if victim is not None:
            try:
                os.kill(victim[0], signal.SIGKILL)
                self.kills[victim[1]] = self.kills.get(victim[1], 0) + 1
            except ProcessLookupError:
                victim = None
        after = f"kill {sum(self.kills.values())} ({victim[1] if victim else 'none'})"
        # A lost judge or candidate does not end the run: it goes on to its own end.
        try:
            run.wait(patience() * (DEADLINE_AFTER_DEATH if victim and victim[1] in ("coordinator", "rank") else self.options.run_limit))
        except subprocess.TimeoutExpired:
            self.fail(f"{after}: the run did not end in time")
            run.kill()
            run.wait()
        self.output.close()
        self.check_processes(after)
        self.check_files(after)
        if run.returncode == 0 or (victim is None and run.returncode == 1):
            self.start_run()  # nothing left to resume
        return victim is not None

    # Under the supervisor: one run after another, each hurt again and again until it is whole.
    def supervise(self):
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        environment[MARK] = str(os.getpid())
        command = [self.options.faibench, "launch", "-n", str(self.options.ranks), "--launcher", "mpirun --oversubscribe --bind-to none", "--hang-after", str(HANG_AFTER),
                   "--retries", "1000", "--", "run", "--workload", "smoke", "--gate-only", "--quiet", "--out", self.file, "--force"]
        self.output_name = os.path.join(self.folder, f"output{self.run_number}.txt")
        self.output = open(self.output_name, "wb")
        return subprocess.Popen(command, env=environment, stdout=self.output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def launches(self):
        with open(self.output_name, "rb") as file:
            return file.read().count(b"going on with launch")

    # As the run's file has it: what was lost and judged after all is judged.
    def result(self):
        records = journal_records(self.journal)
        judged = {record["key"] for record in records}
        return {(record["task"], record["variant"], record["ranks"], record["key"]): record["verdict"] for record in records
                if not (record["key"].endswith(":lost") and record["key"][: -len(":lost")] in judged)}

    # A wounded run names what broke and goes on, or it ends; how long that took goes to `self.delays`.
    def wound(self, run):
        victims = processes(os.getpid())
        role = self.random.choice(["coordinator", "rank", "launcher", "judge", "stopped"])
        wanted = "rank" if role == "stopped" else role
        chosen = [pid for pid, has in victims if has == wanted]
        if not chosen:
            return
        before = self.launches()
        try:
            os.kill(self.random.choice(chosen), signal.SIGSTOP if role == "stopped" else signal.SIGKILL)
        except ProcessLookupError:
            return
        self.kills[role] = self.kills.get(role, 0) + 1
        after = f"kill {sum(self.kills.values())} ({role})"
        if role != "judge":  # a judge that dies is replaced by its rank; a candidate is left alone, its death is its verdict
            started = time.time()
            limit = START_UP_LIMIT if role == "stopped" else DEADLINE_AFTER_DEATH
            while run.poll() is None and self.launches() == before:
                if time.time() - started > limit * patience():
                    return self.fail(f"{after}: the supervisor did not go on in time")
                time.sleep(0.02)
            self.delays.setdefault(role, []).append(time.time() - started)
        self.check_files(after)

    def work_supervised(self):
        started = time.time()
        unbroken = None
        while (sum(self.kills.values()) < self.options.kills or unbroken is None) and len(self.failures) < 10:
            run = self.supervise()
            if unbroken is not None:
                while run.poll() is None and sum(self.kills.values()) < self.options.kills:
                    if self.options.seconds and time.time() - started > self.options.seconds:
                        break
                    moment = time.time() + self.random.uniform(0, self.options.longest_wait)
                    while run.poll() is None and time.time() < moment:
                        time.sleep(0.01)
                    if run.poll() is None:
                        self.wound(run)
            after = f"run {self.run_number}"
            try:
                code = run.wait(self.options.run_limit * patience())
            except subprocess.TimeoutExpired:
                self.fail(f"{after}: did not end in time")
                run.kill()
                code = run.wait()
            self.output.close()
            self.check_processes(after)
            self.check_files(after)
            if code != 0:
                self.fail(f"{after}: exit code {code}")
            result = self.result()
            if unbroken is None:
                unbroken = result
            elif result != unbroken:
                self.fail(f"{after}: the result is not that of an unbroken run: {set(result.items()) ^ set(unbroken.items())}")
            self.start_run()
            if self.options.seconds and time.time() - started > self.options.seconds:
                break
        for role, delays in sorted(self.delays.items()):
            print(f"{role}: gone on after {sum(delays) / len(delays):.1f} s on average, {max(delays):.1f} s at most", flush=True)
        return self.close(started)

    def work(self):
        started = time.time()
        while sum(self.kills.values()) < self.options.kills and len(self.failures) < 10:
            self.kill_one()
            if self.options.seconds and time.time() - started > self.options.seconds:
                break
        return self.close(started)

    def close(self, started):
        print(f"{sum(self.kills.values())} kills in {time.time() - started:.0f} s over {self.run_number} runs: "
              + ", ".join(f"{count} x {role}" for role, count in sorted(self.kills.items())) + f"; {len(self.failures)} failures", flush=True)
        if not self.failures:
            shutil.rmtree(self.folder)
        else:
            print(f"files are left in {self.folder}")
        return 1 if self.failures else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faibench", default=os.environ.get("FAIBENCH_BIN", "faibench"), help="the program (default: $FAIBENCH_BIN)")
    parser.add_argument("--kills", type=int, default=200, help="processes to kill (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=0, help="stop after this long, whatever was killed (default: no limit)")
    parser.add_argument("--ranks", type=int, default=2, help="ranks of each run (default: %(default)s)")
    parser.add_argument("--budget", type=float, default=0.05, help="timed seconds a task (default: %(default)s)")
    parser.add_argument("--longest-wait", type=float, default=4, help="kill at a random moment up to here, in seconds (default: %(default)s)")
    parser.add_argument("--run-limit", type=float, default=90, help="a run that lost no rank must end within this (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=None, help="of the random moments and victims (default: another each time)")
    parser.add_argument("--launch", action="store_true", help="let faibench launch resume the runs")
    options = parser.parse_args()
    soak = Soak(options)
    return soak.work_supervised() if options.launch else soak.work()


if __name__ == "__main__":
    sys.exit(main())
