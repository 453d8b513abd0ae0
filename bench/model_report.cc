// No figure is computed here but ratios of those in the rows.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "bench/model_bench.h"
#include "report/units.h"

namespace cosformer::bench {
namespace {

using report::FormatBytes;
using report::FormatCount;
using report::FormatInteger;
using report::FormatRatio;
using report::FormatSeconds;

const ModelRow* SoftmaxBeside(const ModelBench& bench, const ModelRow& row) {
  for (const ModelRow& other : bench.rows) {
    if (other.attention == "softmax" && other.pass == row.pass && other.length == row.length) {
      return &other;
    }
  }
  return nullptr;
}

std::string ShareText(std::optional<double> share, int digits) {
  return share ? fmt::format("{:.{}f} %", 100 * *share, digits) : "?";
}

template <class T>
nlohmann::ordered_json OrNull(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

// What to know of figures that are not what they would be on a machine that does nothing else.
std::string Doubts(const ModelBench& bench) {
  double most = 0;
  bool impossible = false;
  for (const ModelRow& row : bench.rows) {
    if (row.Busy()) most = std::max(most, *row.waited_part);
    impossible = impossible || !row.attention_share || !row.sgemm_share;
  }
  std::string text;
  if (most > 0) {
    text += fmt::format(
        "Note: the machine was busy: other programs had the cores for up to {:.0f} % of the time "
        "in "
        "which this one had work for them. Measure again when it is idle\n",
        100 * most);
  }
  if (impossible) {
    text +=
        "Note: ? stands for a part that was timed as longer than its whole, since the machine's "
        "speed changed meanwhile\n";
  }
  return text;
}

constexpr const char* kLine = "  {:<10}{:>8}  {:<22}{:>7}{:>10}{:>11}{:>11}{:>10}{:>12}{:>12}\n";

}  // namespace

std::string ToTable(const ModelBench& bench) {
  std::string text;
  const auto out = std::back_inserter(text);
  const ModelConfig& model = bench.config.model;
  fmt::format_to(out,
                 "{}: {} layers, width {}, {} heads, vocabulary {}, positions {}; {} thread{}\n",
                 bench.config.encoder ? "Encoder" : "Decoder", model.layers, model.width,
                 model.heads, FormatInteger(model.vocabulary),
                 bench.config.positions ? Name(*bench.config.positions) : "as training has them",
                 bench.threads, bench.threads == 1 ? "" : "s");
  fmt::format_to(out, "sgemm: {:.0f} GFLOP/s in this run\n\n", bench.sgemm_gflops);
  fmt::format_to(out, kLine, "pass", "length", "attention", "batch", "a step", "tokens/s",
                 "attention", "sgemm", "peak", "to softmax");
  std::string last;
  for (const std::string& pass : bench.config.passes) {
    for (const ModelRow& row : bench.rows) {
      if (row.pass != pass) continue;
      const std::string key = row.pass + std::to_string(row.length);
      const ModelRow* softmax = SoftmaxBeside(bench, row);
      fmt::format_to(out, kLine, key == last ? "" : row.pass,
                     key == last ? "" : FormatInteger(row.length), row.attention, row.batch,
                     FormatSeconds(row.seconds), FormatCount(row.tokens_per_second),
                     ShareText(row.attention_share, 1), ShareText(row.sgemm_share, 0),
                     row.peak_bytes ? FormatBytes(static_cast<double>(*row.peak_bytes)) : "?",
                     softmax == nullptr || softmax == &row
                         ? ""
                         : FormatRatio(row.tokens_per_second / softmax->tokens_per_second));
      last = key;
    }
  }
  for (const ModelSkip& skip : bench.skipped) {
    fmt::format_to(out, "  {:<10}{:>8}  {:<22}skipped: {}\n", skip.pass, FormatInteger(skip.length),
                   skip.attention, skip.reason);
  }
  text +=
      "\nattention: all layers' attention alone, between the projections, as part of the step\n"
      "sgemm: the time of the model's matrix products at the sgemm speed, as part of the step\n"
      "peak: resident memory of the whole process\n";
  text += Doubts(bench);
  if (!bench.blas_complaint.empty()) fmt::format_to(out, "Note: {}\n", bench.blas_complaint);
  return text;
}

std::string ToJson(const ModelBench& bench) {
  using nlohmann::ordered_json;
  ordered_json rows = ordered_json::array();
  for (const ModelRow& row : bench.rows) {
    rows.push_back({{"attention", row.attention},
                    {"positions", Name(row.positions)},
                    {"pass", row.pass},
                    {"length", row.length},
                    {"batch", row.batch},
                    {"threads", row.threads},
                    {"seconds", row.seconds},
                    {"tokens_per_second", row.tokens_per_second},
                    {"attention_share", OrNull(row.attention_share)},
                    {"sgemm_share", OrNull(row.sgemm_share)},
                    {"peak_bytes", OrNull(row.peak_bytes)},
                    {"waited_part", OrNull(row.waited_part)},
                    {"busy", row.Busy()}});
  }
  ordered_json skipped = ordered_json::array();
  for (const ModelSkip& skip : bench.skipped) {
    skipped.push_back({{"attention", skip.attention},
                       {"pass", skip.pass},
                       {"length", skip.length},
                       {"reason", skip.reason}});
  }
  const ModelConfig& model = bench.config.model;
  const ordered_json result = {{"model",
                                {{"kind", bench.config.encoder ? "encoder" : "decoder"},
                                 {"layers", model.layers},
                                 {"width", model.width},
                                 {"heads", model.heads},
                                 {"vocabulary", model.vocabulary}}},
                               {"threads", bench.threads},
                               {"sgemm_gflops", bench.sgemm_gflops},
                               {"blas_complaint", bench.blas_complaint},
                               {"rows", rows},
                               {"skipped", skipped}};
  return result.dump(2) + "\n";
}

}  // namespace cosformer::bench
