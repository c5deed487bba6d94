// The many-step gate: an optimiser's view of the compressor, over streams whose gradients nobody can know beforehand.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <numbers>
#include <vector>

#include "collectives/grad_signsgd_error_feedback/streams.h"

namespace faibench::grad_signsgd_error_feedback {
namespace {

constexpr std::int64_t block = 4096;
constexpr double most_error = 16;

struct Size {
  std::int64_t n, open_steps, closed_steps;  // 0 steps: without that stream
  int ranks;
  bool judged;  // whether there are enough steps for the bounds over many of them
};
Size size_of(const std::string& workload) {
  if (workload == "smoke") return {10000, 3, 3, 2, false};
  if (workload == "gpu") return {std::int64_t{1} << 26, 64, 0, 1, false};
  return {std::int64_t{1} << 16, 2048, 768, 4, true};
}

double norm(std::span<const float> v) {
  double sum = 0;
  for (float x : v) sum += static_cast<double>(x) * x;
  return std::sqrt(sum);
}

Mismatch broken(std::string what) { return {"", {}, "", "", 0, std::move(what)}; }

/// t3/sqrt(3), t3 of Student's t with 3 degrees of freedom: x/sqrt(1 - x^2) for x of a point (x, y) uniform in the unit disc. (With x = sin a the density 2/pi*sqrt(1 - x^2)
/// of x is 2/pi*cos^2 a of a, and so 2/pi/(1 + v^2)^2 of v = tan a, which is that of t3/sqrt(3).)
class HeavyTails {
 public:
  explicit HeavyTails(const Random& random) : random_(random), bits_(1 << 16) {}
  void fill(std::span<float> out) {
    for (std::size_t i = 0; i < out.size();) {
      if (at_ + 2 > bits_.size() || fresh_) {
        random_.fill_bits(bits_);
        at_ = 0;
        fresh_ = false;
      }
      const double x = (static_cast<double>(bits_[at_]) + 0.5) * 0x1p-31 - 1, y = (static_cast<double>(bits_[at_ + 1]) + 0.5) * 0x1p-31 - 1;
      at_ += 2;
      if (x * x + y * y < 1) out[i++] = static_cast<float>(x / std::sqrt(1 - x * x));
    }
  }

 private:
  Random random_;
  std::vector<std::uint32_t> bits_;
  std::size_t at_ = 0;
  bool fresh_ = true;
};

/// a_b = 10^(-2*pi(b)/(nb-1)), pi a random permutation of the blocks; times exp(0.5*N(0,1)), by element.
std::vector<double> scales(Random& random, std::int64_t n) {
  const std::int64_t blocks = (n + block - 1) / block;
  const std::vector<std::int64_t> order = random.permutation(blocks);
  std::vector<float> spread(static_cast<std::size_t>(n));
  random.fill_normal(spread);
  std::vector<double> s(spread.size());
  for (std::size_t i = 0; i < s.size(); ++i) {
    const double place = static_cast<double>(order[i / block]) / static_cast<double>(std::max<std::int64_t>(blocks - 1, 1));
    s[i] = stable_exp(-2 * std::numbers::ln10 * place + 0.5 * spread[i]);
  }
  return s;
}

/// What the harness keeps of one rank between steps.
struct Sender {
  std::vector<float> error;
  std::vector<std::uint8_t> state;
};

class Run {
 public:
  Run(Stream::Calls& calls, std::int64_t n, bool to_the_end) : calls_(calls), n_(n), layout_{1, n}, update_(static_cast<std::size_t>(n)), to_the_end_(to_the_end) {}

