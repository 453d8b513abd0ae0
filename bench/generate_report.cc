// The results of `cosformer bench generate` as a table and as JSON.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/generate_bench.h"
#include "report/units.h"
#include "runtime/parameters.h"

namespace cosformer::bench {
namespace {

std::string Percent(const std::optional<double>& share) {
  return share ? fmt::format("{:.0f} %", 100 * *share) : "";
}

std::string Speed(const GenerateRow& row) {
  if (row.phase == Phase::kStart) return fmt::format("{:.0f} ms", 1000 / row.tokens_per_second);
  return row.tokens_per_second >= 10000 ? fmt::format("{:.0f}", row.tokens_per_second)
                                        : fmt::format("{:.1f}", row.tokens_per_second);
}

// How many times as fast as the first row that is its like in all but what is compared.
template <class Like>
std::string Ratio(const GenerateBench& bench, const GenerateRow& row, const Like& like) {
  for (const GenerateRow& other : bench.rows) {
    if (other.phase != row.phase || other.threads != row.threads || !like(other)) continue;
    if (&other == &row) return "";
    return fmt::format("{:.2f} ×", row.tokens_per_second / other.tokens_per_second);
  }
  return "";
}

}  // namespace

std::string ToTable(const GenerateBench& bench) {
  const ModelConfig& model = bench.config.model;
  std::string text = fmt::format(
      "{}, {}, {} cores\nmodel: {} layers of width {}, {} heads, hidden {}, vocabulary {}, {} M "
      "parameters, {}, positions {}\n",
      bench.machine.cpu, bench.machine.target, bench.machine.threads, model.layers, model.width,
      model.heads, model.hidden, model.vocabulary, (bench.parameters + 500000) / 1000000,
      model.attention.front().system, Name(model.positions.kind));
  for (const GenerateLimits& limits : bench.limits) {
    text += fmt::format(
        "{:<9} weights can be read at {:.1f} GB/s, FMA peak {:.0f} GFLOP/s, {} threads\n",
        runtime::Name(limits.weights), limits.read_gbps, limits.fma_gflops, limits.threads);
  }
  constexpr const char* kRow = "{:<9}{:<9}{:>9}{:>7}{:>9}{:>11}{:>14}{:>10}{:>13}{:>11}{:>11}\n";
  text += '\n';
  text += fmt::format(fmt::runtime(kRow), "weights", "phase", "context", "batch", "threads",
                      "tokens/s", "of the limit", "to first",
                      fmt::format("to {}", runtime::Name(bench.config.weights.front())), "state",
                      "peak");
  for (const GenerateRow& row : bench.rows) {
    const auto same_weights = [&](const GenerateRow& other) {
      return other.weights == row.weights;
    };
    const auto same_length = [&](const GenerateRow& other) {
      return other.context == row.context && other.batch == row.batch;
    };
    text += fmt::format(fmt::runtime(kRow), runtime::Name(row.weights), NameOf(row.phase),
                        row.context, row.batch, row.threads, Speed(row), Percent(row.limit_share),
                        Ratio(bench, row, same_weights), Ratio(bench, row, same_length),
                        row.state_bytes > 0 ? report::FormatBytes(row.state_bytes) : "",
                        row.peak_bytes ? report::FormatBytes(*row.peak_bytes) : "");
  }
  for (const std::string& note : bench.notes) text += note + "\n";
  return text;
}

nlohmann::json ToJson(const GenerateBench& bench) {
  nlohmann::json json;
  json["model"] = ToJson(bench.config.model);
  json["parameters"] = bench.parameters;
  json["machine"] = {{"cpu", bench.machine.cpu},
                     {"target", bench.machine.target},
                     {"threads", bench.machine.threads}};
  json["limits"] = nlohmann::json::array();
  for (const GenerateLimits& limits : bench.limits) {
    json["limits"].push_back({{"weights", runtime::Name(limits.weights)},
                              {"threads", limits.threads},
                              {"read_gbps", limits.read_gbps},
                              {"fma_gflops", limits.fma_gflops}});
  }
  json["rows"] = nlohmann::json::array();
  const auto or_null = [](const auto& value) {
    return value ? nlohmann::json(*value) : nlohmann::json();
  };
  for (const GenerateRow& row : bench.rows) {
    json["rows"].push_back({{"phase", NameOf(row.phase)},
                            {"weights", runtime::Name(row.weights)},
                            {"context", row.context},
                            {"batch", row.batch},
                            {"threads", row.threads},
                            {"tokens_per_second", row.tokens_per_second},
                            {"limit_share", or_null(row.limit_share)},
                            {"state_bytes", row.state_bytes},
                            {"peak_bytes", or_null(row.peak_bytes)}});
  }
  json["notes"] = bench.notes;
  return json;
}

}  // namespace cosformer::bench
