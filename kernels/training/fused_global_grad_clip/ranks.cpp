// The multi-rank form: contract, shards, gate, workloads, scaling. The cases are in rank_cases.cpp.
#include "kernels/training/fused_global_grad_clip/ranks.h"

#include <cmath>
#include <cstring>

#include "kernels/training/fused_global_grad_clip/fused_global_grad_clip.h"
#include "kernels/training/fused_global_grad_clip/workloads.h"
#include "schedule/traffic.h"

namespace faibench::fused_global_grad_clip {
namespace {

std::vector<std::int64_t> sizes_of(const TensorRef& offsets) {
  const auto values = offsets.flat<const std::int64_t>();
  std::vector<std::int64_t> sizes;
  for (std::size_t k = 0; k + 1 < values.size(); ++k) sizes.push_back(values[k + 1] - values[k]);
  return sizes;
}

TensorMap shard(const TensorMap& whole, int rank, int ranks) {
  const TensorRef& grads = whole.at("grads").ref();
  const std::vector<std::int64_t> sizes = sizes_of(whole.at("offsets").ref());
  const std::int64_t element = size_of(grads.dtype);
  std::int64_t length = 0;
  for (const std::int64_t size : sizes) length += share_of(size, rank, ranks).count;
  TensorMap inputs;
  std::byte* into = inputs.add("grads", Tensor(grads.dtype, {length})).data();
  std::int64_t start = 0;
  for (const std::int64_t size : sizes) {
    const Share share = share_of(size, rank, ranks);
    if (share.count > 0) std::memcpy(into, grads.data + element * (start + share.first), static_cast<std::size_t>(element * share.count));
    into += element * share.count;
    start += size;
  }
  inputs.add("sizes", Tensor::of({static_cast<std::int64_t>(sizes.size())}, sizes));
  inputs.add("max_norm", whole.at("max_norm").clone());
  inputs.add("error_if_nonfinite", whole.at("error_if_nonfinite").clone());
  return inputs;
}

/// All ranks' shares put together must pass the one-process gate; replicas and norms must have equal bits.
GateResult check_all_ranks(const TensorRefMap& whole, const std::vector<TensorMap>& outputs) {
  const TensorRef& grads = whole.at("grads");
  const std::vector<std::int64_t> sizes = sizes_of(whole.at("offsets"));
  const auto ranks = static_cast<int>(outputs.size());
  const std::int64_t element = size_of(grads.dtype);
  Tensor clipped(grads.dtype, {grads.shape[0]});
  for (int rank = 0; rank < ranks; ++rank) {
    const TensorMap& own = outputs[static_cast<std::size_t>(rank)];
    std::int64_t length = 0;
    for (const std::int64_t size : sizes) length += share_of(size, rank, ranks).count;
    const TensorRef forms[] = {{grads.dtype, {length}, nullptr}, {Dtype::f32, {}, nullptr}, {Dtype::f32, {static_cast<std::int64_t>(sizes.size())}, nullptr}};
    const char* const names[] = {"clipped", "total_norm", "tensor_norms"};
    for (int k = 0; k < 3; ++k) {
      const Tensor* out = own.find(names[k]);
      if (!out) return Mismatch{names[k], {}, "", "", 0, "output of rank " + std::to_string(rank) + " is missing"};
      if (auto bad = same_form(names[k], out->ref(), forms[k])) return bad;
      if (k > 0 && out->bytes() > 0 && std::memcmp(out->data(), outputs[0].at(names[k]).data(), static_cast<std::size_t>(out->bytes())) != 0)
        return Mismatch{names[k], {}, "", "", 0, "rank " + std::to_string(rank) + " and rank 0 differ in bits"};
    }
    const std::byte* from = own.at("clipped").data();
    std::int64_t start = 0;
    for (std::size_t k = 0; k < sizes.size(); ++k) {
      const Share share = share_of(sizes[k], rank, ranks);
      std::byte* const to = clipped.data() + element * (start + share.first);
      const auto bytes = static_cast<std::size_t>(element * share.count);
      if (bytes > 0 && sizes[k] < sharded_from && rank > 0 && std::memcmp(to, from, bytes) != 0)
        return Mismatch{"clipped", {}, "", "", 0, "the replicas of tensor " + std::to_string(k) + " on rank " + std::to_string(rank) + " and rank 0 differ in bits"};
      if (bytes > 0) std::memcpy(to, from, bytes);
      from += bytes;
      start += sizes[k];
    }
  }
  if (outputs.empty()) return Mismatch{"clipped", {}, "", "", 0, "no rank gave an output"};

  TensorMap wanted;
  wanted.add("clipped", Tensor(grads.dtype, {grads.shape[0]}));
  wanted.add("total_norm", Tensor(Dtype::f32, {}));
  wanted.add("tensor_norms", Tensor(Dtype::f32, {static_cast<std::int64_t>(sizes.size())}));
  const auto reference = [&]<class T>(T) {
    (void)reference::clip_gradients<T>(whole.at("grads").view<const T, 1>(), whole.at("offsets").view<const std::int64_t, 1>(), whole.at("max_norm").scalar<double>(), false,
                                       wanted.at("clipped").ref().view<T, 1>(), wanted.at("total_norm").ref().view<float, 0>(), wanted.at("tensor_norms").ref().view<float, 1>());
  };
  if (grads.dtype == Dtype::f32) reference(float());
  else reference(bf16());
  TensorRefMap got;
  got.add("clipped", clipped.ref());
  got.add("total_norm", outputs[0].at("total_norm").ref());
  got.add("tensor_norms", outputs[0].at("tensor_norms").ref());
  return check_clip({whole, got, refs(wanted), {}});
}

Rejected check_bound(const TensorRefMap& inputs) {
  const double max_norm = inputs.at("max_norm").scalar<double>();
  if (max_norm >= 0) return std::nullopt;
  return reject("bad_max_norm", "max_norm", -1, std::to_string(max_norm), "the bound must be 0 or more");
}
Rejected check_sizes(const TensorRefMap& inputs) {
  const auto sizes = inputs.at("sizes").flat<const std::int64_t>();
  for (std::size_t k = 0; k < sizes.size(); ++k)
    if (sizes[k] < 0 || sizes[k] > largest_size) return reject("bad_size", "sizes", static_cast<std::int64_t>(k), std::to_string(sizes[k]), "a tensor has 0 to 2^48 elements");
  return std::nullopt;
}
Rejected check_own_elements(const TensorRefMap& inputs) {
  const TensorRef& grads = inputs.at("grads");
  if (!inputs.at("error_if_nonfinite").scalar<Bool8>()) return std::nullopt;
  for (std::int64_t i = 0; i < grads.shape[0]; ++i) {
    const float value = grads.dtype == Dtype::f32 ? grads.flat<const float>()[static_cast<std::size_t>(i)] : to_float(grads.flat<const bf16>()[static_cast<std::size_t>(i)]);
    if (!std::isfinite(value)) return reject("nonfinite_norm", "grads", i, std::to_string(value), "the norm is not finite");
  }
  return std::nullopt;
}

/// K = S/8 tensors: every 16th is sharded, the others are small. Their elements cost little beside the all-reduce that is studied.
MultiRank::Scaling scaling() {
  MultiRank::Scaling scaling;
  scaling.sizes = {8, 24, 64, 1000, 4 << 10, 10'000, 64 << 10, 128 << 10};
  scaling.inputs = [](Random& random, int, std::int64_t bytes) {
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(std::max<std::int64_t>(1, bytes / 8)), 16);
    for (std::size_t k = 0; k < lengths.size(); k += 16) lengths[k] = sharded_from;
    return normal_gradients(random, lengths, Dtype::f32, 1e-3, 1e-3, 0.01);
  };
  scaling.size_of = [](const TensorMap& whole, int) { return 8 * (whole.at("offsets").shape()[0] - 1); };
  scaling.size_text = "bytes all-reduced: 8 a tensor, its squared norm in f64 (a tensor has 16 elements, every 16th 1024)";
  scaling.bus_formula = "2(P-1)/P";
  scaling.bus_factor = [](int ranks) { return 2.0 * (ranks - 1) / ranks; };
  scaling.schedule = [](std::int64_t bytes, const NodeMap& nodes) { return std::shared_ptr<const Schedule>(norms_schedule(std::max<std::int64_t>(1, bytes / 8), nodes)); };
  scaling.bound = [](std::int64_t bytes, int ranks) { return all_reduce_bound(bytes, ranks); };
  return scaling;
}

}  // namespace

MultiRank multi_rank() {
  MultiRank form;
  form.contract.input("grads", {Dtype::f32, Dtype::bf16}, {"L"}, "this rank's shares, tensor after tensor: all of a tensor of fewer than 1024 elements, else chunk r of ceil(n/P)", "any, Inf and NaN too");
  form.contract.input("sizes", {Dtype::i64}, {"K"}, "elements of each whole tensor, the same on all ranks", "0 .. 2^48");
  form.contract.input("max_norm", {Dtype::f64}, {}, "the bound, the same on all ranks", ">= 0; +Inf never clips");
  form.contract.input("error_if_nonfinite", {Dtype::bool_}, {}, "reject instead of scaling when the norm is Inf or NaN; the same on all ranks");
  form.contract.output_like("clipped", "grads", {"L"}, "the scaled gradients");
  form.contract.output("total_norm", {Dtype::f32}, {}, "norm of the whole before clipping; equal in every bit on all ranks");
  form.contract.output("tensor_norms", {Dtype::f32}, {"K"}, "norm of each whole tensor before clipping; equal in every bit on all ranks");
  // One rank alone can break each of them: the variants agree on the code, so that none leaves the others in a collective.
  form.contract.rule("bad_max_norm", "max_norm of some rank is NaN or negative (-0 counts as 0); all ranks report it", CheckedBy::variant, check_bound);
  form.contract.rule("bad_size", "a size on some rank is negative or above 2^48; all ranks report it", CheckedBy::variant, check_sizes);
  form.contract.rule("rank_mismatch", "sizes, dtype, max_norm or error_if_nonfinite differ between ranks, or grads of a rank are not its share of the sizes; all ranks report it", CheckedBy::variant,
                     [](const TensorRefMap&) { return Rejected(); });  // no rank can see it alone
  form.contract.rule("nonfinite_norm", "error_if_nonfinite and the norm of the whole is Inf or NaN; decided after the all-reduce, on all ranks alike", CheckedBy::variant, check_own_elements);
  form.variants = {{"mpi_baseline", run_mpi_baseline, "an all-reduce of one squared norm a tensor"},
                   {"mpi", run_mpi, "one all-reduce of all squared norms between two passes over the own shares"},
                   {"nccl", run_mpi, "the same over NCCL", false, true}};
  form.workloads = {
      {"smoke", "40 tensors, G about 100k, f32; normal(0, 1e-3), max_norm = 0.1: clipped",
       [](Random& random, int) {
         const std::vector<std::int64_t> lengths = small_lengths(random);
         return normal_gradients(random, lengths, Dtype::f32, 1e-3, 1e-3, 0.1);
       }},
      {"standard", "layout of a 24-layer transformer, hidden 1024, scaled to G about 1e7 (a tenth of the one-process size: every rank makes the whole), f32; sigma log-uniform in 1e-5 .. 1e-2; max_norm = 1",
       [](Random& random, int) { return normal_gradients(random, transformer_lengths(70), Dtype::f32, 1e-5, 1e-2, 1); }},
  };
  form.cases = rank_cases();
  form.identical = {"total_norm", "tensor_norms"};
  form.scaling = scaling();
  form.shard = shard;
  form.gate = check_all_ranks;
  form.wire_floor = [](const TensorMap& whole, int ranks) {
    const auto tensors = static_cast<double>(whole.at("offsets").shape()[0] - 1);
    return Floor{2.0 * (ranks - 1) / ranks * 8 * tensors, tensors};
  };
  return form;
}

}  // namespace faibench::fused_global_grad_clip
