// A short identity of every compile request of a batch: the one signature of all variants.
#pragma once
#include <string_view>

#include "task/contract.h"
#include "tensor/view.h"

namespace faibench::compile_cache_key_canon {

/// Gives documents the same digest if and only if they are equivalent (equal canonical signatures, see the contract).
///   documents [B]     UTF-8 JSON texts, one after another; may be anything, each is checked
///   offsets [N+1]     document i is bytes offsets[i] .. offsets[i+1]-1
///   digest [N, 16]    identity of each document, a function of that document alone; untouched when the batch is rejected
/// Rejects the first document that is no JSON object of the contract's form (bad_document), else the first with a field against the rules (bad_field).
/// The baseline's digests are sound (equal only for equivalent documents) but not complete. Reads B bytes, writes 16*N. Thread-safe.
namespace reference { Rejected canonical_digests(std::string_view documents, View<const std::int64_t, 1> offsets, View<std::uint8_t, 2> digest); }
namespace baseline { Rejected canonical_digests(std::string_view documents, View<const std::int64_t, 1> offsets, View<std::uint8_t, 2> digest); }
namespace cpu { Rejected canonical_digests(std::string_view documents, View<const std::int64_t, 1> offsets, View<std::uint8_t, 2> digest); }

}  // namespace faibench::compile_cache_key_canon
