#include "data/task.h"

namespace cosformer::data {

std::string_view Name(Split split) {
  constexpr std::string_view kNames[] = {"train", "valid", "test"};
  return kNames[static_cast<size_t>(split)];
}

}  // namespace cosformer::data
