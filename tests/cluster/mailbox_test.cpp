#include "cluster/mailbox.h"

#include <gtest/gtest.h>

namespace faibench {
namespace {

Mailbox::Letter wait_for(Mailbox& mailbox) {
  for (;;) {
    if (auto letter = mailbox.receive()) return *letter;
  }
}

TEST(Mailbox, brings_letters_of_all_ranks_in_the_order_of_each) {
  Mailbox mailbox(MPI_COMM_WORLD);
  constexpr int letters = 50;
  for (int i = 0; i < letters; ++i) mailbox.send(0, {RankMessage::Type::stage, i, std::string(static_cast<std::size_t>(i) * 1000, 'x')});  // past the eager limit too
  if (mailbox.rank() == 0) {
    std::vector<int> next(static_cast<std::size_t>(mailbox.size()), 0);
    for (int received = 0; received < letters * mailbox.size(); ++received) {
      const auto letter = wait_for(mailbox);
      EXPECT_EQ(letter.message.item, next.at(static_cast<std::size_t>(letter.from))++);
      EXPECT_EQ(letter.message.text.size(), static_cast<std::size_t>(letter.message.item) * 1000);
    }
    EXPECT_FALSE(mailbox.receive());
    for (int to = 0; to < mailbox.size(); ++to) mailbox.send(to, {RankMessage::Type::end, -1, {}});
  }
  EXPECT_EQ(wait_for(mailbox).message.type, RankMessage::Type::end);
  while (!mailbox.all_sent()) {}
}

}  // namespace
}  // namespace faibench
