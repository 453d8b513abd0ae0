// A program that goes on with a text, by a model that is given. README.md and docs/runtime.md show
// it from here:
#include <cosformer/generate.h>
#include <cosformer/runtime.h>

#include <iostream>

int main(int argc, char** argv) try {
  using namespace cosformer::runtime;
  const Model model = Model::Load(argc > 1 ? argv[1] : "runs/quickstart");  // shared by sessions
  Session session(model);  // a value: copy it, save it, load it
  session.Feed(model.Encode("Attention is"));
  GenerateOptions options;
  options.sampling.temperature = 0.8;
  options.max_tokens = 40;  // 0: until the function below has enough
  Generate(session, options, [](const auto& token) {
    std::cout << token.text << std::flush;
    return true;  // go on
  });
  // To write more: session.Feed(the last token) first.
} catch (const cosformer::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
