// The meaning of a compile request, written out: parse, check the fields, build the canonical signature.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace faibench::compile_cache_key_canon::reference {

enum class Fault { none, bad_document, bad_field };

/// What a document says. `signature` is set when there is no fault; two documents are equivalent if and only if theirs are equal.
struct Reading {
  Fault fault = Fault::none;
  std::size_t position = 0;  ///< of a bad_document: byte in the document
  std::string why;           ///< of a fault
  std::string signature;
};

Reading read(std::string_view document);
/// Only whether it is a document at all: `fault` is none or bad_document.
Reading read_syntax(std::string_view document);

}  // namespace faibench::compile_cache_key_canon::reference
