// A judge that says what a test wants, with the words that an order of that item deserves.
#pragma once
#include <deque>
#include <memory>

#include "cluster/rank_worker.h"

namespace faibench::testing_support {

class FakeJudge final : public Judge {
 public:
  explicit FakeJudge(std::deque<JudgeProcess::Outcome> outcomes, std::string stage = "case a") : outcomes_(std::move(outcomes)), stage_(std::move(stage)) {}
  std::optional<JudgeProcess::Outcome> poll() override {
    if (outcomes_.empty()) return std::nullopt;
    auto outcome = outcomes_.front();
    outcomes_.pop_front();
    return outcome;
  }
  std::string stage() const override { return stage_; }
  int descriptor() const override { return -1; }

 private:
  std::deque<JudgeProcess::Outcome> outcomes_;
  std::string stage_;
};

}  // namespace faibench::testing_support
