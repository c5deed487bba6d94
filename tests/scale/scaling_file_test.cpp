// A study through its journal's lines and through /scaling of a run file.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "results/run_file.h"
#include "results/scaling.h"
#include "temporary_folder.h"

namespace faibench {
namespace {

ScalingStudy sample_study() {
  ScalingStudy study;
  for (int ranks : {1, 2}) {
    for (std::int64_t bytes : {1024, 65536, 1048576}) {
      ScalingRow row;
      row.task = "sum";
      row.variant = "mpi";
      row.cadence = "isolated";
      row.ranks = ranks;
      row.bytes = bytes;
      row.verdict = "passed";
      row.samples = 3;
      row.seconds = 1e-6 * static_cast<double>(ranks) + 1e-10 * static_cast<double>(bytes) / 3;
      row.low = row.seconds / 1.5;
      row.high = row.seconds * 1.25;
      row.algbw = ranks == 1 ? 0 : static_cast<double>(bytes) / row.seconds;
      row.weak_efficiency = 1.0 / ranks;
      row.strong_efficiency = row.weak_efficiency / ranks;
      row.flags = {"bimodal", "bursts:2"};
      row.key = "sum|mpi|" + std::to_string(bytes) + "|" + std::to_string(ranks);
      for (int rank = 0; rank < ranks; ++rank) {
        row.enter.push_back({0.1 / 3 + rank, 0.2, 0.3});
        row.exit.push_back({1.1 / 3 + rank, 1.2, 1.3});
      }
      study.rows.push_back(row);
    }
  }
  study.rows[4].verdict = "late";
  study.rows[4].detail = "größer \"als\" 1";
  study.rows[4].enter.clear();
  study.rows[4].exit.clear();
  study.fits.push_back({"sum", "mpi", "isolated", 2, 0, 1024, 65536, 2e-6, 1e-10 / 3, 0.01, 1048576, 3e-5, 3.1e-5, 0.1 / 3, 0.005, 2e-6, 1e-10, 0.2});
  study.forecasts.push_back({"sum", "mpi", "isolated", 2, 65536, 3e-5, 3.1e-5, 0.1 / 3, false, true});
  study.findings.push_back({"sum", "t(S) <= t(S')", "here", "mpi", "isolated", "128 B", 2, 64, 2e-6, 1e-6, 3});
  study.links.push_back({2, "node", 1, 3e-7, 1e-10, 0});
  return study;
}

TEST(ScalingJournal, refuses_a_row_that_no_measurement_can_give) {
  const auto complaint = [](auto change) -> std::string {
    ScalingRow row = sample_study().rows[3];
    change(row);
    try {
      scaling_row_from_json(to_json(row));
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, Error::Kind::bad_input);
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(complaint([](ScalingRow&) {}), "");
  EXPECT_NE(complaint([](ScalingRow& row) { row.seconds = -1e-6; }).find("'seconds' is -"), std::string::npos);
  EXPECT_NE(complaint([](ScalingRow& row) { row.low = -1; }).find("'low'"), std::string::npos);
  EXPECT_NE(complaint([](ScalingRow& row) { row.ranks = 0; }).find("'ranks' is 0"), std::string::npos);
  EXPECT_NE(complaint([](ScalingRow& row) { row.bytes = -8; }).find("'bytes' is -8"), std::string::npos);
  EXPECT_NE(complaint([](ScalingRow& row) { row.exit.pop_back(); }).find("different lengths"), std::string::npos);
  EXPECT_NE(complaint([](ScalingRow& row) { row.exit[1].pop_back(); }).find("different lengths"), std::string::npos);
}

TEST(ScalingJournal, line_gives_back_the_row_to_the_bit) {
  for (const ScalingRow& row : sample_study().rows) {
    const ScalingRow back = scaling_row_from_json(to_json(row));
    EXPECT_EQ(to_json(back), to_json(row));
    EXPECT_EQ(back.seconds, row.seconds);
    EXPECT_EQ(back.enter, row.enter);
    EXPECT_EQ(back.exit, row.exit);
    EXPECT_EQ(back.flags, row.flags);
    EXPECT_EQ(back.detail, row.detail);
  }
}

class ScalingFile : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("/usr/bin/python3 -c 'import importlib.util as u, sys; sys.exit(None in (u.find_spec(\"h5py\"), u.find_spec(\"pandas\"), u.find_spec(\"matplotlib\")))'") != 0)
      GTEST_SKIP() << "/usr/bin/python3 has no h5py, pandas or matplotlib: install python3-h5py, python3-pandas and python3-matplotlib to run this test";
    const ScalingStudy study = sample_study();
    write_run_file(folder_ / "s.h5", collect_local({"faibench", "scale"}), {}, &study);
  }
  int run(const std::string& program) {
    std::ofstream(folder_ / "program.py") << program;
    return std::system(("cd " + folder_.path().string() + " && PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=" + std::getenv("FAIBENCH_SOURCE") + "/results /usr/bin/python3 -W error::FutureWarning program.py").c_str());
  }
  testing_support::TemporaryFolder folder_;
};

