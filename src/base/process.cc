#include "base/process.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace cosformer {

bool BoundWaiting() {
  for (const char* name : {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}) {
    if (std::getenv(name) != nullptr) return false;
  }
  return setenv("GOMP_SPINCOUNT", "2000", 0) == 0;
}

void Restart(char** argv) {
  // By its name, which a list of processes shows.
  std::error_code error;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (!error) execv(self.c_str(), argv);
  execv("/proc/self/exe", argv);
}

}  // namespace cosformer
