// Opens a run file in Debian's python3, with read_results.py and with h5py and pandas alone.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "results/run_file.h"
#include "results/sample_record.h"
#include "temporary_folder.h"

namespace faibench {
namespace {

using testing_support::sample_record;
using testing_support::TemporaryFolder;

// Looked up, not imported: importing pandas takes a second.
bool python_has(const std::string& module) {
  return std::system(("/usr/bin/python3 -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec(\"" + module + "\") is None)' 2>/dev/null").c_str()) == 0;
}

class Python : public testing::Test {
 protected:
  void SetUp() override {
    static const bool ready = python_has("h5py") && python_has("pandas");
    if (!ready) GTEST_SKIP() << "/usr/bin/python3 has no h5py or no pandas: install python3-h5py and python3-pandas to run this test";
    std::vector<Record> records = {sample_record("transpose", "cpu", 5), sample_record("transpose", "cpu", 3), sample_record("router", "cpu", 0)};
    records[1].workload = "smoke";
    records[1].key = "another";
    records[2].verdict = Verdict::crashed;
    records[2].reason = "SIGSEGV";
    records[2].speedup = 0;
    Provenance p = collect_local({"faibench", "run"});
    p.hosts[0].copy_bytes_per_second = 1.5e10;
    write_run_file(folder_ / "run.h5", p, records);
  }
  int run(const std::string& program) {
    std::ofstream(folder_ / "program.py") << program;
    const std::string source = std::getenv("FAIBENCH_SOURCE");
    return std::system(("cd " + folder_.path().string() + " && PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=" + source + "/results /usr/bin/python3 -W error::FutureWarning program.py").c_str());
  }
  TemporaryFolder folder_;
};

TEST_F(Python, opens_the_file_with_h5py_and_pandas_alone) {
  EXPECT_EQ(run(R"py(
import h5py, json, numpy as np, pandas as pd
with h5py.File("run.h5") as f:
    assert f.attrs["format"] == "faibench-run/1"
    assert list(f) == ["provenance", "records", "samples", "scaling"], list(f)
    r = pd.DataFrame(f["records"][:])
    assert list(r.task) == [b"transpose", b"transpose", b"router"], r.task
    assert r.performance.dtype == bool and r.performance.all()
    assert r.seed[0] == 12345678901234567890 and r.score[0] == 1/3 and r.cases.dtype == np.int64
    assert r.detail[0].decode() == "größer als 1 µs" and r.stderr_tail[0] == b"line one\nline two"
    assert r["flags"][0] == b"outliers:3;context_switches:2"
    assert r.verdict[2] == b"crashed" and r.samples[2] == b""
    s = pd.DataFrame(f[r.samples[0].decode()][:])
    assert len(s) == 5 and s.block[0] == -1 and s.baseline_first.dtype == bool and s.baseline_seconds[1] == 0.7 + 0.001
    assert len(f[r.samples[1].decode()]) == 3
    def check(name, item):
        if isinstance(item, h5py.Dataset):
            assert item.attrs["description"], name
            if item.dtype.names:
                assert tuple(item.attrs["field_names"]) == item.dtype.names, name
                assert len(item.attrs["field_units"]) == len(item.attrs["field_descriptions"]) == len(item.dtype.names), name
                assert all(item.attrs["field_descriptions"]), name
    f.visititems(check)
    assert dict(zip(f["records"].attrs["field_names"], f["records"].attrs["field_units"]))["seconds"] == "s"
    p = f["provenance"]
    assert p.attrs["command_line"] == "faibench run" and p.attrs["world_size"] == 1
    assert json.loads(p["json"][()])["hosts"][0]["copy_bytes_per_second"] == 1.5e10
    assert p["hosts"][0]["copy_bytes_per_second"] == 1.5e10
)py"),
            0);
}

TEST_F(Python, reads_it_with_our_reader) {
  EXPECT_EQ(run(R"py(
import read_results as rr
t = rr.records("run.h5")
assert list(t.task) == ["transpose", "transpose", "router"] and t.detail[0] == "größer als 1 µs"
assert t.attrs["units"]["floor_bytes"] == "B"
assert t[t.verdict == "passed"].score.sum() == 2/3
assert len(rr.samples("run.h5", "transpose", "cpu")) == 5
assert len(rr.samples("run.h5", "transpose", "cpu", "smoke")) == 3
assert rr.provenance("run.h5")["command_line"] == "faibench run"
try:
    rr.samples("run.h5", "router", "cpu")
    raise SystemExit("samples of a task without any")
except KeyError as e:
    assert "no timings of task 'router'" in str(e)
)py"),
            0);
}

TEST_F(Python, plots_speedups_from_the_command_line) {
  if (!python_has("matplotlib")) GTEST_SKIP() << "/usr/bin/python3 has no matplotlib: install python3-matplotlib to run this test";
  const std::string reader = std::string("/usr/bin/python3 ") + std::getenv("FAIBENCH_SOURCE") + "/results/read_results.py ";
  EXPECT_EQ(std::system((reader + (folder_ / "run.h5").string() + " --plot " + (folder_ / "plot.png").string()).c_str()), 0);
  std::ifstream png(folder_ / "plot.png", std::ios::binary);
  std::string magic(8, ' ');
  png.read(magic.data(), 8);
  EXPECT_EQ(magic, "\x89PNG\r\n\x1a\n");
}

TEST_F(Python, has_a_command_line) {
  const std::string reader = std::string("/usr/bin/python3 ") + std::getenv("FAIBENCH_SOURCE") + "/results/read_results.py ";
  const std::string out = " > " + (folder_ / "out").string() + " 2>&1";
  const auto output = [&] {
    std::ostringstream text;
    text << std::ifstream(folder_ / "out").rdbuf();
    return text.str();
  };
  EXPECT_EQ(std::system((reader + (folder_ / "run.h5").string() + out).c_str()), 0);
  EXPECT_NE(output().find("SIGSEGV"), std::string::npos) << output();
  std::ofstream(folder_ / "bad.h5") << "no HDF5";
  EXPECT_EQ(WEXITSTATUS(std::system((reader + (folder_ / "bad.h5").string() + out).c_str())), 2);
  EXPECT_EQ(output().rfind("read_results: ", 0), 0u) << output();
  EXPECT_NE(output().find("bad.h5: "), std::string::npos) << output();
}

}  // namespace
}  // namespace faibench
