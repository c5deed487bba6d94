// A dimension as the contract writes it: "B", "N+1", "T*K", "ceil(V/32)", "16".
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace faibench {

/// Values of dimension letters, in the order they were bound.
class Dims {
 public:
  [[nodiscard]] std::optional<std::int64_t> find(std::string_view letter) const;
  /// Throws Error(internal) on a letter without a value.
  [[nodiscard]] std::int64_t at(std::string_view letter) const;
  void set(std::string_view letter, std::int64_t value);
  [[nodiscard]] auto begin() const { return values_.begin(); }
  [[nodiscard]] auto end() const { return values_.end(); }

 private:
  std::vector<std::pair<std::string, std::int64_t>> values_;
};

/// An integer expression over letters: + - * / (rounding down), ceil(a/b), parentheses.
class Extent {
 public:
  /// Throws Error(internal) on text that is no such expression: contracts are code.
  explicit Extent(std::string text);
  [[nodiscard]] const std::string& text() const { return text_; }
  /// Empty while some letter has no value.
  [[nodiscard]] std::optional<std::int64_t> value(const Dims& dims) const;
  /// Binds the letter of "N", "N+c" or "N-c" to what makes this extent `size`; false if it is no such form or already bound.
  bool bind(Dims& dims, std::int64_t size) const;

 private:
  struct Node;
  std::string text_;
  std::shared_ptr<const Node> root_;
  std::string letter_;  // of the forms that bind
  std::int64_t addend_ = 0;
  friend struct ExtentParser;
};

}  // namespace faibench
