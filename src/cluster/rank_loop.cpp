#include "cluster/rank_loop.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "cluster/gang.h"
#include "cluster/stop_signals.h"

namespace faibench {
namespace {

constexpr double patience_seconds = 8;  // all ranks stop within ten seconds of an error

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

RankLoop::RankLoop(const MpiSession& session, std::string host, Coordinator* coordinator, StartJudge start, Watchdog& watchdog)
    : session_(session), mailbox_(session.world()), worker_(std::move(host), session.rank(), std::move(start)), coordinator_(coordinator), watchdog_(watchdog) {}

void RankLoop::stamp_turn() {
  const char* phase = leaving_ ? "end" : !worker_.busy() ? "idle" : worker_.label().empty() ? "calibrating" : "judging";
  watchdog_.enter(phase, watchdog_.deadlines().loop, worker_.label(), worker_.stage());
}

// The coordinator's part of a turn writes files, whose disk may take its time.
template <class Work>
void RankLoop::coordinate(Work&& work) {
  if (!coordinator_) return;
  watchdog_.enter("folding results", watchdog_.deadlines().folding, worker_.label());
  work();
  stamp_turn();
}

void RankLoop::run() {
  try {
    coordinate([&] { coordinator_->start(); });
  } catch (const Error& error) {
    give_up(error);
  }
  for (;;) {
    bool busy = false;
    stamp_turn();
    try {
      notice_signal();
      for (const RankMessage& message : worker_.poll()) {
        mailbox_.send(0, message);
        busy = true;
      }
      busy = hear() || busy;
      if (coordinator_ && !coordinator_->leaving()) coordinate([&] { coordinator_->tick(); });
    } catch (const Error& error) {
      give_up(error);
    } catch (const std::exception& error) {
      give_up(Error(Error::Kind::internal, error.what()));
    }
    flush_coordinator();
    const bool last = coordinator_ ? coordinator_->finished() : leaving_;
    if (last && mailbox_.all_sent()) return;
    check_patience();
    rest(busy);
  }
}

bool RankLoop::hear() {
  bool heard = false;
  while (const auto letter = mailbox_.receive()) {
    heard = true;
    const auto type = letter->message.type;
    const bool order = type <= RankMessage::Type::end;
    if (order) {
      obey(letter->message);
    } else {
      coordinate([&] { coordinator_->receive(letter->from, letter->message); });
    }
    flush_coordinator();
  }
  return heard;
}

void RankLoop::obey(const RankMessage& order) {
  using Type = RankMessage::Type;
  if (leaving_) return;
  switch (order.type) {
    case Type::judge:
    case Type::calibrate: worker_.begin(order); break;
    case Type::gang: join_gang(order); break;
    default:
      worker_.stop();
      leaving_ = true;
      if (!since_) since_ = now();
      mailbox_.send(0, {Type::bye, -1, {}});
  }
}

void RankLoop::join_gang(const RankMessage& order) {
  const GangOrder gang = gang_order_from_json(order.text);
  const std::string label = gang.task + "/" + gang.variant + "@" + std::to_string(gang.members.size());
  const double stage_seconds = watchdog_.deadlines().gang_stage + 2 * gang.budget_seconds;
  const GangSurroundings surroundings{.world = session_.world(),
                                      .stop_wanted = [] { return StopSignals::received() != 0; },
                                      .abandon = [](const std::string& line) { MpiSession::abandon(line, 3); },
                                      .stage_begins = [&](const std::string& stage) { watchdog_.enter("gang", stage_seconds, label, stage); }};
  if (auto record = run_gang(gang, surroundings)) {
    record->rank = session_.rank();
    record->host = worker_.host();
    mailbox_.send(0, {RankMessage::Type::verdict, order.item, to_json(*record)});
  }
  stamp_turn();
  notice_signal();  // before gang_done: the coordinator must not start the next gang of an unfinished run
  mailbox_.send(0, {RankMessage::Type::gang_done, order.item, {}});
}

void RankLoop::notice_signal() {
  if (signal_ != 0 || StopSignals::received() == 0) return;
  signal_ = StopSignals::received();
  if (!since_) since_ = now();
  const RankMessage told{RankMessage::Type::signal, signal_, stop_signal_name(signal_)};
  if (coordinator_) {
    coordinator_->receive(0, told);  // ahead of anything else that waits
  } else {
    mailbox_.send(0, told);
  }
}

// This rank cannot go on. Rank 0 hears of it, speaks for all and tells all to leave.
void RankLoop::give_up(const Error& error) {
  worker_.stop();
  if (!since_) since_ = now();
  if (coordinator_) return coordinator_->fail(error);
  if (fatal_) return;
  fatal_ = error;
  try {
    mailbox_.send(0, {RankMessage::Type::fatal, static_cast<int>(error.kind), "rank " + std::to_string(session_.rank()) + " on " + worker_.host() + ": " + error.what()});
  } catch (const Error&) {
    MpiSession::abandon(error.what(), 3);
  }
}

void RankLoop::flush_coordinator() {
  if (!coordinator_) return;
  if (coordinator_->leaving() && !since_) since_ = now();
  for (auto& [to, message] : coordinator_->take_outbox()) mailbox_.send(to, message);
}

void RankLoop::check_patience() const {
  if (!since_ || now() - *since_ < patience_seconds) return;
  if (!coordinator_) MpiSession::abandon(fatal_ ? fatal_->what() : "rank " + std::to_string(session_.rank()) + " cannot reach rank 0 any more", 3);
  MpiSession::abandon(coordinator_->error() ? coordinator_->error()->what() : "some ranks do not answer; what was judged is kept", 3);
}

// Sleeps without spinning: a judge that has something to say wakes this rank at once. Messages from other ranks must be looked for; often while
// something is going on or nothing runs here, seldom while this rank's judge is timing on the same cores.
void RankLoop::rest(bool busy) {
  const double time = now();
  if (busy) {
    last_event_ = time;
    return;
  }
  int milliseconds = std::clamp(static_cast<int>(50 * (time - last_event_)), 2, 50);  // the longer nothing came, the less often: others may be timing here
  if (since_) {
    milliseconds = 2;
  } else if (session_.size() == 1) {
    milliseconds = 200;
  } else if (coordinator_) {
    milliseconds = std::min(milliseconds, 10);
  }
  pollfd waited{worker_.descriptor(), POLLIN, 0};
  poll(&waited, waited.fd >= 0 ? 1 : 0, milliseconds);  // EINTR: a signal came, which the loop looks at next
}

}  // namespace faibench
