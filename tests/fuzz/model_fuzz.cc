// A model's directory: config.json up to the first zero byte of the input, behind it
// model.safetensors. What is loaded computes, and is written to a file that gives the same model.
#include "cosformer/runtime.h"
#include "fuzz.h"
#include "runtime/network.h"
#include "runtime/parameters.h"

namespace cosformer::fuzz {

using runtime::Model;
using runtime::Network;

void Try(std::string_view input) {
  const size_t end = input.find('\0');
  if (end == std::string_view::npos) return;
  FileOf("config.json", input.substr(0, end));
  FileOf("model.safetensors", input.substr(end + 1));
  const Model model = Model::Load(Folder(), {.endless = false, .threads = 1});

  const Network& network = model.network();
  const runtime::ParametersInfo info = runtime::DescribeParameters(
      network.config(), SafetensorsFile::Open(Folder() + "/model.safetensors"), "the same");
  Check(info.count == model.parameters() && info.bytes == model.weight_bytes() &&
            info.fingerprint == network.parameters().fingerprint,
        "a model is described as it is loaded");
  if (network.config().input == InputKind::kTokens) {
    const int32_t tokens[] = {0, 0};
    MayRefuse([&] {
      const std::vector<float> hidden = network.Encode(tokens);
      Check(hidden.size() == 2 * static_cast<size_t>(network.config().width), "rows are as wide");
      if (network.config().classes == 0) {
        std::vector<float> logits(static_cast<size_t>(2 * model.vocabulary()));
        network.Logits(hidden.data(), 2, logits.data());
      }
    });
  }
  if (model.use() == runtime::Use::kLanguageModel) {
    runtime::Session session(model);
    session.Feed(0);
    session.Logits();
  }

  const std::string again = Folder() + "/again.safetensors";
  MustAccept("a model that was loaded can be written and loaded again", [&] {
    runtime::WriteParameters(network.config(), network.parameters(), again);
    const runtime::Parameters read =
        runtime::ReadParameters(network.config(), SafetensorsFile::Open(again), again);
    Check(read.fingerprint == network.parameters().fingerprint, "as the same model");
  });
}

}  // namespace cosformer::fuzz
