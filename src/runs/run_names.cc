#include "runs/run_names.h"

#include <algorithm>
#include <filesystem>

namespace cosformer {
namespace {

namespace fs = std::filesystem;
using Parts = std::vector<std::string>;

Parts PartsOf(const std::string& path) {
  Parts parts;
  // The root itself is no part, nor is the empty one after a last slash.
  for (const fs::path& part : fs::absolute(path).lexically_normal().relative_path()) {
    if (!part.empty()) parts.push_back(part.string());
  }
  if (parts.empty()) parts.push_back("/");
  return parts;
}

}  // namespace

std::vector<std::string> RunNames(std::span<const std::string> paths) {
  std::vector<Parts> all;
  for (const std::string& path : paths) all.push_back(PartsOf(path));
  if (all.empty()) return {};

  size_t shortest = all[0].size();
  for (const Parts& parts : all) shortest = std::min(shortest, parts.size());
  const auto same_for_all = [&](auto part_of) {
    return std::all_of(all.begin(), all.end(),
                       [&](const Parts& parts) { return part_of(parts) == part_of(all[0]); });
  };
  size_t front = 0;
  while (front + 1 < shortest && same_for_all([&](const Parts& parts) { return parts[front]; })) {
    ++front;
  }
  size_t back = 0;
  while (front + back + 1 < shortest &&
         same_for_all([&](const Parts& parts) { return parts[parts.size() - 1 - back]; })) {
    ++back;
  }
  std::vector<std::string> names;
  for (const Parts& parts : all) {
    std::string name;
    for (size_t i = front; i + back < parts.size(); ++i) {
      name += (name.empty() ? "" : "/") + parts[i];
    }
    names.push_back(name);
  }
  return names;
}

}  // namespace cosformer
