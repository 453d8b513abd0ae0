// A program that goes on with a text, by a model that is given. docs/runtime.md shows it from here:
#include <cosformer/generate.h>
#include <cosformer/runtime.h>

#include <iostream>

int main(int argc, char** argv) try {
  const auto model = cosformer::runtime::Model::Load(argc > 1 ? argv[1] : "runs/lm-cosformer");
  cosformer::runtime::Session session(model);
  session.Feed(model.Encode("Attention is"));
  cosformer::runtime::GenerateOptions options;
  options.sampling.temperature = 0.8;
  options.max_tokens = 40;
  cosformer::runtime::Generate(session, options, [](const auto& token) {
    std::cout << token.text << std::flush;
    return true;  // go on
  });
} catch (const cosformer::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
