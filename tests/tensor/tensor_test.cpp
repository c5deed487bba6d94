#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include <limits>

namespace faibench {
namespace {

template <class F>
Error::Kind kind_of_error(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.kind;
  }
  ADD_FAILURE() << "no error";
  return Error::Kind::device;
}

TEST(Tensor, is_zero_and_aligned_at_first) {
  for (std::int64_t n : {0, 1, 7, 64, 1000}) {
    const Tensor t(Dtype::f32, {n});
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(t.data()) % 64, 0u);
    EXPECT_EQ(t.size(), n);
    EXPECT_EQ(t.bytes(), 4 * n);
    for (float x : t.flat<float>()) EXPECT_EQ(x, 0);
  }
}

TEST(Tensor, of_values_reads_row_by_row) {
  Tensor t = Tensor::of<std::int32_t>({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ((t.view<std::int32_t, 2>()(1, 0)), 4);
  t.view<std::int32_t, 2>()(0, 2) = 9;
  EXPECT_EQ(t.flat<std::int32_t>()[2], 9);
  EXPECT_EQ(kind_of_error([] { Tensor::of<float>({2}, {1}); }), Error::Kind::internal);
}

TEST(Tensor, scalar_has_rank_zero_and_one_element) {
  const Tensor t = Tensor::scalar(2.5);
  EXPECT_EQ(t.ref().rank(), 0);
  EXPECT_EQ(t.size(), 1);
  EXPECT_EQ(t.ref().scalar<double>(), 2.5);
  EXPECT_TRUE(static_cast<bool>(Tensor::boolean(true).ref().scalar<Bool8>()));
}

TEST(Tensor, text_holds_its_bytes) {
  const Tensor t = Tensor::text("abc");
  EXPECT_EQ(t.shape(), Shape{3});
  EXPECT_EQ(t.flat<std::uint8_t>()[1], 'b');
  EXPECT_EQ(Tensor::text("").size(), 0);
}

TEST(Tensor, stays_in_place_when_moved_and_is_apart_when_cloned) {
  Tensor a = Tensor::of<float>({2}, {1, 2});
  const std::byte* place = a.data();
  Tensor moved = std::move(a);
  EXPECT_EQ(moved.data(), place);
  Tensor copy = moved.clone();
  copy.flat<float>()[0] = 7;
  EXPECT_EQ(moved.flat<float>()[0], 1);
}

TEST(Tensor, refuses_another_type_or_rank) {
  Tensor t(Dtype::f32, {2, 2});
  EXPECT_EQ(kind_of_error([&] { (void)t.view<double, 2>(); }), Error::Kind::internal);
  EXPECT_EQ(kind_of_error([&] { (void)t.view<float, 1>(); }), Error::Kind::internal);
  EXPECT_EQ(kind_of_error([&] { (void)t.flat<std::int32_t>(); }), Error::Kind::internal);
  EXPECT_EQ(kind_of_error([&] { (void)t.ref().scalar<float>(); }), Error::Kind::internal);
}

TEST(Tensor, refuses_absurd_shapes) {
  constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  for (const Shape& shape : std::vector<Shape>{{-1}, {2, -3}, {huge}, {huge, huge}, {std::int64_t{1} << 50}, {huge, 2, 0 + 1}})
    EXPECT_EQ(kind_of_error([&] { Tensor(Dtype::f64, shape); }), Error::Kind::bad_input) << to_string(shape);
}

TEST(Shape, counts_its_elements) {
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({3, 0, 5}), 0);
  EXPECT_EQ(element_count({3, 4, 5}), 60);
  EXPECT_EQ(to_string(Shape{2, 3}), "[2, 3]");
  EXPECT_EQ(to_string(Shape{}), "[]");
}

TEST(TensorMap, keeps_order_and_refuses_a_second_of_a_name) {
  TensorMap map;
  map.add("z", Tensor::scalar(1.0f));
  map.add("a", Tensor::scalar(2.0f));
  EXPECT_EQ(map.begin()->first, "z");
  EXPECT_EQ(kind_of_error([&] { map.add("a", Tensor()); }), Error::Kind::internal);
  EXPECT_EQ(kind_of_error([&] { (void)map.at("b"); }), Error::Kind::internal);
  EXPECT_EQ(map.find("b"), nullptr);
  EXPECT_EQ(total_bytes(map), 8);
  const TensorMap copy = clone(map);
  map.at("z").flat<float>()[0] = 9;
  EXPECT_EQ(copy.at("z").ref().scalar<float>(), 1.0f);
  EXPECT_EQ(refs(map).at("z").data, map.at("z").data());
  map.erase("z");
  EXPECT_EQ(map.size(), 1u);
}

TEST(View, indexes_row_major_and_reads_as_const) {
  float values[24];
  for (int i = 0; i < 24; ++i) values[i] = static_cast<float>(i);
  const View<float, 3> view(values, {2, 3, 4});
  EXPECT_EQ(view(1, 2, 3), 23);
  EXPECT_EQ(view(0, 1, 2), 6);
  const View<const float, 3> constant = view;
  EXPECT_EQ(constant.size(), 24);
  EXPECT_EQ(constant.extent(1), 3);
  EXPECT_TRUE((View<float, 2>(values, {0, 5}).empty()));
}

}  // namespace
}  // namespace faibench
