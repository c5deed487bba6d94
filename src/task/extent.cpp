#include "task/extent.h"

#include <cctype>
#include <charconv>

#include "tensor/error.h"

namespace faibench {

std::optional<std::int64_t> Dims::find(std::string_view letter) const {
  for (const auto& [name, value] : values_)
    if (name == letter) return value;
  return std::nullopt;
}

std::int64_t Dims::at(std::string_view letter) const {
  if (auto value = find(letter)) return *value;
  throw Error(Error::Kind::internal, "dimension '" + std::string(letter) + "' has no value");
}

void Dims::set(std::string_view letter, std::int64_t value) {
  for (auto& [name, old] : values_)
    if (name == letter) {
      old = value;
      return;
    }
  values_.emplace_back(letter, value);
}

struct Extent::Node {
  enum class Kind { number, letter, add, subtract, multiply, divide, ceil_divide };
  Kind kind;
  std::int64_t number = 0;
  std::string letter;
  std::shared_ptr<const Node> left, right;

  [[nodiscard]] std::optional<std::int64_t> value(const Dims& dims) const {
    if (kind == Kind::number) return number;
    if (kind == Kind::letter) return dims.find(letter);
    const auto a = left->value(dims), b = right->value(dims);
    if (!a || !b) return std::nullopt;
    std::int64_t result = 0;
    bool overflow = false;
    switch (kind) {
      case Kind::add: overflow = __builtin_add_overflow(*a, *b, &result); break;
      case Kind::subtract: overflow = __builtin_sub_overflow(*a, *b, &result); break;
      case Kind::multiply: overflow = __builtin_mul_overflow(*a, *b, &result); break;
      case Kind::divide: result = *b == 0 ? 0 : *a / *b; break;
      default: result = *b == 0 ? 0 : *a / *b + (*a % *b > 0); break;
    }
    return overflow ? -1 : result;
  }
};

struct ExtentParser {
  using Node = Extent::Node;
  using NodePtr = std::shared_ptr<const Node>;
  std::string_view text;
  std::size_t at = 0;

  [[noreturn]] void fail() const { throw Error(Error::Kind::internal, "contract: '" + std::string(text) + "' is no extent"); }
  bool take(char c) {
    while (at < text.size() && text[at] == ' ') ++at;
    if (at >= text.size() || text[at] != c) return false;
    ++at;
    return true;
  }
  static NodePtr make(Node::Kind kind, NodePtr left, NodePtr right) { return std::make_shared<Node>(Node{kind, 0, {}, std::move(left), std::move(right)}); }
  NodePtr sum() {
    NodePtr left = product();
    for (;;) {
      if (take('+')) left = make(Node::Kind::add, left, product());
      else if (take('-')) left = make(Node::Kind::subtract, left, product());
      else return left;
    }
  }
  NodePtr product() {
    NodePtr left = atom();
    for (;;) {
      if (take('*')) left = make(Node::Kind::multiply, left, atom());
      else if (take('/')) left = make(Node::Kind::divide, left, atom());
      else return left;
    }
  }
  NodePtr atom() {
    if (take('(')) {
      NodePtr inside = sum();
      if (!take(')')) fail();
      return inside;
    }
    const std::size_t start = at;
    while (at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_' || text[at] == '\'')) ++at;
    const std::string word(text.substr(start, at - start));
    if (word.empty()) fail();
    if (word == "ceil") {
      NodePtr inside = atom();
      if (inside->kind != Node::Kind::divide) fail();
      return make(Node::Kind::ceil_divide, inside->left, inside->right);
    }
    if (std::isdigit(static_cast<unsigned char>(word[0]))) {
      std::int64_t number = 0;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
      if (error != std::errc() || end != word.data() + word.size()) fail();
      return std::make_shared<Node>(Node{Node::Kind::number, number, {}, {}, {}});
    }
    return std::make_shared<Node>(Node{Node::Kind::letter, 0, word, {}, {}});
  }
};

Extent::Extent(std::string text) : text_(std::move(text)) {
  ExtentParser parser{text_};
  root_ = parser.sum();
  if (parser.at != text_.size()) parser.fail();
  const Node& top = *root_;
  if (top.kind == Node::Kind::letter) letter_ = top.letter;
  if ((top.kind == Node::Kind::add || top.kind == Node::Kind::subtract) && top.left->kind == Node::Kind::letter && top.right->kind == Node::Kind::number) {
    letter_ = top.left->letter;
    addend_ = top.kind == Node::Kind::add ? top.right->number : -top.right->number;
  }
}

std::optional<std::int64_t> Extent::value(const Dims& dims) const { return root_->value(dims); }

bool Extent::bind(Dims& dims, std::int64_t size) const {
  if (letter_.empty() || dims.find(letter_)) return false;
  dims.set(letter_, size - addend_);
  return true;
}

}  // namespace faibench
