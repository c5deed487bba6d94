// Arithmetic coding of integers in bytes (G. N. N. Martin's range coder, with carries as in LZMA).
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace faibench::grad_signsgd_error_feedback {

/// An interval [low, low + range) of 32 bits shrinks with every symbol; bytes that cannot change any more leave it.
class RangeEncoder {
 public:
  /// A symbol that owns [start, start + width) of `total` <= 2^16 equally likely places.
  void put(std::uint32_t start, std::uint32_t width, std::uint32_t total) {
    const std::uint32_t unit = range_ / total;
    low_ += static_cast<std::uint64_t>(unit) * start;
    range_ = unit * width;
    while (range_ < (1u << 24)) {
      shift();
      range_ <<= 8;
    }
  }
  /// value in 0 .. total-1, all equally likely; total up to 2^32.
  void put_uniform(std::uint64_t value, std::uint64_t total) {
    if (total > 1 << 16) {
      put_uniform(value >> 16, ((total - 1) >> 16) + 1);
      put(static_cast<std::uint32_t>(value & 0xffff), 1, 1 << 16);
    } else if (total > 1) {
      put(static_cast<std::uint32_t>(value), 1, static_cast<std::uint32_t>(total));
    }
  }
  /// The bytes; zeros at the end are left out, the decoder reads zeros there.
  std::vector<std::uint8_t> finish() {
    // The number of the interval with the most zeros behind it.
    for (int bits = 31; bits >= 0; --bits) {
      const std::uint64_t mask = (std::uint64_t{1} << bits) - 1, rounded = (low_ + mask) & ~mask;
      if (rounded < low_ + range_) {
        low_ = rounded;
        break;
      }
    }
    for (int i = 0; i < 5; ++i) shift();
    bytes_.erase(bytes_.begin());  // the byte before the first: always 0
    while (!bytes_.empty() && bytes_.back() == 0) bytes_.pop_back();
    return std::move(bytes_);
  }

 private:
  void shift() {
    if (low_ < 0xff000000u || low_ > 0xffffffffu) {  // no carry can reach the bytes held back, or it just did
      const auto carry = static_cast<std::uint8_t>(low_ >> 32);
      bytes_.push_back(static_cast<std::uint8_t>(held_ + carry));
      for (; held_ones_ > 0; --held_ones_) bytes_.push_back(static_cast<std::uint8_t>(0xff + carry));
      held_ = static_cast<std::uint8_t>(low_ >> 24);
    } else {
      ++held_ones_;
    }
    low_ = (low_ & 0x00ffffffu) << 8;
  }

  std::uint64_t low_ = 0;
  std::uint32_t range_ = 0xffffffffu;
  std::uint8_t held_ = 0;
  std::int64_t held_ones_ = 0;
  std::vector<std::uint8_t> bytes_;
};

/// Any bytes decode to something; past their end come zeros.
class RangeDecoder {
 public:
  explicit RangeDecoder(std::span<const std::uint8_t> bytes) : bytes_(bytes) {
    for (int i = 0; i < 4; ++i) code_ = code_ << 8 | next();
  }
  /// The place that the next symbol owns, of `total`; to be followed by take().
  std::uint32_t place(std::uint32_t total) {
    unit_ = range_ / total;
    const std::uint32_t place = code_ / unit_;
    return place < total ? place : total - 1;
  }
  void take(std::uint32_t start, std::uint32_t width) {
    code_ -= unit_ * start;
    range_ = unit_ * width;
    while (range_ < (1u << 24)) {
      code_ = code_ << 8 | next();
      range_ <<= 8;
    }
  }
  std::uint64_t uniform(std::uint64_t total) {
    if (total > 1 << 16) {
      const std::uint64_t high = uniform(((total - 1) >> 16) + 1), value = high << 16 | uniform(1 << 16);
      return value < total ? value : total - 1;
    }
    if (total <= 1) return 0;
    const std::uint32_t value = place(static_cast<std::uint32_t>(total));
    take(value, 1);
    return value;
  }

 private:
  std::uint32_t next() { return at_ < bytes_.size() ? bytes_[at_++] : 0; }
  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;
  std::uint32_t code_ = 0, range_ = 0xffffffffu, unit_ = 1;
};

/// A yes or no whose probability is learnt as it goes: shares of 2^12, moved by 1/32 of the way.
class AdaptiveBit {
 public:
  explicit AdaptiveBit(std::uint32_t share_of_no) : no_(share_of_no) {}
  void put(RangeEncoder& coder, bool yes) {
    if (yes) coder.put(no_, whole - no_, whole);
    else coder.put(0, no_, whole);
    learn(yes);
  }
  bool get(RangeDecoder& coder) {
    const bool yes = coder.place(whole) >= no_;
    if (yes) coder.take(no_, whole - no_);
    else coder.take(0, no_);
    learn(yes);
    return yes;
  }

 private:
  static constexpr std::uint32_t whole = 1 << 12;
  void learn(bool yes) { no_ = yes ? no_ - (no_ >> 5) : no_ + ((whole - no_) >> 5); }  // stays within 31 .. 4065
  std::uint32_t no_;
};

}  // namespace faibench::grad_signsgd_error_feedback
