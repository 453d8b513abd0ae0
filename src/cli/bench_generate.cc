// `cosformer bench generate`: options in, table and JSON out.
#include <fmt/format.h>

#include <map>
#include <memory>

#include "bench/generate_bench.h"
#include "cli/bench.h"
#include "cli/output.h"
#include "cosformer/error.h"
#include "report/progress.h"
#include "runtime/parameters.h"

namespace cosformer::cli {
namespace {

constexpr const char* kBenchGenerateDescription =
    R"(Times the runtime on a model of random weights: the language model that cosformer train makes by
default, of 42 M parameters unless options say otherwise.

It reads prompts, writes token by token, takes many texts in a batch, and starts a process. Each
speed stands beside what the machine allows, sampled between the timed calls: the FMA peak, or the
bandwidth of doing nothing but reading the weights. All lengths and weights of a phase are timed in
turns, so that they can be compared where the machine's speed changes from one moment to the next;
models with all --weights are in memory at the same time.)";

constexpr const char* kBenchGenerateFooter = R"(
Phases    prefill   a prompt of --prompts tokens, through all weights but the output layer
          decode    a token at a time, with --contexts tokens behind it
          batch     a token each for --batches texts at a time
          start     a new process, from nothing to its first token
Columns   of the limit  the least time that operations and bytes need, as part of the time taken
          to first      times as fast as the first length, or batch, with the same weights
          to float32    times as fast as with the first of --weights
          state         what a text's context takes; peak: what a process with this alone would
                        take at its highest

Examples
  cosformer bench generate
  cosformer bench generate --weights float32,int8 --phases decode --contexts 0,1000000
  cosformer bench generate --attention cosformer-gate --layers 2 --width 128 --heads 4 --vocabulary 2048
  cosformer bench generate --activation swiglu --hidden 2048 --tied false --json results.json)";

struct BenchGenerateArguments {
  bench::GenerateBenchConfig config;
  std::string attention = "cosformer";
  std::string positions;
  std::string activation = "gelu";
  std::vector<std::string> weights = {"float32", "bfloat16", "int8", "int4"};
  std::vector<std::string> phases = {"prefill", "decode", "batch", "start"};
  std::string json;
};

bench::GenerateBenchConfig ConfigOf(const BenchGenerateArguments& arguments) {
  using bench::Phase;
  bench::GenerateBenchConfig config = arguments.config;
  config.model.attention = {{arguments.attention, nlohmann::json::object()}};
  config.positions.reset();
  if (!arguments.positions.empty()) {
    config.positions = ValueNamed<PositionKind>("--positions", arguments.positions,
                                                {PositionKind::kNone, PositionKind::kLearned,
                                                 PositionKind::kSinusoidal, PositionKind::kRotary},
                                                [](PositionKind kind) { return Name(kind); });
  }
  config.model.activation =
      ValueNamed<Activation>("--activation", arguments.activation,
                             {Activation::kGelu, Activation::kRelu, Activation::kSwiglu},
                             [](Activation activation) { return Name(activation); });
  config.weights.clear();
  for (const std::string& name : arguments.weights) {
    config.weights.push_back(ValueNamed<WeightType>(
        "--weights", name,
        {WeightType::kFloat32, WeightType::kBFloat16, WeightType::kInt8, WeightType::kInt4},
        [](WeightType type) { return runtime::Name(type); }));
  }
  config.phases.clear();
  for (const std::string& name : arguments.phases) {
    config.phases.push_back(ValueNamed<Phase>(
        "--phases", name, {Phase::kPrefill, Phase::kDecode, Phase::kBatch, Phase::kStart},
        [](Phase phase) { return bench::NameOf(phase); }));
  }
  return Checked(config);
}

void RunBenchGenerate(const BenchGenerateArguments& arguments) {
  const bench::GenerateBenchConfig config = ConfigOf(arguments);
  CheckJsonOutput(arguments.json);
  report::Progress progress;
  const bench::GenerateBench bench = RunGenerateBench(config, progress);
  progress.Clear();
  PrintResults(ToTable(bench), ToJson(bench).dump(2) + "\n", arguments.json);
}

}  // namespace

void AddGenerateBench(CLI::App& bench) {
  CLI::App* app = bench.add_subcommand("generate", kBenchGenerateDescription);
  app->footer(kBenchGenerateFooter);
  app->get_formatter()->column_width(36);
  app->option_defaults()->always_capture_default();
  const auto arguments = std::make_shared<BenchGenerateArguments>();
  bench::GenerateBenchConfig& config = arguments->config;
  ModelConfig& model = config.model;
  model.vocabulary = 32000;

  app->add_option("--layers", model.layers, "Layers");
  app->add_option("--width", model.width, "Width");
  app->add_option("--heads", model.heads, "Heads");
  app->add_option("--kv-heads", model.kv_heads, "Heads of keys and values; 0: as --heads");
  app->add_option("--hidden", model.hidden, "Of the feed-forward network; 0: 4 times the width");
  app->add_option("--vocabulary", model.vocabulary, "Tokens");
  app->add_option("--attention", arguments->attention,
                  "cosformer, cosformer-gate, linear, relu, softmax and others of the runtime");
  app->add_option(
      "--positions", arguments->positions,
      "none, learned, sinusoidal, rotary; otherwise as cosformer train has them: rotary, "
      "or none with a gate");
  app->add_option("--activation", arguments->activation, "gelu, relu, swiglu");
  app->add_option("--bias", model.bias, "true, false: biases in all layers");
  app->add_option("--tied", model.tied_embeddings,
                  "true, false: the output layer has the weights of the embedding");
  app->add_option("--weights", arguments->weights, "float32, bfloat16, int8, int4")->delimiter(',');
  app->add_option("--phases", arguments->phases, "See below")->delimiter(',');
  app->add_option("--prompts", config.prompts, "Lengths of prompts")->delimiter(',');
  app->add_option("--contexts", config.contexts, "Tokens behind the one that is written")
      ->delimiter(',');
  app->add_option("--batches", config.batches, "Texts in a batch")->delimiter(',');
  app->add_option("--threads", config.threads, "Numbers of threads")
      ->delimiter(',')
      ->default_str("all cores");
  app->add_option("--seconds", config.seconds, "Time to spend on each measurement, at least");
  AddJsonOption(*app, arguments->json);
  app->callback([arguments] { RunBenchGenerate(*arguments); });
}

}  // namespace cosformer::cli