  /// One step of one rank: sent, received by the other process, checked. False: the stream ends.
  bool step(Sender& sender, std::span<float> grad, std::int64_t step) {
    TensorRefMap inputs, sent, received;
    std::int32_t rank = 0;
    std::int64_t no_peers = 0;
    const auto add = [](TensorRefMap& map, const char* name, Dtype dtype, Shape shape, const void* data) { map.add(name, {dtype, std::move(shape), const_cast<std::byte*>(static_cast<const std::byte*>(data))}); };
    add(inputs, "grad", Dtype::f32, {n_}, grad.data());
    add(inputs, "error", Dtype::f32, {n_}, sender.error.data());
    add(inputs, "state", Dtype::u8, {static_cast<std::int64_t>(sender.state.size())}, sender.state.data());
    add(inputs, "step", Dtype::i64, {}, &step);
    add(inputs, "layout", Dtype::i64, {1, 2}, layout_);
    add(inputs, "rank", Dtype::i32, {}, &rank);
    add(inputs, "peers", Dtype::u8, {0}, sender.state.data());
    add(inputs, "peer_offsets", Dtype::i64, {1}, &no_peers);
    if (!calls_.send(inputs, sent)) return end();
    const std::string where = " at step " + std::to_string(step);
    double contraction = 0;
    if (auto bad = check_step_of(inputs.at("grad"), inputs.at("error"), sent, contraction)) return found(std::move(*bad), where);
    contraction_ = std::max(contraction_, contraction);
    const auto format = sent.at("format").scalar<std::int32_t>();
    if (format_ == 0) format_ = format;
    if (format != format_) return found(broken("format changed from " + std::to_string(format_) + " to " + std::to_string(format)), where);
    const TensorRef& payload = sent.at("payload");
    bytes_ += static_cast<double>(payload.bytes());
    longest_ = std::max(longest_, static_cast<double>(payload.bytes()));
    ++payloads_;
    std::memcpy(update_.data(), sent.at("update").data, 4 * update_.size());
    std::memcpy(sender.error.data(), sent.at("new_error").data, 4 * update_.size());
    const auto state = sent.at("new_state").flat<const std::uint8_t>();
    sender.state.assign(state.begin(), state.end());

    TensorRefMap wire;
    add(wire, "format", Dtype::i32, {}, &format);
    wire.add("payload", payload);
    add(wire, "n", Dtype::i64, {}, &n_);
    add(wire, "step", Dtype::i64, {}, &step);
    add(wire, "layout", Dtype::i64, {1, 2}, layout_);
    if (!calls_.receive(wire, received)) return end();
    const TensorRef* decoded = received.find("update");
    if (!decoded || decoded->bytes() != 4 * n_) return found(broken("the receiver gave no update of n elements"), where);
    if (std::memcmp(decoded->data, update_.data(), 4 * update_.size()) != 0) {
      const auto got = decoded->flat<const float>();
      const auto at = static_cast<std::size_t>(std::mismatch(got.begin(), got.end(), update_.begin(), [](float a, float b) { return std::memcmp(&a, &b, 4) == 0; }).first - got.begin());
      return found({"update", {static_cast<std::int64_t>(at)}, std::to_string(update_[at]), std::to_string(got[at]), 0, "a receiver decodes something else than the sender's update"}, where);
    }
    largest_gradient_ = std::max(largest_gradient_, norm(grad));
    const double error = norm(sender.error);
    if (largest_gradient_ > 0) largest_error_ = std::max(largest_error_, error / largest_gradient_);
    return to_the_end_ || (contraction_ <= most_contraction && largest_error_ <= most_error);
  }
  /// What holds of any stream, at its end.
  void add_bounds(std::vector<Bound>& bounds) const {
    const double mean = bytes_ / static_cast<double>(std::max<std::int64_t>(payloads_, 1));
    bounds.push_back({"norm of new_error, in those of grad + error (contraction)", contraction_, most_contraction, true});
    bounds.push_back({"norm of the error, in largest gradients", largest_error_, most_error, true});
    bounds.push_back({"longest payload, in bytes (more is a burst)", longest_, 2 * mean + 64, true});
  }
  bool found(Mismatch bad, const std::string& where) {
    bad.what += where;
    mismatch_ = std::move(bad);
    return false;
  }
  std::span<const float> update() const { return update_; }
  double ratio() const { return 4.0 * static_cast<double>(n_) * static_cast<double>(payloads_) / std::max(bytes_, 1.0); }
  double largest_gradient() const { return largest_gradient_; }
  std::int64_t payloads() const { return payloads_; }
  const GateResult& mismatch() const { return mismatch_; }
  bool ended() const { return ended_; }

 private:
  bool end() {
    ended_ = true;
    return false;
  }

