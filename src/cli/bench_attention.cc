// `cosformer bench attention`: options in, table, JSON and plot out.
#include "cli/bench.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/attention_bench.h"
#include "bench/attention_report.h"
#include "cli/output.h"
#include "cosformer/error.h"
#include "report/files.h"
#include "report/plot.h"
#include "report/progress.h"

namespace cosformer::cli {
namespace {

constexpr const char* kBenchAttentionDescription =
    R"(Times cosFormer's attention, and the softmax attention that it replaces, on this machine.

The machine is measured in the same run: its FMA peak, sampled between the timed calls, and the
bandwidth of its memory and of its caches. Every result is checked against a double-precision reference before it is timed; a result
that is wrong ends the run, and no time is shown.)";

constexpr const char* kBenchAttentionFooter = R"(
Systems   cosformer   ReLU features and the cos re-weighting
          linear      the Linear Transformer: 1 + elu, no re-weighting
          softmax     blockwise, never holding a matrix of length x length
Passes    forward, forward_backward: the whole sequence
          step: one decoding step with length - 1 tokens behind it; causal only
Columns   share of    the useful work alone as part of what the machine can do: of the FMA peak, or
                      for a step of the bandwidth of caches (state read and written once, though
                      ReLU's zeros spare cosformer 3/8 of it) or of memory (keys and values
                      read once; above 100 % they came from cache)
          extra memory  the rise of the process's peak during a call, beyond inputs and outputs;
                      for a step the size of the state or cache
          to softmax  how many times as fast as softmax at the same length

Examples
  cosformer bench attention
  cosformer bench attention --lengths 4096,65536 --systems cosformer,linear --mode both
  cosformer bench attention --json results.json --plot results.svg)";

struct BenchAttentionArguments {
  bench::AttentionBenchConfig config;
  std::optional<int64_t> kv_heads;   // otherwise as heads
  std::optional<int64_t> value_dim;  // otherwise as dim
  std::string mode = "causal";
  std::vector<std::string> systems = {"cosformer", "softmax"};
  std::vector<std::string> passes = {"forward", "forward_backward", "step"};
  std::string dtype = "float32";
  std::string json;
  std::string plot;
};

template <class T>
T Named(const char* option, const std::string& name, const std::map<std::string, T>& values) {
  const auto found = values.find(name);
  if (found != values.end()) return found->second;
  std::string known;
  for (const auto& [value, _] : values) known += (known.empty() ? "" : ", ") + value;
  throw Error(fmt::format("{} does not know \"{}\": it takes {}", option, name, known));
}

bench::AttentionBenchConfig ConfigOf(const BenchAttentionArguments& arguments) {
  using bench::Pass;
  using bench::System;
  bench::AttentionBenchConfig config = arguments.config;
  config.shape.kv_heads = arguments.kv_heads.value_or(config.shape.heads);
  config.shape.value_dim = arguments.value_dim.value_or(config.shape.dim);
  config.shape.dtype = Named<DType>("--dtype", arguments.dtype,
                                    {{"float32", DType::kFloat32}, {"bfloat16", DType::kBFloat16}});
  config.causal = Named<std::vector<bool>>(
      "--mode", arguments.mode,
      {{"causal", {true}}, {"bidirectional", {false}}, {"both", {true, false}}});
  config.systems.clear();
  for (const std::string& name : arguments.systems) {
    config.systems.push_back(Named<System>("--systems", name,
                                           {{"cosformer", System::kCosformer},
                                            {"linear", System::kLinear},
                                            {"softmax", System::kSoftmax}}));
  }
  config.passes.clear();
  for (const std::string& name : arguments.passes) {
    config.passes.push_back(Named<Pass>("--passes", name,
                                        {{"forward", Pass::kForward},
                                         {"forward_backward", Pass::kForwardBackward},
                                         {"step", Pass::kStep}}));
  }
  return Checked(config);
}

void RunBenchAttention(const BenchAttentionArguments& arguments) {
  const bench::AttentionBenchConfig config = ConfigOf(arguments);
  if (arguments.plot == "-") throw Error("--plot takes a file name, as --plot attention.svg");
  if (!arguments.json.empty() && arguments.json == arguments.plot) {
    throw Error(fmt::format("--json and --plot both name \"{}\": give two files", arguments.json));
  }
  CheckJsonOutput(arguments.json);
  if (!arguments.plot.empty()) report::CheckWritable(arguments.plot);

  report::Progress progress;
  const bench::AttentionBench bench = RunAttentionBench(config, progress);
  progress.Clear();

  PrintResults(ToTable(bench), ToJson(bench), arguments.json);
  if (!arguments.plot.empty()) {
    report::WriteFile(arguments.plot, report::RenderSvg(ToFigure(bench)));
  }
}

}  // namespace

void AddAttentionBench(CLI::App& bench) {
  CLI::App* app = bench.add_subcommand("attention", kBenchAttentionDescription);
  app->footer(kBenchAttentionFooter);
  app->get_formatter()->column_width(36);
  app->option_defaults()->always_capture_default();
  const auto arguments = std::make_shared<BenchAttentionArguments>();
  bench::AttentionBenchConfig& config = arguments->config;

  app->add_option("--lengths", config.lengths, "Lengths in tokens")->delimiter(',');
  app->add_option("--heads", config.shape.heads, "Query heads");
  app->add_option("--kv-heads", arguments->kv_heads, "Key/value heads, which query heads share")
      ->default_str("as --heads");
  app->add_option("--dim", config.shape.dim, "Size of a head's queries and keys");
  app->add_option("--value-dim", arguments->value_dim, "Size of a head's values")
      ->default_str("as --dim");
  app->add_option("--batch", config.shape.batch, "Sequences in a batch");
  app->add_option("--threads", config.threads, "Numbers of threads")
      ->delimiter(',')
      ->default_str("1 and all cores");
  app->add_option("--mode", arguments->mode, "causal, bidirectional or both");
  app->add_option("--systems", arguments->systems, "Systems to time, see below")->delimiter(',');
  app->add_option("--passes", arguments->passes, "Passes to time, see below")->delimiter(',');
  app->add_option("--dtype", arguments->dtype, "Of inputs and outputs: float32 or bfloat16");
  app->add_option("--seconds", config.seconds, "Time to spend on each measurement, at least");
  app->add_option("--max-softmax-length", config.max_softmax_length,
                  "Skip softmax, whose time grows with the square, beyond this length");
  AddJsonOption(*app, arguments->json);
  app->add_option("--plot", arguments->plot, "Also draw time against length to this SVG file");
  app->callback([arguments] { RunBenchAttention(*arguments); });
}

}  // namespace cosformer::cli
