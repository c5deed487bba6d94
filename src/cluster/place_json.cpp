#include <nlohmann/json.hpp>

#include "cluster/topology.h"
#include "tensor/error.h"

namespace faibench {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GpuFacts, uuid, name, memory_bytes, l2_bytes, multiprocessors, capability, exclusive, sm_clock_hz, memory_clock_hz, power_limit_watts)

std::string to_json(const Place& place) {
  return nlohmann::json{{"host", place.host},
                        {"pid", place.pid},
                        {"cpus", place.cpus},
                        {"cores", place.cores},
                        {"numa_nodes", place.numa_nodes},
                        {"host_cores", place.host_cores},
                        {"gpus", place.gpus},
                        {"gpu_driver", place.gpu_driver},
                        {"slot_folder", place.slot_folder},
                        {"program_hash", place.program_hash},
                        {"worker_hash", place.worker_hash},
                        {"facts", to_json(place.facts)},
                        {"host_facts", place.host_facts},
                        {"node", place.node}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Place place_from_json(std::string_view text) {
  try {
    const auto json = nlohmann::json::parse(text);
    Place place;
    json.at("host").get_to(place.host);
    json.at("pid").get_to(place.pid);
    json.at("cpus").get_to(place.cpus);
    json.at("cores").get_to(place.cores);
    json.at("numa_nodes").get_to(place.numa_nodes);
    json.at("host_cores").get_to(place.host_cores);
    json.at("gpus").get_to(place.gpus);
    json.at("gpu_driver").get_to(place.gpu_driver);
    json.at("slot_folder").get_to(place.slot_folder);
    json.at("program_hash").get_to(place.program_hash);
    json.at("worker_hash").get_to(place.worker_hash);
    place.facts = rank_from_json(json.at("facts").get<std::string>());
    json.at("host_facts").get_to(place.host_facts);
    json.at("node").get_to(place.node);
    return place;
  } catch (const nlohmann::json::exception& e) {
    throw Error(Error::Kind::mpi, std::string("a rank described its place in words that nobody understands (") + e.what() + "); do all ranks run the same program?");
  }
}

}  // namespace faibench
