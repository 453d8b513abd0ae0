#include "fuzz.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "formats/utf8.h"

namespace cosformer::fuzz {
namespace {

// The longest sentences list what would have been right: all types of tensors, twenty unknown keys.
constexpr size_t kLongestSentence = 4000;

class TemporaryFolder {
 public:
  TemporaryFolder() {
    path_ = (std::filesystem::temp_directory_path() / "cosformer_fuzz_XXXXXX").string();
    if (mkdtemp(path_.data()) == nullptr) Fail("a temporary folder can be made", path_);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

void Fail(std::string_view promise, std::string_view found) {
  std::fprintf(stderr, "does not hold: %.*s%s%.*s\n", static_cast<int>(promise.size()),
               promise.data(), found.empty() ? "" : ": ", static_cast<int>(found.size()),
               found.data());
  std::abort();
}

void CheckSentence(std::string_view sentence) {
  Check(!sentence.empty(), "a refusal says something");
  Check(sentence.size() <= kLongestSentence, "a refusal is short");
  Check(IsUtf8(sentence), "a refusal is UTF-8");
}

const std::string& Folder() {
  static const TemporaryFolder folder;
  return folder.path();
}

std::string FileOf(const std::string& name, std::string_view input) {
  std::string path = Folder() + "/" + name;
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (descriptor < 0 ||
      write(descriptor, input.data(), input.size()) != static_cast<ssize_t>(input.size()) ||
      close(descriptor) != 0) {
    Fail("the input can be written to a file", path);
  }
  return path;
}

}  // namespace cosformer::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cosformer::fuzz;
  MayRefuse([&] { Try({reinterpret_cast<const char*>(data), size}); });
  return 0;
}
