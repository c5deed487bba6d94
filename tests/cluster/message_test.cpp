#include "cluster/message.h"

#include <gtest/gtest.h>

#include "cluster/gang.h"
#include "tensor/error.h"

namespace faibench {
namespace {

TEST(Message, comes_back_as_it_was) {
  using Type = RankMessage::Type;
  for (int type = 0; type <= static_cast<int>(Type::bye); ++type) {
    const RankMessage message{static_cast<Type>(type), type - 1, "line one\nline two, with spaces and a \0 in it"};
    EXPECT_EQ(decode(encode(message)), message) << name_of(message.type);
  }
  EXPECT_EQ(decode(encode({Type::stop, -1, {}})), (RankMessage{Type::stop, -1, {}}));
}

TEST(Message, refuses_what_no_rank_of_this_program_says) {
  for (const char* bytes : {"", "verdict", "verdict 3", "verdict x\n", "verdict 3x\n", "verdict \n", "hello 3\n", " 3\n", "\n", "verdict\n3 4\n", "verdict 99999999999999\n"}) {
    EXPECT_THROW(decode(bytes), Error) << bytes;
  }
}

TEST(GangOrder, comes_back_as_it_was) {
  GangOrder order;
  order.task = "t";
  order.variant = "mpi";
  order.workload = "smoke";
  order.members = {2, 0, 1};
  order.seed = 0xffffffffffffffffu;
  order.limit_seconds = 12.5;
  order.gate_only = true;
  order.threads = 3;
  const GangOrder back = gang_order_from_json(to_json(order));
  EXPECT_EQ(back.members, order.members);
  EXPECT_EQ(back.seed, order.seed);
  EXPECT_EQ(back.limit_seconds, 12.5);
  EXPECT_TRUE(back.gate_only);
  EXPECT_EQ(back.threads, 3);
  EXPECT_THROW(gang_order_from_json("{}"), Error);
}

}  // namespace
}  // namespace faibench
