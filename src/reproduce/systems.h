// The systems by the names that they have here and in the paper.
#pragma once

#include <string>
#include <vector>

namespace cosformer::reproduce {

struct SystemName {
  std::string name;   // as --attention takes it
  std::string label;  // as the paper's tables have it
};

const std::vector<SystemName>& SystemNames();

// The paper's name; the name itself, if it is not known.
std::string LabelOf(const std::string& system);

// Hues of plots for what is drawn together: a system's is its place among `all`, as far as no other
// has that colour.
std::vector<int> HuesOf(const std::vector<std::string>& drawn, const std::vector<std::string>& all);

// Throws Error, listing the systems, if there is none of this name.
void CheckSystem(const std::string& system);

}  // namespace cosformer::reproduce
