#include "reproduce/systems.h"

#include <fmt/format.h>

#include <algorithm>

#include "cosformer/error.h"
#include "report/plot.h"

namespace cosformer::reproduce {

const std::vector<SystemName>& SystemNames() {
  static const std::vector<SystemName> kNames = {
      {"softmax", "Transformer"},
      {"cosformer", "cosFormer"},
      {"cosformer-leaky-relu", "cosFormer, LeakyReLU"},
      {"cosformer-identity", "cosFormer, identity"},
      {"relu", "ReLU, no cos"},
      {"leaky-relu", "LeakyReLU, no cos"},
      {"identity", "identity, no cos"},
      {"cosformer-gate", "cosFormer with a gate"},
      {"linear", "Linear Transformer"},
      {"linear-gate", "Linear Transformer with a gate"},
      {"performer", "Performer"},
      {"rfa-gaussian", "RFA-Gaussian"},
      {"rfa-arccos", "RFA-arccos"},
      {"rfa-gate-gaussian", "RFA-Gate-Gaussian"},
      {"rfa-gate-arccos", "RFA-Gate-arccos"},
      {"sparse-strided", "Sparse (strided)"},
      {"sparse-fixed", "Sparse (fixed)"},
      {"reformer", "Reformer"},
      {"linformer", "Linformer"},
      {"bigbird", "BigBird"},
      {"longformer", "Longformer"},
      {"local", "Local"},
      {"synthesizer", "Synthesizer"},
      {"sinkhorn", "Sinkhorn"},
  };
  return kNames;
}

std::string LabelOf(const std::string& system) {
  for (const SystemName& known : SystemNames()) {
    if (known.name == system) return known.label;
  }
  return system;
}

std::vector<int> HuesOf(const std::vector<std::string>& drawn,
                        const std::vector<std::string>& all) {
  std::vector<int> usual;
  for (const std::string& system : drawn) {
    usual.push_back(static_cast<int>(std::find(all.begin(), all.end(), system) - all.begin()));
  }
  return report::DistinctHues(usual);
}

void CheckSystem(const std::string& system) {
  std::string names;
  for (const SystemName& known : SystemNames()) {
    if (known.name == system) return;
    names += (names.empty() ? "" : ", ") + known.name;
  }
  throw Error(fmt::format("--systems does not know \"{}\": it takes {}", system, names));
}

}  // namespace cosformer::reproduce
