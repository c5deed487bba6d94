// Streams of the emulator on host code that is right, and on the ways in which it is wrong: each must give a fault that names work and stream, or a wrong result.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "cuda/runtime.h"
#include "emulator/device.h"
#include "emulator/planted.h"
#include "kernels/linalg/h2d_prefetch_compute_overlap/h2d_prefetch_compute_overlap.h"
#include "tensor/error.h"

namespace faibench::emulator {
namespace {

using cuda::copy;
using cuda::current_stream;
using cuda::Event;
using cuda::HostBuffer;
using cuda::OnStream;
using cuda::Stream;
using cuda::synchronize;
using cuda::Workspace;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using Kind = Fault::Kind;

constexpr int n = 70;
constexpr std::size_t bytes = n * sizeof(float);

/// y = x + 1 on that stream.
void add_one(const float* x, float* y, cudaStream_t stream, int count = n) {
  const OnStream on(stream);
  planted::add_one(x, y, count, planted::Bug::none);
}

/// Numbers in device memory, and page-locked ones of the host.
class Streams : public testing::Test {
 protected:
  Streams() : x(n, 1.0f), y(n, -1.0f), z(n, -1.0f), source(n, 5.0f), result(n, -1.0f) {
    for (auto* vector : {&x, &y, &z}) lent.push_back(std::make_unique<Lent>(vector->data(), bytes, "device", Lent::Access::read_write));
    for (auto* vector : {&source, &result}) lent.push_back(std::make_unique<Lent>(vector->data(), bytes, "host", Lent::Access::page_locked));
  }
  static void expect_fault(Kind kind, const testing::Matcher<const std::string&>& message, const std::function<void()>& call) {
    const auto fault = run_call(call);
    ASSERT_TRUE(fault.has_value()) << "no fault; wanted " << name_of(kind);
    EXPECT_EQ(name_of(fault->kind), name_of(kind)) << fault->message;
    EXPECT_THAT(fault->message, message);
  }
  static void expect_none(const std::function<void()>& call) {
    const auto fault = run_call(call);
    EXPECT_FALSE(fault.has_value()) << fault->message;
  }
  std::vector<float> x, y, z, source, result;
  std::vector<std::unique_ptr<Lent>> lent;
};

// ---- what is right

TEST_F(Streams, are_the_only_way_of_the_host_to_device_memory) {
  expect_fault(Kind::host_access, HasSubstr("host code reads 'device'"), [&] { planted::read_on_the_host(x.data()); });
  expect_fault(Kind::host_access, HasSubstr("host code writes to 'device'"), [&] { planted::add_one_on_the_host(source.data(), y.data()); });
  expect_none([&] { planted::add_one_on_the_host(source.data(), result.data()); });  // its own memory, page-locked
  EXPECT_EQ(planted::read_on_the_host(x.data()), 1) << "outside a call it is nobody's";
}

TEST_F(Streams, run_copies_and_kernels_in_order) {
  expect_none([&] {
    copy(x.data(), source.data(), bytes, current_stream());
    add_one(x.data(), y.data(), current_stream());
    cuda::fill(z.data(), 0, bytes, current_stream());
    add_one(y.data(), z.data(), current_stream());
  });
  EXPECT_THAT(y, Each(6.0f));
  EXPECT_THAT(z, Each(7.0f)) << "what is left on the current stream is finished after the call";
}

TEST_F(Streams, join_by_events_in_any_chain) {
  expect_none([&] {
    const Stream a, b;
    Event copied, done;
    copy(x.data(), source.data(), bytes, a.get());
    copied.record(a.get());
    copied.hold(b.get());
    add_one(x.data(), y.data(), b.get());
    done.record(b.get());
    done.hold(current_stream());
    add_one(y.data(), x.data(), current_stream());
  });
  EXPECT_THAT(x, Each(7.0f));
}

TEST_F(Streams, wait_for_what_an_event_held_when_they_were_told_to) {
  expect_none([&] {
    const Stream a, b;
    Event event;
    copy(x.data(), source.data(), bytes, a.get());
    event.record(a.get());
    event.hold(b.get());
    copy(z.data(), source.data(), bytes, a.get());
    event.record(a.get());  // the same event again: b still waits for the first copy alone
    add_one(x.data(), y.data(), b.get());
    synchronize(b.get());
    EXPECT_THAT(y, Each(6.0f));
    EXPECT_THAT(z, Each(-1.0f)) << "nobody needs the second copy yet";
    event.wait();
    EXPECT_THAT(z, Each(5.0f));
  });
}

TEST_F(Streams, may_read_the_same_and_write_apart) {
  expect_none([&] {
    const Stream a, b;
    add_one(x.data(), y.data(), a.get(), 32);
    add_one(x.data(), y.data() + 32, b.get(), n - 32);
    synchronize(a.get());
    synchronize(b.get());
  });
  EXPECT_THAT(y, Each(2.0f));
}

TEST_F(Streams, come_after_what_the_host_waited_for) {
  expect_none([&] {
    const Stream a, b;
    copy(x.data(), source.data(), bytes, a.get());
    synchronize(a.get());
    add_one(x.data(), y.data(), b.get());
    synchronize(b.get());
  });
  EXPECT_THAT(y, Each(6.0f));
}

TEST_F(Streams, free_workspaces_after_their_work) {
  expect_none([&] {
    const Workspace room(bytes);
    copy(room.data<float>(), source.data(), bytes, current_stream());
    add_one(room.data<float>(), y.data(), current_stream());
  });
  EXPECT_THAT(y, Each(6.0f));
}

TEST_F(Streams, copy_to_pageable_memory_before_the_call_returns) {
  expect_none([&] {
    std::vector<float> pageable(n);
    add_one(x.data(), y.data(), current_stream());
    copy(pageable.data(), y.data(), bytes, current_stream());
    EXPECT_THAT(pageable, Each(2.0f));
  });
}

TEST_F(Streams, copy_small_pageable_memory_as_it_was) {
  expect_none([&] {
    std::vector<float> pageable(n, 3.0f);
    copy(x.data(), pageable.data(), bytes, current_stream());
    std::ranges::fill(pageable, 4.0f);
    add_one(x.data(), y.data(), current_stream());
  });
  EXPECT_THAT(y, Each(4.0f));
}

TEST_F(Streams, run_the_default_one_at_once) {
  add_one(x.data(), y.data(), nullptr);
  EXPECT_THAT(y, Each(2.0f));
  EXPECT_FALSE(take_fault().has_value());
}

// ---- what is wrong

TEST_F(Streams, show_a_staging_buffer_that_the_host_overwrites_too_early) {
  expect_none([&] {
    copy(x.data(), source.data(), bytes, current_stream());
    std::ranges::fill(source, 9.0f);
    add_one(x.data(), y.data(), current_stream());
  });
  EXPECT_THAT(y, Each(10.0f)) << "the copy takes what is there when it runs, which is as late as can be";
}

TEST_F(Streams, show_a_result_that_the_host_reads_too_early) {
  expect_none([&] {
    const HostBuffer room(bytes);
    add_one(x.data(), y.data(), current_stream());
    copy(room.data<float>(), y.data(), bytes, current_stream());
    EXPECT_NE(room.data<float>()[0], 2.0f);
    synchronize(current_stream());
    EXPECT_EQ(room.data<float>()[0], 2.0f);
  });
}

TEST_F(Streams, find_a_forgotten_event_between_copy_and_kernel) {
  for (bool copy_first : {true, false})
    expect_fault(Kind::unordered, AllOf(HasSubstr("add_one"), HasSubstr("on stream 3"), HasSubstr("copy of 280 bytes on stream 2"), HasSubstr("unordered access to device memory")), [&] {
      const Stream copying, computing;
      copy(x.data(), source.data(), bytes, copying.get());
      add_one(x.data(), y.data(), computing.get());
      if (copy_first) synchronize(copying.get());  // luck does not help
      synchronize(computing.get());
      synchronize(copying.get());
    });
}

TEST_F(Streams, show_a_forgotten_event_in_the_result_too) {
  run_call([&] {
    const Stream copying, computing;
    copy(x.data(), source.data(), bytes, copying.get());
    add_one(x.data(), y.data(), computing.get());
    synchronize(computing.get());
    EXPECT_THAT(y, Each(2.0f)) << "the copy has not run";
    EXPECT_THROW(synchronize(copying.get()), Error) << "and the fault stays until the call ends";
  });
}

TEST_F(Streams, find_a_device_buffer_that_is_filled_again_while_a_kernel_reads_it) {
  expect_fault(Kind::unordered, HasSubstr("copy of 280 bytes on stream 2, address 0x"), [&] {
    const Stream copying, computing;
    const Workspace staging(bytes);
    Event made, copied;
    made.record(current_stream());
    made.hold(copying.get());
    for (float* to : {y.data(), z.data()}) {  // no event from the kernel of one chunk to the copy of the next
      copy(staging.data<float>(), source.data(), bytes, copying.get());
      copied.record(copying.get());
      copied.hold(computing.get());
      add_one(staging.data<float>(), to, computing.get());
    }
    synchronize(computing.get());
    synchronize(copying.get());
  });
}

TEST_F(Streams, find_work_that_nobody_waited_for) {
  expect_fault(Kind::unfinished, HasSubstr("kernel add_one on stream 2"), [&] {
    const Stream computing;  // destroyed with the work still in it
    add_one(x.data(), y.data(), computing.get());
  });
}

TEST_F(Streams, say_what_is_unfinished) {
  run_call([&] {
    add_one(x.data(), y.data(), current_stream());
    EXPECT_THAT(unfinished(), testing::ElementsAre("kernel add_one on stream 1"));
    synchronize(current_stream());
    EXPECT_THAT(unfinished(), testing::IsEmpty());
  });
}

TEST_F(Streams, find_results_that_the_current_stream_does_not_wait_for) {
  expect_fault(Kind::unordered, HasSubstr("kernel add_one"), [&] {
    const Stream computing;
    add_one(x.data(), y.data(), computing.get());
    add_one(y.data(), z.data(), current_stream());
    synchronize(computing.get());
  });
}

TEST_F(Streams, find_work_of_the_default_stream_that_others_do_not_wait_for) {
  expect_fault(Kind::unordered, HasSubstr("copy of 280 bytes on the default stream"), [&] {
    const Stream computing;
    copy(x.data(), source.data(), bytes, nullptr);
    add_one(x.data(), y.data(), computing.get());
    synchronize(computing.get());
  });
}

TEST_F(Streams, find_a_workspace_used_before_its_stream_has_made_it) {
  expect_fault(Kind::out_of_bounds, HasSubstr("copy of 280 bytes on stream 2"), [&] {
    const Stream copying;
    const Workspace room(bytes);
    copy(room.data<float>(), source.data(), bytes, copying.get());
    synchronize(copying.get());
  });
}

TEST_F(Streams, find_a_workspace_freed_while_another_stream_uses_it) {
  expect_fault(Kind::unordered, AllOf(HasSubstr("freeing of 280 bytes on stream 1"), HasSubstr("fill of 280 bytes on stream 2")), [&] {
    const Stream computing;
    {
      const Workspace room(bytes);
      Event made;
      made.record(current_stream());
      made.hold(computing.get());
      cuda::fill(room.data<float>(), 0, bytes, computing.get());
      add_one(room.data<float>(), y.data(), computing.get());
    }
    synchronize(computing.get());
  });
}

TEST_F(Streams, find_work_after_a_large_copy_from_pageable_memory) {
  constexpr std::size_t large = 20000;
  std::vector<float> pageable(large, 3.0f), device(large);
  const Lent more(device.data(), large * sizeof(float), "large", Lent::Access::read_write);
  expect_fault(Kind::unordered, HasSubstr("copy of 80000 bytes from pageable memory"), [&] {
    copy(device.data(), pageable.data(), large * sizeof(float), current_stream());
    add_one(device.data(), y.data(), current_stream());
    synchronize(current_stream());
  });
  expect_none([&] {
    copy(device.data(), pageable.data(), large * sizeof(float), current_stream());
    synchronize(current_stream());  // which the copy is done by
    add_one(device.data(), y.data(), current_stream());
  });
  EXPECT_THAT(y, Each(4.0f));
}

TEST_F(Streams, find_page_locked_memory_given_back_too_early) {
  expect_fault(Kind::unfinished, HasSubstr("copy of 280 bytes on stream 1"), [&] {
    const HostBuffer room(bytes);
    copy(x.data(), room.data<float>(), bytes, current_stream());
  });
}

TEST_F(Streams, find_a_stream_used_after_its_end) {
  expect_fault(Kind::bad_stream, HasSubstr("destroyed"), [&] {
    auto stream = std::make_unique<Stream>();
    const cudaStream_t handle = stream->get();
    stream.reset();
    copy(x.data(), source.data(), bytes, handle);
  });
}

TEST_F(Streams, find_copies_and_fills_out_of_bounds) {
  expect_fault(Kind::out_of_bounds, AllOf(HasSubstr("copy of 284 bytes on stream 1"), HasSubstr("it runs over the end of 'device' (280 bytes)")),
               [&] { copy(x.data(), source.data(), bytes + 4, current_stream()); });
  expect_fault(Kind::out_of_bounds, HasSubstr("fill of 281 bytes"), [&] { cuda::fill(x.data(), 0, bytes + 1, current_stream()); });
  const Lent input(z.data() + n, 0, "none", Lent::Access::read);
  std::vector<float> w(n);
  const Lent read_only(w.data(), bytes, "w", Lent::Access::read);
  expect_fault(Kind::write_to_input, HasSubstr("'w' is lent for reading"), [&] { copy(w.data(), source.data(), bytes, current_stream()); });
}

TEST_F(Streams, let_through_what_a_call_throws_and_drop_its_work) {
  EXPECT_THROW(run_call([&] {
                 const HostBuffer room(bytes);
                 add_one(x.data(), y.data(), current_stream());
                 throw Error(Error::Kind::bad_input, "no");
               }),
               Error);
  EXPECT_THAT(y, Each(-1.0f));
  expect_none([&] { add_one(x.data(), y.data(), current_stream()); });
  EXPECT_THAT(y, Each(2.0f));
}

// ---- a task that is about streams: chunks in host memory, copied in pieces and mapped while the next are copied

using Apply = decltype(&h2d_prefetch_compute_overlap::cuda::streamed_chunk_apply);

/// Three chunks of 100 columns, one round; several pieces of 65536 elements.
class ChunksFromTheHost : public testing::TestWithParam<Apply> {
 protected:
  static constexpr std::int64_t H = 2003, D = 100;
  ChunksFromTheHost() : data(H * D), out(H * D, -1.0f), offsets{0, 900, 900, H}, scale{1.0f, 5.0f, -2.0f}, gain(D, 0.5f), bias(D, 0.25f) {
    for (auto* vector : {&scale, &gain, &bias}) lend(*vector, Lent::Access::read);
    lend(offsets, Lent::Access::read);
    lend(out, Lent::Access::read_write);
  }
  template <class T>
  void lend(std::vector<T>& vector, Lent::Access access) { lent.push_back(std::make_unique<Lent>(vector.data(), vector.size() * sizeof(T), "tensor", access)); }
  void draw(int call) {
    for (std::size_t k = 0; k < data.size(); ++k) data[k] = static_cast<float>((k * 7 + static_cast<std::size_t>(call) * 1001) % 1999) / 1000 - 1;
  }
  void run() { GetParam()({data.data(), {H, D}}, {offsets.data(), {4}}, {scale.data(), {3}}, {gain.data(), {D}}, {bias.data(), {D}}, 1, {out.data(), {H, D}}); }
  std::int64_t wrong() const {
    std::int64_t count = 0;
    for (std::size_t k = 0; k < data.size(); ++k) {
      const double z = 0.5 * (k < 900 * D ? 1.0 : -2.0) * data[k] + 0.25;
      count += !(std::abs(out[k] - z / (1 + std::exp(-z))) < 1e-5);
    }
    return count;
  }
  std::vector<float> data, out;
  std::vector<std::int64_t> offsets;
  std::vector<float> scale, gain, bias;
  std::vector<std::unique_ptr<Lent>> lent;
};

TEST_P(ChunksFromTheHost, are_complete_when_the_call_returns) {
  lend(data, Lent::Access::page_locked);
  draw(0);
  const auto fault = run_call([&] {
    run();
    EXPECT_THAT(unfinished(), testing::IsEmpty());
    EXPECT_EQ(wrong(), 0);
  });
  EXPECT_FALSE(fault.has_value()) << fault->message;
}

TEST_P(ChunksFromTheHost, may_lie_in_pageable_memory) {
  draw(1);
  const auto fault = run_call([&] { run(); });
  EXPECT_FALSE(fault.has_value()) << fault->message;
  EXPECT_EQ(wrong(), 0);
}

TEST_P(ChunksFromTheHost, change_between_calls_in_the_same_buffers) {
  lend(data, Lent::Access::page_locked);
  const auto fault = run_call([&] {
    for (int call = 0; call < 5; ++call) {
      draw(call);
      run();
      EXPECT_EQ(wrong(), 0) << call;
    }
  });
  EXPECT_FALSE(fault.has_value()) << fault->message;
}

TEST_P(ChunksFromTheHost, wait_for_earlier_work_of_the_current_stream) {
  lend(data, Lent::Access::page_locked);
  draw(2);
  const auto fault = run_call([&] {
    cuda::fill(out.data(), 0xff, out.size() * sizeof(float), current_stream());
    run();
  });
  EXPECT_FALSE(fault.has_value()) << fault->message;
  EXPECT_EQ(wrong(), 0);
}

INSTANTIATE_TEST_SUITE_P(h2d_prefetch_compute_overlap, ChunksFromTheHost,
                         testing::Values(&h2d_prefetch_compute_overlap::cuda_baseline::streamed_chunk_apply, &h2d_prefetch_compute_overlap::cuda::streamed_chunk_apply),
                         [](const auto& i) { return i.index == 0 ? "cuda_baseline" : "cuda"; });

}  // namespace
}  // namespace faibench::emulator
