#include "launch/host_sweeper.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <memory>
#include <vector>

#include "launch/job_process.h"

namespace faibench {
namespace {

constexpr double attempt_seconds = 10;
constexpr std::size_t at_once = 16;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::string own_host() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace

void HostSweeper::sweep(const std::set<std::string>& seen, const std::string& cookie) {
  const std::vector<std::string> of_file = command_.hosts_of_file();
  std::set<Place> places;
  for (const std::string& host : of_file.empty() ? std::vector<std::string>(seen.begin(), seen.end()) : of_file) {
    if (host != own_host()) places.emplace(host, cookie);
  }
  for (const Place& place : attempt(places)) {
    unreached_.insert(place);
    say_(place.first + " cannot be reached: what is left of the job there is ended when it can");
  }
}

bool HostSweeper::again() {
  unreached_ = attempt(unreached_);
  return unreached_.empty();
}

std::string HostSweeper::out_of_reach() const {
  std::set<std::string> hosts;  // a host may be there for several launches
  for (const auto& [host, cookie] : unreached_) hosts.insert(host);
  std::string text;
  for (const std::string& host : hosts) text += (text.empty() ? "" : ", ") + host;
  return text;
}

void HostSweeper::say_what_is_left() const {
  for (const auto& [host, cookie] : unreached_) say_(host + " was not reached again: processes may be left there; 'faibench launch --sweep " + cookie + "' on it ends them");
}

std::set<HostSweeper::Place> HostSweeper::attempt(const std::set<Place>& places) const {
  std::set<Place> unreached;
  for (auto first = places.begin(); first != places.end();) {
    std::vector<std::pair<Place, std::unique_ptr<JobProcess>>> sweeps;
    for (; first != places.end() && sweeps.size() < at_once; ++first) sweeps.emplace_back(*first, std::make_unique<JobProcess>(command_.sweep_on(first->first, first->second), JobSurroundings{}));
    const double until = now() + attempt_seconds;
    for (auto& [place, process] : sweeps) {
      while (!process->exit_code() && now() < until) {
        process->read_errors();  // a launcher that has much to say must not wait for us
        poll(nullptr, 0, 20);
      }
      if (process->exit_code().value_or(-1) != 0) unreached.insert(place);
    }
  }
  return unreached;
}

}  // namespace faibench
