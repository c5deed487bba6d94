#include "cluster/preparation.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "cluster/item_key.h"
#include "communicator/mpi_communicator.h"
#include "judge/device_library.h"
#include "judge/judge_process.h"
#include "launch/default_run_file.h"
#include "tensor/error.h"

namespace faibench {
namespace {

constexpr const char* asked_name = "FAIBENCH_ASKED";  // among the provenance's environment: what a resumed run need not be told again
constexpr char error_mark = '!';

const std::string* asked_of(const Provenance& provenance) {
  for (const auto& [name, value] : provenance.environment) {
    if (name == asked_name) return &value;
  }
  return nullptr;
}

std::vector<HostFacts> hosts_of(const Layout& layout) {
  std::vector<HostFacts> hosts;
  for (int node : layout.nodes) {
    HostFacts host = host_from_json(layout.places[static_cast<std::size_t>(node)].host_facts);
    for (int rank = 0; rank < static_cast<int>(layout.places.size()); ++rank) {
      if (layout.places[static_cast<std::size_t>(rank)].node == node) host.ranks.push_back(rank);
    }
    hosts.push_back(std::move(host));
  }
  return hosts;
}

// Of a mixed cluster: all classes, in one order.
std::string machine_class(const std::vector<HostFacts>& hosts) {
  std::set<std::string> classes;
  for (const HostFacts& host : hosts) classes.insert(host.machine_class);
  std::string text;
  for (const std::string& one : classes) text += (text.empty() ? "" : " + ") + one;
  return text;
}

Provenance provenance_of(const RunOptions& options, const Layout& layout, std::vector<HostFacts> hosts) {
  Provenance provenance = collect_local(options.command_line);
  provenance.seed = options.seed.value_or(1);
  provenance.world_size = static_cast<int>(layout.places.size());
  provenance.hosts = std::move(hosts);
  provenance.environment.emplace_back(asked_name, options_to_json(options));
  return provenance;
}

std::map<std::string, double> costs_of(const RunOptions& options, const Ledger* resumed) {
  std::map<std::string, double> costs;
  if (resumed) costs = earlier_costs(resumed->records());
  if (!options.earlier.empty()) costs.merge(earlier_costs(read_run(options.earlier).records));
  return costs;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "; ") + line;
  return text;
}

HostFacts host_with_gpus(const Place& place) {
  HostFacts host = collect_host();
  if (!host.gpus.empty()) return host;
  for (const GpuFacts& gpu : place.gpus) {  // where the driver shows no pages of its own, in some containers
    host.gpus.push_back(gpu.name);
    host.machine_class += ", " + gpu.name;
  }
  if (host.gpu_driver.empty()) host.gpu_driver = place.gpu_driver;
  return host;
}

// Why, where --give-up names the item.
std::optional<std::string> given_up(const RunOptions& options, const std::string& label) {
  for (const std::string& words : options.give_up) {
    if (words.starts_with(label + "=")) return words.substr(label.size() + 1);
  }
  return std::nullopt;
}

}  // namespace

std::string describe_this_rank(int first_rank_of_host) {
  try {
    (void)mpi_options_from_environment();  // a bad value would show when the gangs begin, after all else was judged
    Place place = find_place();
    place.node = first_rank_of_host;
    place.slot_folder = make_slot_folder();
    place.program_hash = file_hash("/proc/self/exe");
    place.worker_hash = file_hash(worker_path());
    place.host_facts = to_json(host_with_gpus(place));
    return to_json(place);
  } catch (const Error& error) {
    return std::string(1, error_mark) + std::to_string(static_cast<int>(error.kind)) + error.what();
  }
}

std::vector<Place> read_places(const std::vector<std::string>& texts) {
  std::vector<Place> places;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    const std::string& text = texts[rank];
    if (text.starts_with(error_mark)) {
      const Error error(static_cast<Error::Kind>(text.at(1) - '0'), text.substr(2));
      throw rank == 0 ? error : error.at("rank " + std::to_string(rank));
    }
    places.push_back(place_from_json(text));
  }
  return places;
}

Preparation prepare(RunOptions options, std::vector<Place> places) {
  Preparation ready;
  ready.audit = audit(places);
  if (!ready.audit.errors.empty()) throw Error(Error::Kind::bad_input, joined(ready.audit.errors));
  if (!options.resume.empty() && !options.out.empty()) throw Error(Error::Kind::bad_input, "--resume goes on in the file that it names: leave out --out");
  if (!options.resume.empty()) {
    ready.ledger = std::make_unique<Ledger>(Ledger::resume(options.resume));
    if (const std::string* asked = asked_of(ready.ledger->provenance())) {
      try {
        options = fill_from(std::move(options), *asked);
      } catch (const Error& error) {
        throw error.at(options.resume);
      }
    }
  }
  ready.layout = lay_out(std::move(places));
  std::vector<HostFacts> hosts = hosts_of(ready.layout);
  PlanSetting setting;
  setting.tasks = all_tasks();
  setting.catalog = options.catalog ? options.catalog : &embedded_catalog();
  setting.world_size = static_cast<int>(ready.layout.places.size());
  setting.some_rank_has_gpu = std::ranges::any_of(ready.layout.seats, [](const RankSeat& seat) { return seat.has_gpu; });
  setting.worker_hash = ready.layout.places.front().worker_hash;
  setting.program_hash = ready.layout.places.front().program_hash;
  setting.machine_class = machine_class(hosts);
  if (const auto library = find_device_library(DeviceKind::cuda); library && setting.some_rank_has_gpu) setting.cuda_hash = file_hash(*library);
  if (const auto library = find_device_library(DeviceKind::emulated); library && options.emulate) setting.emulated_hash = file_hash(*library);
  setting.earlier_seconds = costs_of(options, ready.ledger.get());
  ready.plan = make_plan(options, setting);
  for (const PlanItem& item : ready.plan.items) {
    if (ready.ledger && ready.ledger->holds(item.key)) continue;
    if (const auto why = given_up(options, item.label())) {
      ready.given_up.emplace_back(item, *why);
    } else {
      ready.to_judge.push_back(item);
    }
  }
  ready.options = std::move(options);
  if (ready.options.dry_run || ready.options.list_cases) {
    ready.ledger.reset();
    return ready;
  }
  Provenance provenance = provenance_of(ready.options, ready.layout, std::move(hosts));
  provenance.ranks = ready.audit.ranks;
  provenance.audit = ready.audit.notices;
  if (ready.ledger) {
    provenance.started = ready.ledger->provenance().started;
    ready.ledger->update(provenance);
  } else {
    if (ready.options.out.empty()) ready.options.out = default_run_file("run");
    ready.ledger = std::make_unique<Ledger>(Ledger::create(ready.options.out, provenance, ready.options.force));
  }
  ready.ledger->fold();
  return ready;
}

}  // namespace faibench
