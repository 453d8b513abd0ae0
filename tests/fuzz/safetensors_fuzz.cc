// A safetensors file: the tensors are the end of the file, one after the other, and can be written
// again.
#include "formats/safetensors.h"

#include <cstring>

#include "fuzz.h"

namespace cosformer::fuzz {
namespace {

void CheckSame(const SafetensorsFile& file, const SafetensorsFile& again) {
  Check(again.metadata() == file.metadata(), "metadata that is written comes back");
  Check(again.tensors().size() == file.tensors().size(), "as many tensors come back");
  for (const TensorEntry& tensor : file.tensors()) {
    const TensorEntry* found = again.Find(tensor.name);
    Check(found != nullptr && found->type == tensor.type && found->shape == tensor.shape &&
              found->data.size() == tensor.data.size(),
          "a tensor that is written comes back");
    Check(tensor.data.empty() ||
              std::memcmp(found->data.data(), tensor.data.data(), tensor.data.size()) == 0,
          "with its data");
  }
}

}  // namespace

void Try(std::string_view input) {
  const SafetensorsFile file = SafetensorsFile::Open(FileOf("model.safetensors", input));
  size_t bytes = 0;
  for (const TensorEntry& tensor : file.tensors()) bytes += tensor.data.size();
  Check(bytes + 8 <= input.size(), "the tensors are no larger than the file");
  std::string_view rest = input.substr(input.size() - bytes);
  for (const TensorEntry& tensor : file.tensors()) {
    const size_t size = tensor.data.size();
    Check(file.Find(tensor.name) == &tensor, "a tensor is found by its name");
    Check(size == 0 || std::memcmp(tensor.data.data(), rest.data(), size) == 0,
          "the tensors tile the end of the file");
    rest.remove_prefix(size);
  }

  const std::string path = Folder() + "/again.safetensors";
  MustAccept("tensors that were read can be written and read again", [&] {
    WriteSafetensors(path, file.tensors(), file.metadata());
    CheckSame(file, SafetensorsFile::Open(path));
  });
}

}  // namespace cosformer::fuzz
