#include "cluster/item_key.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "temporary_folder.h"

namespace faibench {
namespace {

TEST(ItemKey, changes_with_everything_that_a_verdict_depends_on) {
  const ItemIdentity base{"t", "contract", "smoke", "cpu", 1, 1, "worker", "machine"};
  std::set<std::string> keys = {item_key(base)};
  const auto add = [&](auto change) {
    ItemIdentity other = base;
    change(other);
    EXPECT_TRUE(keys.insert(item_key(other)).second);
  };
  add([](ItemIdentity& i) { i.task = "u"; });
  add([](ItemIdentity& i) { i.contract = "another"; });
  add([](ItemIdentity& i) { i.workload = "standard"; });
  add([](ItemIdentity& i) { i.variant = "baseline"; });
  add([](ItemIdentity& i) { i.seed = 2; });
  add([](ItemIdentity& i) { i.ranks = 2; });
  add([](ItemIdentity& i) { i.worker_hash = "rebuilt"; });
  add([](ItemIdentity& i) { i.machine_class = "other"; });
  add([](ItemIdentity& i) { i.emulated = true; });
  add([](ItemIdentity& i) { i.task = "tcontract", i.contract = ""; });  // fields do not run together
  EXPECT_EQ(item_key(base).size(), 32u);
}

TEST(ItemKey, is_the_same_for_ever) {
  EXPECT_EQ(item_key({"t", "contract", "smoke", "cpu", 1, 1, "worker", "machine"}), item_key({"t", "contract", "smoke", "cpu", 1, 1, "worker", "machine"}));
}

TEST(ContractText, differs_between_tasks_and_with_each_word_of_the_contract) {
  std::set<std::string> texts;
  for (const Task* task : all_tasks()) EXPECT_TRUE(texts.insert(contract_text(*task, "smoke")).second) << task->name;

  Task task;
  task.name = "t";
  task.contract.input("x", {Dtype::f32}, {"N"}, "meaning");
  task.contract.output("y", {Dtype::f32}, {"N"}, "meaning");
  const std::string before = contract_text(task, "smoke");
  Task stricter = task;
  stricter.contract.rule("not_finite", "x holds NaN", CheckedBy::runner, [](const TensorRefMap&) { return Rejected(); });
  EXPECT_NE(contract_text(stricter, "smoke"), before);
  Task gated = task;
  gated.gate.text = "exact";
  EXPECT_NE(contract_text(gated, "smoke"), before);
  Task wider = task;
  wider.contract = {};
  wider.contract.input("x", {Dtype::f32, Dtype::f16}, {"N"}, "meaning");
  wider.contract.output("y", {Dtype::f32}, {"N"}, "meaning");
  EXPECT_NE(contract_text(wider, "smoke"), before);
  EXPECT_EQ(contract_text(task, "smoke"), before);
}

TEST(FileHash, is_of_the_bytes) {
  const testing_support::TemporaryFolder folder;
  const auto a = folder.path() / "a", b = folder.path() / "b";
  std::ofstream(a) << "same";
  std::ofstream(b) << "same";
  EXPECT_EQ(file_hash(a), file_hash(b));
  std::ofstream(b) << "other";
  EXPECT_NE(file_hash(a), file_hash(b));
  EXPECT_THROW(file_hash(folder.path() / "missing"), Error);
}

}  // namespace
}  // namespace faibench
