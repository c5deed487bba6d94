#include <nlohmann/json.hpp>

#include "cluster/gang.h"
#include "tensor/error.h"

namespace faibench {

std::string to_json(const GangOrder& order) {
  return nlohmann::json{{"task", order.task},
                        {"variant", order.variant},
                        {"workload", order.workload},
                        {"members", order.members},
                        {"seed", order.seed},
                        {"budget_seconds", order.budget_seconds},
                        {"limit_seconds", order.limit_seconds},
                        {"ref_speedup", order.ref_speedup},
                        {"gate_only", order.gate_only},
                        {"threads", order.threads},
                        {"oversubscribed", order.oversubscribed}}
      .dump();
}

GangOrder gang_order_from_json(std::string_view text) {
  try {
    const auto json = nlohmann::json::parse(text);
    GangOrder order;
    json.at("task").get_to(order.task);
    json.at("variant").get_to(order.variant);
    json.at("workload").get_to(order.workload);
    json.at("members").get_to(order.members);
    json.at("seed").get_to(order.seed);
    json.at("budget_seconds").get_to(order.budget_seconds);
    json.at("limit_seconds").get_to(order.limit_seconds);
    json.at("ref_speedup").get_to(order.ref_speedup);
    json.at("gate_only").get_to(order.gate_only);
    json.at("threads").get_to(order.threads);
    json.at("oversubscribed").get_to(order.oversubscribed);
    return order;
  } catch (const nlohmann::json::exception& e) {
    throw Error(Error::Kind::mpi, std::string("an order to a gang cannot be read (") + e.what() + ")");
  }
}

}  // namespace faibench