TEST_F(ScalingFile, opens_with_h5py_alone) {
  EXPECT_EQ(run(R"py(
import h5py
with h5py.File("s.h5") as f:
    s = f["scaling"]
    assert s.attrs["format"] == "faibench-scaling/1"
    assert list(s) == ["rows", "fits", "forecasts", "findings", "links", "raw"], list(s)
    rows = s["rows"][:]
    assert len(rows) == 6 and list(rows["ranks"]) == [1, 1, 1, 2, 2, 2] and list(rows["bytes"][:3]) == [1024, 65536, 1048576]
    assert rows["seconds"][0] == 1e-6 * 1 + 1e-10 * 1024 / 3 and rows["flags"][0] == b"bimodal;bursts:2"
    assert rows["raw"][4] == b"" and rows["detail"][4].decode() == 'größer "als" 1'
    raw = f[rows["raw"][5].decode()]
    assert raw.attrs["key"] == "sum|mpi|1048576|2"
    assert raw["enter"].shape == (2, 3) and raw["enter"][1, 0] == 0.1 / 3 + 1 and raw["exit"][0, 2] == 1.3
    assert s["fits"]["held_out_error"][0] == 0.1 / 3 and s["fits"]["beta"][0] == 1e-10 / 3
    assert s["forecasts"]["error"][0] == 0.1 / 3 and s["forecasts"]["named"][0] and not s["forecasts"]["beyond"][0]
    assert s["findings"]["rule"][0] == b"t(S) <= t(S')" and s["findings"]["cells"][0] == 3
    assert s["links"]["level"][0] == b"node" and s["links"]["alpha"][0] == 3e-7
    for name in ("rows", "fits", "forecasts", "findings", "links"):
        assert all(s[name].attrs["field_descriptions"]) and tuple(s[name].attrs["field_names"]) == s[name].dtype.names
)py"),
            0);
}

TEST_F(ScalingFile, is_read_and_plotted_by_our_reader) {
  EXPECT_EQ(run(R"py(
import read_results
table = read_results.scaling("s.h5")
assert len(table) == 6 and table.task[0] == "sum" and table.attrs["units"]["seconds"] == "s"
assert list(read_results.scaling("s.h5", "fits").held_out_bytes) == [1048576]
read_results.plot_scaling("s.h5", "sum", "s.png")
assert open("s.png", "rb").read(8) == b"\x89PNG\r\n\x1a\n"
try:
    read_results.plot_scaling("s.h5", "other", "t.png")
    raise SystemExit("plotted a task that is not there")
except KeyError as error:
    assert "other" in str(error)
)py"),
            0);
}

TEST(ScalingRead, gives_back_rows_and_links_without_raw_samples) {
  const testing_support::TemporaryFolder folder;
  ScalingStudy study = sample_study();
  write_run_file(folder / "s.h5", Provenance(), {}, &study);
  const auto back = read_scaling_study(folder / "s.h5");
  ASSERT_TRUE(back);
  ASSERT_EQ(back->rows.size(), study.rows.size());
  for (std::size_t i = 0; i < study.rows.size(); ++i) {
    study.rows[i].enter.clear();
    study.rows[i].exit.clear();
    EXPECT_EQ(to_json(back->rows[i]), to_json(study.rows[i]));
  }
  ASSERT_EQ(back->links.size(), 1u);
  EXPECT_EQ(back->links[0].level, "node");
  EXPECT_EQ(back->links[0].alpha, 3e-7);
  EXPECT_TRUE(back->fits.empty());
}

TEST(ScalingRead, finds_no_study_in_a_run) {
  const testing_support::TemporaryFolder folder;
  write_run_file(folder / "run.h5", Provenance(), {});
  EXPECT_FALSE(read_scaling_study(folder / "run.h5"));
  std::ofstream(folder / "text.h5") << "not HDF5";
  try {
    (void)read_scaling_study(folder / "text.h5");
    ADD_FAILURE() << "read a text as a study";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, Error::Kind::bad_input);
    EXPECT_EQ(std::string(e.what()).rfind((folder / "text.h5").string(), 0), 0u) << e.what();
  }
}

TEST_F(ScalingFile, several_of_them_are_one_study_for_our_reader) {
  ScalingStudy one = sample_study(), two = sample_study();
  one.rows.resize(3);
  two.rows.erase(two.rows.begin(), two.rows.begin() + 2);  // both hold the row of one rank and 1 MiB
  for (ScalingRow& row : two.rows) row.weak_efficiency = row.strong_efficiency = 0;
  two.rows[0].seconds *= 2;
  write_run_file(folder_ / "1.h5", collect_local({"faibench", "scale"}), {}, &one);
  write_run_file(folder_ / "2.h5", collect_local({"faibench", "scale"}), {}, &two);
  EXPECT_EQ(run(R"py(
import read_results
rows = read_results.scaling(["1.h5", "2.h5"])
assert list(rows.ranks) == [1, 1, 1, 2, 2, 2] and rows.attrs["units"]["seconds"] == "s"
assert rows.seconds[2] == read_results.scaling("1.h5").seconds[2], "of a row that is in both files the first one stands"
for of_one, of_two in ((0, 3), (2, 5)):
    assert abs(rows.weak_efficiency[of_two] - rows.seconds[of_one] / rows.seconds[of_two]) < 1e-12
    assert abs(rows.strong_efficiency[of_two] - rows.weak_efficiency[of_two] / 2) < 1e-12
assert rows.weak_efficiency[4] == 0, "not timed"
assert len(read_results.scaling(["1.h5", "2.h5"], "links")) == 2
read_results.plot_scaling(["1.h5", "2.h5"], "sum", "s.png")
)py"),
            0);
}

}  // namespace
}  // namespace faibench
