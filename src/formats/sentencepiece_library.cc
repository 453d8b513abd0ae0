#include "formats/sentencepiece_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "cosformer/error.h"

namespace cosformer {
namespace {

#if defined(COSFORMER_SANITIZED)
// The sanitizers can't watch what is bound to itself first; their builds have no libtorch, and need
// it not. Their dlopen does not look where the program would: the path is given whole.
constexpr int kHow = RTLD_NOW | RTLD_LOCAL;
constexpr const char* kFile = COSFORMER_SANITIZED;
#else
constexpr int kHow = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
// Found by the run path of the program, or by the system's.
constexpr const char* kFile = "libcosformer_sentencepiece.so";
#endif

const SentencePieceLibrary* Open() {
  void* handle = dlopen(kFile, kHow);
  if (handle == nullptr) {
    throw Error(
        fmt::format("SentencePiece can't be loaded ({}); {} is looked for in the run path of the "
                    "program and in LD_LIBRARY_PATH, and needs Debian's libsentencepiece0",
                    dlerror(), kFile));
  }
  using Entry = const SentencePieceLibrary*();
  auto* entry = reinterpret_cast<Entry*>(dlsym(handle, "CosformerSentencePiece"));
  if (entry == nullptr) {
    throw Error(fmt::format("{} is of another version of cosformer; install it again", kFile));
  }
  return entry();
}

}  // namespace

const SentencePieceLibrary& SentencePiece() {
  static const SentencePieceLibrary* const library = Open();
  return *library;
}

}  // namespace cosformer
