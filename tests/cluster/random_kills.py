#!/usr/bin/python3
"""Random SIGKILLs over ranks, coordinator, judges and candidates of smoke runs, each followed by --resume.

No finished verdict may be lost or doubled, the HDF5 file must open after every kill, and no process may stay behind.
Usage: random_kills.py PROGRAM [KILLS [SEED]]
"""
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

import h5py

PROGRAM = sys.argv[1]
KILLS = int(sys.argv[2]) if len(sys.argv) > 2 else 8
random.seed(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
MARK = f"FAIBENCH_KILL_TEST={os.getpid()}"
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", FAIBENCH_KILL_TEST=str(os.getpid()))


def ours():
    """Processes of faibench that this script started, by the mark in their environment: (pid, what)."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/environ") as f:
                marked = MARK in f.read().split("\0")
            with open(f"/proc/{entry}/cmdline") as f:
                words = f.read().split("\0")
        except OSError:
            continue
        if marked and "faibench" in os.path.basename(words[0]):
            found.append((int(entry), " ".join(words[:2])))
    return found


def journal_keys(path):
    keys = []
    with open(path) as f:
        for line in f:
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # a torn last line
            if isinstance(entry, dict) and "key" in entry.get("record", entry):
                keys.append(entry.get("record", entry)["key"])
    return keys


def main():
    killed = {}
    with tempfile.TemporaryDirectory() as folder:
        run, journal, before, finished = f"{folder}/run.h5", f"{folder}/run.jsonl", [], 0
        for _ in range(KILLS):
            go_on = ["--resume", run] if os.path.exists(journal) else ["--out", run]
            command = ["mpirun", "-n", "2", "--oversubscribe", PROGRAM, "run", "--quiet", "--workload", "smoke", "--budget", "0.3"] + go_on
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
            time.sleep(random.uniform(0.3, 3.0))
            if victims := ours():
                pid, what = random.choice(victims)
                try:
                    os.kill(pid, signal.SIGKILL)
                    killed[os.path.basename(what)] = killed.get(os.path.basename(what), 0) + 1
                except ProcessLookupError:
                    pass
            process.wait(timeout=120)
            for _ in range(20):
                if not ours():
                    break
                time.sleep(0.1)
            assert not ours(), f"left behind: {ours()}"
            if not os.path.exists(journal):
                continue
            keys = journal_keys(journal)
            assert len(set(keys)) == len(keys), "a verdict is doubled"
            assert keys[: len(before)] == before, "a finished verdict is lost"
            before = keys
            if os.path.exists(run):
                with h5py.File(run) as f:
                    f["records"][:]
            if process.returncode == 0:  # this one got through: start anew
                finished += 1
                os.remove(run)
                os.remove(journal)
                before = []
    assert killed, "nothing was killed: nothing was tested"
    print(f"{sum(killed.values())} killed, {finished} runs finished: {killed}")


main()
