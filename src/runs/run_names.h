// What to call runs that are shown together: of each path the part that tells it from the others.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace cosformer {

// The folders that all paths begin or end with are left out, as long as something is left:
// runs/cosformer/seed1 and runs/softmax/seed1 are "cosformer" and "softmax". One path alone is
// called by its last part. The names differ if the paths do, after "." and ".." are resolved.
std::vector<std::string> RunNames(std::span<const std::string> paths);

}  // namespace cosformer
