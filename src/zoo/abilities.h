// What systems can do, for callers that choose among them and need none of libtorch's headers.
#pragma once

#include <string>

namespace cosformer::zoo {

// Whether rotary positions go with it; false if there is no such system.
bool TakesRotary(const std::string& system);

}  // namespace cosformer::zoo
