// `cosformer bench model`: options in, table and JSON out.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/model_bench.h"
#include "cli/bench.h"
#include "cli/output.h"
#include "cosformer/error.h"
#include "cosformer/torch.h"
#include "report/progress.h"

namespace cosformer::cli {
namespace {

constexpr const char* kBenchModelDescription =
    R"(Times whole models with each attention: forward, and training (forward, backward, update).

The speed of a matrix product is sampled in the same run, between the steps, so that what the model
loses to everything else can be seen.)";

std::string Footer() {
  std::string text =
      "\nColumns   attention   all layers' attention alone, between the projections, as part of a "
      "step\n"
      "          sgemm       the time of the model's matrix products at the sgemm speed, as part "
      "of a step\n"
      "          peak        resident memory of the process\n\nSystems\n";
  for (const SystemDescription& system : AttentionSystems()) {
    const Abilities& can = system.abilities;
    std::string directions;
    for (const auto& [able, name] : {std::pair{can.causal, "causal"},
                                     {can.bidirectional, "bidirectional"},
                                     {can.cross, "cross"}}) {
      if (able) directions += (directions.empty() ? "" : ", ") + std::string(name);
    }
    text += fmt::format("  {:<22}{:<30}{}\n", system.name, directions, system.summary);
  }
  text +=
      "\nExamples\n"
      "  cosformer bench model\n"
      "  cosformer bench model --attention cosformer,linear,softmax --lengths 1024,8192,32768\n"
      "  cosformer bench model --encoder --attention bigbird,longformer --passes train --json -";
  return text;
}

struct BenchModelArguments {
  bench::ModelBenchConfig config;
  std::string positions;
  std::string json;
};

void RequirePositive(const char* option, int64_t value) {
  if (value < 1) throw Error(fmt::format("{} is {}; it must be at least 1", option, value));
}

void RunBenchModel(const BenchModelArguments& arguments) {
  bench::ModelBenchConfig config = arguments.config;
  for (const int64_t length : config.lengths) RequirePositive("--lengths", length);
  RequirePositive("--tokens", config.tokens);
  if (config.threads < 0) throw Error("--threads is negative; give a number of threads, 0 for all");
  if (!(config.seconds > 0)) throw Error("--seconds must be more than 0");
  for (const std::string& pass : config.passes) {
    if (pass != "forward" && pass != "train") {
      throw Error(fmt::format("--passes does not know \"{}\": it takes forward, train", pass));
    }
  }
  if (!arguments.positions.empty()) {
    config.positions = ValueNamed<PositionKind>(
        "--positions", arguments.positions,
        {PositionKind::kNone, PositionKind::kLearned, PositionKind::kSinusoidal,
         PositionKind::kRotary, PositionKind::kSpeSine, PositionKind::kSpeConv},
        [](PositionKind kind) { return Name(kind); });
  }
  CheckJsonOutput(arguments.json);
  report::Progress progress;
  const bench::ModelBench bench = RunModelBench(config, progress);
  progress.Clear();
  PrintResults(ToTable(bench), ToJson(bench), arguments.json);
}

}  // namespace

void AddModelBench(CLI::App& bench) {
  CLI::App* app = bench.add_subcommand("model", kBenchModelDescription);
  app->footer(Footer());
  app->get_formatter()->column_width(36);
  app->option_defaults()->always_capture_default();
  const auto arguments = std::make_shared<BenchModelArguments>();
  bench::ModelBenchConfig& config = arguments->config;
  config.model.vocabulary = 16384;
  app->add_option("--attention", config.attention, "Systems to time, see below")->delimiter(',');
  app->add_option("--lengths", config.lengths, "Lengths in tokens")->delimiter(',');
  app->add_option("--passes", config.passes, "forward, train")->delimiter(',');
  app->add_flag("--encoder", config.encoder, "A bidirectional encoder; otherwise a causal decoder");
  app->add_option("--positions", arguments->positions,
                  "none, learned, sinusoidal, rotary, spe-sine, spe-conv; otherwise as cosformer "
                  "train has them: for decoders rotary, or none with a gate; for encoders learned");
  app->add_option("--tokens", config.tokens,
                  "Tokens a step: the batch is as many sequences as fit, at least one");
  app->add_option("--layers", config.model.layers, "Layers");
  app->add_option("--width", config.model.width, "Width of the model");
  app->add_option("--heads", config.model.heads, "Heads");
  app->add_option("--vocabulary", config.model.vocabulary, "Tokens in the vocabulary");
  app->add_option("--dropout", config.model.dropout, "Dropout while training");
  app->add_flag("--checkpointing", config.model.checkpointing,
                "Recompute activations in the backward pass: less memory, a third more work");
  app->add_option("--threads", config.threads, "Threads")->default_str("all cores");
  app->add_option("--seconds", config.seconds, "Time to spend on each measurement, at least");
  AddJsonOption(*app, arguments->json);
  app->callback([arguments] { RunBenchModel(*arguments); });
}

}  // namespace cosformer::cli