  Stream::Calls& calls_;
  std::int64_t n_;
  std::int64_t layout_[2];
  std::vector<float> update_;
  bool to_the_end_;
  std::int32_t format_ = 0;
  double bytes_ = 0, longest_ = 0, largest_gradient_ = 0, largest_error_ = 0, contraction_ = 0;
  std::int64_t payloads_ = 0;
  GateResult mismatch_;
  bool ended_ = false;
};

Sender fresh(std::int64_t n) { return {std::vector<float>(static_cast<std::size_t>(n)), {}}; }

/// Stream O: a fixed drift under fresh noise. What was applied must keep up with what there was, in every block.
void open_loop(const Size& size, Random random, Run& run, std::vector<Bound>& bounds) {
  const auto n = static_cast<std::size_t>(size.n);
  const std::vector<double> s = scales(random, size.n);
  std::vector<float> drift(n), grad(n), noise(n);
  random.fill_normal(drift);
  for (std::size_t i = 0; i < n; ++i) drift[i] = static_cast<float>(0.1 * s[i] * drift[i]);
  HeavyTails tails(random.stream(1));
  std::vector<double> gradients(n), left(n);  // sums over the steps: of g, and of g - update
  Sender sender = fresh(size.n);
  double half_way = 0;
  for (std::int64_t t = 0; t < size.open_steps; ++t) {
    tails.fill(noise);
    for (std::size_t i = 0; i < n; ++i) grad[i] = static_cast<float>(drift[i] + s[i] * noise[i]);
    if (!run.step(sender, grad, t)) return;
    for (std::size_t i = 0; i < n; ++i) {
      gradients[i] += grad[i];
      left[i] += static_cast<double>(grad[i]) - run.update()[i];
    }
    if (t + 1 == size.open_steps / 2) half_way = norm(sender.error);
  }
  double all_left = 0, all = 0, worst = 0;
  std::size_t worst_block = 0;
  for (std::size_t first = 0; first < n; first += block) {
    double block_left = 0, block_all = 0;
    for (std::size_t i = first; i < std::min(first + block, n); ++i) {
      block_left += left[i] * left[i];
      block_all += gradients[i] * gradients[i];
    }
    all_left += block_left;
    all += block_all;
    if (const double share = std::sqrt(block_left / block_all); share > worst) {
      worst = share;
      worst_block = first / block;
    }
  }
  if (!size.judged) return;
  bounds.push_back({"share of the summed gradient that is missing from the summed updates (tracking)", std::sqrt(all_left / all), 0.1, true});
  bounds.push_back({"the same share of the worst block, " + std::to_string(worst_block) + " (starved above)", worst, 0.7, true});
  bounds.push_back({"norm of the error at the end (grows above 1.5 of half-way + largest gradient)", norm(sender.error), 1.5 * half_way + run.largest_gradient(), true});
}

/// Stream C: gradient descent on a quadratic bowl, with every rank's own noise. It must get down nearly as far as with uncompressed gradients.
void closed_loop(const Size& size, Random random, Run& run, std::vector<Bound>& bounds) {
  const auto n = static_cast<std::size_t>(size.n);
  std::vector<double> h = scales(random, size.n), deviation(n), mean(n), plain_mean(n);
  for (double& x : h) x = std::min(1.0, x);
  std::vector<float> start(n), noise(n), grad(n);
  random.fill_normal(start);
  for (std::size_t i = 0; i < n; ++i) deviation[i] = 0.3 * std::sqrt(h[i]);
  std::vector<double> w(start.begin(), start.end()), plain = w;
  const auto f = [&](const std::vector<double>& at) {
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += h[i] * at[i] * at[i] / 2;
    return sum;
  };
  const double first = f(w);
  double last = 0, plain_last = 0;
  HeavyTails tails(random.stream(1));
  std::vector<Sender> senders(static_cast<std::size_t>(size.ranks), fresh(size.n));
  const std::int64_t tail = std::max<std::int64_t>(1, size.closed_steps / 8);
  for (std::int64_t t = 0; t < size.closed_steps; ++t) {
    std::fill(mean.begin(), mean.end(), 0.0);
    std::fill(plain_mean.begin(), plain_mean.end(), 0.0);
    for (Sender& sender : senders) {
      tails.fill(noise);
      for (std::size_t i = 0; i < n; ++i) {
        const double z = deviation[i] * noise[i];
        grad[i] = static_cast<float>(h[i] * w[i] + z);
        plain_mean[i] += h[i] * plain[i] + z;
      }
      if (!run.step(sender, grad, t)) return;
      for (std::size_t i = 0; i < n; ++i) mean[i] += run.update()[i];
    }
    for (std::size_t i = 0; i < n; ++i) {
      w[i] -= 0.2 * static_cast<float>(mean[i] / size.ranks);
      plain[i] -= 0.2 * plain_mean[i] / size.ranks;
    }
    if (t >= size.closed_steps - tail) {
      last += f(w) / static_cast<double>(tail);
      plain_last += f(plain) / static_cast<double>(tail);
    }
  }
  if (size.judged) bounds.push_back({"share of the uncompressed descent", (first - last) / (first - plain_last), 0.97, false});
}

Stream::Result drive(const std::string& workload, std::uint64_t seed, Stream::Calls& calls) {
  Stream::Result result;
  for (const char which : {'O', 'C'}) {
    const Measured measured = measure_stream(which, workload, seed, calls, false);
    if (measured.steps == 0 && !measured.mismatch && !measured.ended) continue;  // the workload has no such stream
    result.steps += measured.steps;
    result.mismatch = measured.mismatch;
    char line[400];
    for (const Bound& bound : measured.bounds) {
      if (!result.mismatch && !bound.holds()) {
        std::snprintf(line, sizeof line, "stream %c, payload %lld: %s is %.4g, %s %.4g", which, static_cast<long long>(measured.steps), bound.name.c_str(), bound.value, bound.at_most ? "at most" : "at least", bound.limit);
        result.mismatch = broken(line);
      }
    }
    if (measured.ended || result.mismatch) return result;
    std::string found;  // each figure of the limit that it is held against
    for (const Bound& bound : measured.bounds) {
      std::snprintf(line, sizeof line, "%s%.3g of %.3g", found.empty() ? "" : ", ", bound.value, bound.limit);
      found += line;
    }
    std::snprintf(line, sizeof line, "%c: ratio %.1f (%s); ", which, measured.ratio, found.c_str());
    result.figures += line;
    result.ratio = result.ratio > 0 ? std::min(result.ratio, measured.ratio) : measured.ratio;
  }
  return result;
}

Rejected decode_sign_block(std::int32_t /*format*/, Bytes payload, std::int64_t n, std::int64_t /*step*/, Layout /*layout*/, View<float, 1> update) {
  if (auto bad = sign_block::check(payload.flat(), n, 0)) return bad;
  sign_block::decode(payload.flat(), update.flat());
  return std::nullopt;
}

}  // namespace

Measured measure_stream(char which, const std::string& workload, std::uint64_t seed, Stream::Calls& calls, bool to_the_end) {
  const Size size = size_of(workload);
  const Random random("grad_signsgd_error_feedback", "stream", seed, 0);
  Measured measured;
  if ((which == 'O' ? size.open_steps : size.closed_steps) == 0) return measured;
  Run run(calls, size.n, to_the_end);
  if (which == 'O') open_loop(size, random.stream(1), run, measured.bounds);
  else closed_loop(size, random.stream(2), run, measured.bounds);
  run.add_bounds(measured.bounds);
  measured.steps = run.payloads();
  measured.mismatch = run.mismatch();
  measured.ended = run.ended();
  measured.ratio = run.ratio();
  return measured;
}

Stream many_steps() {
  Stream stream;
  stream.text =
      "streams O (open loop, 2048 steps) and C (closed loop, 4 ranks, 768 steps) of n = 2^16, seeds drawn at run time; another process decodes every payload to the sender's update, bit for bit; "
      "conservation and contraction at every step; no payload over 2*mean + 64 bytes; O: missing <= 0.1 of the summed gradient, <= 0.7 in every block, the error bounded and not growing; "
      "C: >= 0.97 of the uncompressed descent; error norms <= 16 * largest gradient norm";
  stream.receiver.input("format", {Dtype::i32}, {}, "wire format");
  stream.receiver.input("payload", {Dtype::u8}, {"B"}, "what a rank put on the wire");
  stream.receiver.input("n", {Dtype::i64}, {}, "elements of the bucket");
  stream.receiver.input("step", {Dtype::i64}, {}, "step number");
  stream.receiver.input("layout", {Dtype::i64}, {"L", "2"}, "rows and cols of each matrix");
  stream.receiver.output("update", {Dtype::f32}, {"n"}, "what the payload stands for");
  stream.decoder = Kernel({bind(decode_sign_block, {"format", "payload", "n", "step", "layout", "update"})});
  stream.drive = drive;
  return stream;
}

}  // namespace faibench::grad_signsgd_error_feedback
