// checksums.json: what was read is the same when it is written and read again, and holds any tensor
// against it without harm.
#include "formats/model_weights.h"
#include "fuzz.h"

namespace cosformer::fuzz {

void Try(std::string_view input) {
  const Checksums checksums = Checksums::Parse(input, "checksums.json");
  const std::string text = checksums.ToJson();
  MustAccept("checksums that were read can be written and read again", [&] {
    Check(Checksums::Parse(text, "again").ToJson() == text, "checksums that are written come back");
  });
  const float numbers[6] = {};
  const TensorEntry tensor{"matrix", TensorType::kF32, {2, 3}, std::as_bytes(std::span(numbers))};
  MayRefuse([&] { checksums.Check(tensor, "model.safetensors"); });
}

}  // namespace cosformer::fuzz
