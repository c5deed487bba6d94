#!/usr/bin/python3
"""The hosts themselves: what they share and what not, and that nothing is left of them, whatever ended them. Clusters of their own, beside any that is up."""
import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

hosts_sh = str(Path(__file__).resolve().parent / "hosts.sh")
# Of this build alone: tests of another one may run at the same time.
FIRST, SECOND = (letter + os.environ.get("FAIBENCH_HOSTS", "self")[:7] for letter in "ab")


def run(*words, cluster=FIRST, seconds=240, check=True):
    done = subprocess.run([hosts_sh, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds, env={**os.environ, "FAIBENCH_HOSTS": cluster})
    if check and done.returncode != 0:
        raise AssertionError(f"exit code {done.returncode} of hosts.sh {' '.join(words)}:\n{done.stdout}")
    return done


def processes_of(cluster):
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"FAIBENCH_HOSTS_COOKIE={cluster}" in environ.read_bytes().decode(errors="replace").split("\0"):
                found.append(int(environ.parent.name))
        except OSError:
            pass
    return found


def outside():
    """What this machine shows of interfaces, network namespaces and mounts."""
    links = sorted(path.name for path in Path("/sys/class/net").iterdir())
    namespaces = sorted(path.name for path in Path("/run/netns").iterdir()) if Path("/run/netns").exists() else []
    # But for the small disks that other tests mount.
    return links, namespaces, [line for line in Path("/proc/self/mounts").read_text().splitlines() if not line.startswith("faibench-test ")]


class Hosts(unittest.TestCase):
    def setUp(self):
        self.before = outside()
        for cluster in (FIRST, SECOND):
            self.addCleanup(run, "down", cluster=cluster)

    def nothing_is_left(self, cluster=FIRST):
        self.assertEqual(processes_of(cluster), [])
        self.assertFalse(Path(f"/tmp/faibench-hosts-{cluster}").exists())
        self.assertEqual(outside(), self.before)

    def test_each_has_names_addresses_memory_and_processes_of_its_own(self):
        run("up", "2", "--no-slurm", "--shm", "8m")
        self.assertEqual(outside(), self.before, "nothing is seen outside")
        self.assertEqual(run("run", "h2", "hostname").stdout, "h2\n")
        run("run", "h1", "bash", "-c", "echo mine | tee /dev/shm/x > $TMPDIR/x")
        self.assertEqual(run("run", "h2", "bash", "-c", "ls /dev/shm; ls $TMPDIR").stdout, "ready\n")
        self.assertEqual(run("run", "h1", "bash", "-c", "cat /dev/shm/x $TMPDIR/x; stat --file-system --format=%b*%S /dev/shm").stdout, "mine\nmine\n2048*4096\n")
        self.assertIn("refused", run("run", "h1", "bash", "-c", "exec 3<>/dev/tcp/h2/9", check=False).stdout, "h2 answers by name")
        self.assertEqual(run("ps", "h1").stdout, "")
        run("cut", "h2")
        with self.assertRaises(subprocess.TimeoutExpired):
            run("run", "h1", "timeout", "5", "bash", "-c", "exec 3<>/dev/tcp/h2/9", seconds=2)
        run("mend", "h2")
        run("down")
        self.nothing_is_left()

    def test_two_clusters_do_not_meet(self):
        run("up", "1", "--no-slurm")
        run("up", "1", "--no-slurm", cluster=SECOND)
        run("run", "h1", "touch", "/dev/shm/first")
        self.assertEqual(run("run", "h1", "ls", "/dev/shm", cluster=SECOND).stdout, "")
        run("down")
        self.assertEqual(run("run", "h1", "hostname", cluster=SECOND).stdout, "h1\n", "still up")
        run("down", cluster=SECOND)
        self.nothing_is_left(SECOND)

    def test_what_a_crash_leaves_is_swept(self):
        run("up", "2")
        # A user's processes, one that will not hear SIGTERM, a Slurm job, and the end of what holds the cluster together.
        left = subprocess.Popen([hosts_sh, "run", "h1", "bash", "-c", "trap '' TERM; while :; do sleep 1; done"], env={**os.environ, "FAIBENCH_HOSTS": FIRST})
        run("run", "head", "sbatch", "--wrap", "sleep 1000", "--output=/dev/null")
        os.kill(int(Path(f"/tmp/faibench-hosts-{FIRST}/head.pid").read_text()), signal.SIGKILL)
        until = time.time() + 60
        while processes_of(FIRST) and time.time() < until:
            time.sleep(0.1)
        left.wait(60)
        self.assertEqual(processes_of(FIRST), [], "the kernel ends a cluster with its first process")
        self.assertEqual(run("status").stdout, "down\n")
        run("up", "1", "--no-slurm")  # over the folder of the dead one
        run("down")
        self.nothing_is_left()

    def test_an_up_that_was_killed_is_swept(self):
        for after in (0.2, 0.6, 1.2):
            going_up = subprocess.Popen([hosts_sh, "up", "3"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "FAIBENCH_HOSTS": FIRST})
            time.sleep(after)
            going_up.kill()
            going_up.wait()
            run("down")
            self.nothing_is_left()

    def test_a_lifetime_ends_a_forgotten_cluster(self):
        run("up", "1", "--no-slurm", "--lifetime", "2")
        until = time.time() + 60
        while processes_of(FIRST) and time.time() < until:
            time.sleep(0.1)
        self.assertEqual(processes_of(FIRST), [])

    def test_refuses_in_one_line(self):
        for words, said in ((["up", "0"], "number of hosts"), (["run", "h1", "true"], "is not up"), (["up", "1", "--nonsense"], "unknown option")):
            done = run(*words, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertRegex(done.stdout, rf"^hosts.sh: .*{said}.*\n$")
        self.assertEqual(run("down", cluster="Not Good", check=False).returncode, 2)


if __name__ == "__main__":
    lacking = run("probe", "slurm", "tbf", check=False)
    if lacking.returncode != 0:
        print(lacking.stdout, end="")
        sys.exit(lacking.returncode)
    unittest.main(verbosity=2)
