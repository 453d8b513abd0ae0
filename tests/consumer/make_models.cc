// Writes small language models for the programs that use the installed runtime, one that reads
// bytes and one that reads SentencePiece's pieces, each with the text that it is to print.
//   consumer_models <folder>
#include <cstdio>
#include <fstream>
#include <random>
#include <string>

#include "cosformer/generate.h"
#include "data/tokenizer_training.h"
#include "tests/runtime/model_directory.h"

namespace cosformer::runtime::testing {
namespace {

Tokenizer Pieces() {
  const char* words[] = {"attention ", "is ",   "linear ", "in ",   "the ", "length ",
                         "of ",        "texts", ", ",      "short", "long", " or\n"};
  std::mt19937 random(1);
  std::string text;
  for (int i = 0; i < 3000; ++i) text += words[random() % std::size(words)];
  return data::TrainSentencePiece([&](const auto& take) { take(text); }, 300);
}

// As the programs do it.
void Write(const std::string& folder, const Tokenizer& tokenizer) {
  const std::string directory = WriteModel(folder, {}, tokenizer);
  Session session(Model::Load(directory));
  session.Feed(session.model().Encode("Attention is"));
  GenerateOptions options;
  options.sampling.temperature = 0.8;
  options.max_tokens = 40;
  std::ofstream(directory + "/expected.txt", std::ios::binary) << Generate(session, options).text;
}

}  // namespace
}  // namespace cosformer::runtime::testing

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s <folder>\n", argv[0]);
    return 2;
  }
  const std::string folder = argv[1];
  cosformer::runtime::testing::Write(folder + "/bytes", cosformer::Tokenizer::Bytes());
  cosformer::runtime::testing::Write(folder + "/pieces", cosformer::runtime::testing::Pieces());
}
