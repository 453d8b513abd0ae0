// No figure is computed here but ratios of those in the rows.
#include "bench/attention_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <vector>

#include "report/units.h"

namespace cosformer::bench {
namespace {

using report::FormatBytes;
using report::FormatCount;
using report::FormatInteger;
using report::FormatRatio;
using report::FormatSeconds;

const char* ModeTitle(bool causal) { return causal ? "causal" : "bidirectional"; }
const char* DTypeName(DType dtype) { return dtype == DType::kFloat32 ? "float32" : "bfloat16"; }

std::string ThreadsTitle(int threads) {
  return fmt::format("{} thread{}", threads, threads == 1 ? "" : "s");
}

std::string ShapeTitle(const AttentionShape& shape) {
  std::string title = fmt::format("{}, batch {}, {} heads of {}", DTypeName(shape.dtype),
                                  shape.batch, shape.heads, shape.dim);
  if (shape.value_dim != shape.dim) title += fmt::format(" (values of {})", shape.value_dim);
  if (shape.kv_heads != shape.heads) title += fmt::format(", {} key/value heads", shape.kv_heads);
  return title;
}

std::string LimitTitle(Limit limit) {
  switch (limit) {
    case Limit::kFmaPeak:
      return "FMA peak";
    case Limit::kL2Bandwidth:
      return "cache";
    case Limit::kReadBandwidth:
      return "memory";
  }
  return "";
}

int MostThreads(const AttentionBench& bench) {
  return *std::max_element(bench.config.threads.begin(), bench.config.threads.end());
}

void AppendMachine(std::string& text, const Machine& machine) {
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "Machine: {}, {}, {}\n", machine.cpu, machine.target,
                 ThreadsTitle(machine.threads));
  fmt::format_to(out, "  {:<12}{:>16}{:>16}{:>16}\n", "", "FMA peak", "memory", "cache");
  for (const auto& [threads, limits] : machine.limits) {
    fmt::format_to(out, "  {:<12}{:>16}{:>16}{:>16}\n", ThreadsTitle(threads),
                   fmt::format("{:.0f} GFLOP/s", limits.fma_gflops),
                   fmt::format("{:.1f} GB/s", limits.read_gbps),
                   fmt::format("{:.1f} GB/s", limits.update_gbps));
  }
  fmt::format_to(out,
                 "  memory: reading {}{}; cache: reading and writing {} a thread, the size of a "
                 "decoding state\n",
                 FormatBytes(static_cast<double>(machine.read_bytes)),
                 machine.ReadsMemory() ? "" : ", partly from the last-level cache",
                 FormatBytes(static_cast<double>(machine.update_bytes)));
}

constexpr const char* kLine = "  {:<19}{:>11}  {:<19}{:>9}{:>11}   {:<16}{:>13}{:>12}\n";

void AppendRow(std::string& text, const AttentionRow& row, bool first_of_pass) {
  fmt::format_to(std::back_inserter(text), kLine, first_of_pass ? TitleOf(row.pass) : "",
                 FormatInteger(row.length), TitleOf(row.system), FormatSeconds(row.seconds),
                 FormatCount(row.tokens_per_second),
                 fmt::format("{:3.0f} % {}", 100 * row.peak_share, LimitTitle(row.limit)),
                 row.extra_bytes ? FormatBytes(static_cast<double>(*row.extra_bytes)) : "?",
                 row.system == System::kSoftmax ? ""
                 : row.ratio_to_softmax         ? FormatRatio(*row.ratio_to_softmax)
                                                : "-");
}

void AppendSkip(std::string& text, const AttentionSkip& skip, bool first_of_pass) {
  fmt::format_to(std::back_inserter(text), "  {:<19}{:>11}  {:<19}  skipped: {}\n",
                 first_of_pass ? TitleOf(skip.pass) : "", FormatInteger(skip.length),
                 TitleOf(skip.system), skip.reason);
}

void AppendBlock(std::string& text, const AttentionBench& bench, bool causal, int threads) {
  fmt::format_to(std::back_inserter(text), "\n{}, {}\n", causal ? "Causal" : "Bidirectional",
                 ThreadsTitle(threads));
  fmt::format_to(std::back_inserter(text), kLine, "pass", "length", "system", "time", "tokens/s",
                 "  share of", "extra memory", "to softmax");
  const auto belongs = [&](const auto& row, Pass pass, int64_t length, System system) {
    return row.causal == causal && row.threads == threads && row.pass == pass &&
           row.length == length && row.system == system;
  };
  for (const Pass pass : {Pass::kForward, Pass::kForwardBackward, Pass::kStep}) {
    bool first = true;
    for (const int64_t length : bench.config.lengths) {
      for (const System system : {System::kCosformer, System::kLinear, System::kSoftmax}) {
        for (const AttentionRow& row : bench.rows) {
          if (!belongs(row, pass, length, system)) continue;
          AppendRow(text, row, first);
          first = false;
        }
        for (const AttentionSkip& skip : bench.skipped) {
          if (!belongs(skip, pass, length, system)) continue;
          AppendSkip(text, skip, first);
          first = false;
        }
      }
    }
  }
}

// From which measured length on cosFormer is faster at every measured length; in words.
std::string Standing(const AttentionBench& bench, bool causal, int threads, Pass pass) {
  int64_t from = 0;
  const AttentionRow* last = nullptr;
  for (const AttentionRow& row : bench.rows) {  // lengths ascend
    if (row.system != System::kCosformer || row.causal != causal || row.threads != threads ||
        row.pass != pass || !row.ratio_to_softmax) {
      continue;
    }
    last = &row;
    if (*row.ratio_to_softmax <= 1) {
      from = 0;
    } else if (from == 0) {
      from = row.length;
    }
  }
  if (last == nullptr) return "";
  return fmt::format("{}, {} as fast at {}",
                     from == 0 ? "not ahead" : "ahead from " + FormatInteger(from) + " on",
                     FormatRatio(*last->ratio_to_softmax), FormatInteger(last->length));
}

void AppendConclusion(std::string& text, const AttentionBench& bench) {
  const auto out = std::back_inserter(text);
  text += '\n';
  std::string standings;
  for (const bool causal : bench.config.causal) {
    for (const Pass pass : {Pass::kForward, Pass::kForwardBackward, Pass::kStep}) {
      const std::string standing = Standing(bench, causal, MostThreads(bench), pass);
      if (standing.empty()) continue;
      standings += fmt::format("  {:<15}{:<21}{}\n", ModeTitle(causal), TitleOf(pass), standing);
    }
  }
  if (!standings.empty()) {
    fmt::format_to(out, "cosFormer against softmax with {}, among the lengths measured\n{}\n",
                   ThreadsTitle(MostThreads(bench)), standings);
  }
  text +=
      "Each result agreed with the double-precision reference before it was timed.\n"
      "Times are medians of interleaved calls; shares count useful work only.\n";
  double spread = 1;
  bool memory_known = true;
  for (const AttentionRow& row : bench.rows) {
    spread = std::max(spread, row.seconds / row.seconds_min);
    memory_known = memory_known && row.extra_bytes;
  }
  if (spread > 1.3) {
    fmt::format_to(out,
                   "The machine was busy: medians are up to {:.1f} times the fastest call. Take "
                   "ratios with care.\n",
                   spread);
  }
  if (!memory_known) {
    text +=
        "Extra memory is unknown: this system does not let a process reset its peak "
        "(/proc/self/clear_refs).\n";
  }
}

}  // namespace

std::string ToTable(const AttentionBench& bench) {
  std::string text = fmt::format("Attention: {}\n\n", ShapeTitle(bench.config.shape));
  AppendMachine(text, bench.machine);
  for (const bool causal : {true, false}) {
    if (std::find(bench.config.causal.begin(), bench.config.causal.end(), causal) ==
        bench.config.causal.end()) {
      continue;
    }
    for (const int threads : bench.config.threads) AppendBlock(text, bench, causal, threads);
  }
  AppendConclusion(text, bench);
  return text;
}

std::string ToJson(const AttentionBench& bench) {
  using Json = nlohmann::ordered_json;
  const Machine& machine = bench.machine;
  const Limits& one = machine.For(1);
  const Limits& all = machine.For(machine.threads);
  Json json;
  json["machine"] = {{"fma_peak_gflops_1", one.fma_gflops},
                     {"fma_peak_gflops_all", all.fma_gflops},
                     {"read_gbps_1", one.read_gbps},
                     {"read_gbps_all", all.read_gbps},
                     {"l2_gbps_1", one.update_gbps},
                     {"l2_gbps_all", all.update_gbps},
                     {"threads", machine.threads},
                     {"cpu", machine.cpu},
                     {"target", machine.target},
                     {"read_bytes", machine.read_bytes},
                     {"l2_bytes", machine.update_bytes}};
  const auto optional = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
  json["rows"] = Json::array();
  for (const AttentionRow& row : bench.rows) {
    json["rows"].push_back({{"system", NameOf(row.system)},
                            {"pass", NameOf(row.pass)},
                            {"causal", row.causal},
                            {"length", row.length},
                            {"batch", bench.config.shape.batch},
                            {"heads", bench.config.shape.heads},
                            {"kv_heads", bench.config.shape.kv_heads},
                            {"dim", bench.config.shape.dim},
                            {"value_dim", bench.config.shape.value_dim},
                            {"dtype", DTypeName(bench.config.shape.dtype)},
                            {"threads", row.threads},
                            {"seconds", row.seconds},
                            {"seconds_min", row.seconds_min},
                            {"samples", row.samples},
                            {"tokens_per_second", row.tokens_per_second},
                            {"peak_share", row.peak_share},
                            {"limit", NameOf(row.limit)},
                            {"limit_value", row.limit_value},
                            {"extra_bytes", optional(row.extra_bytes)},
                            {"ratio_to_softmax", optional(row.ratio_to_softmax)}});
  }
  json["skipped"] = Json::array();
  for (const AttentionSkip& skip : bench.skipped) {
    json["skipped"].push_back({{"system", NameOf(skip.system)},
                               {"pass", NameOf(skip.pass)},
                               {"causal", skip.causal},
                               {"length", skip.length},
                               {"threads", skip.threads},
                               {"reason", skip.reason}});
  }
  // A CPU's name comes from firmware and may be anything.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

report::Figure ToFigure(const AttentionBench& bench) {
  const int threads = MostThreads(bench);
  report::Figure figure;
  figure.title = "Attention: time against length";
  figure.subtitle = fmt::format("{} · {} · {}, {}", ShapeTitle(bench.config.shape),
                                ThreadsTitle(threads), bench.machine.cpu, bench.machine.target);

  // Panels in the order in which they are read; a key that sorts is enough to group.
  enum class Place { kCausal, kBidirectional, kStep };
  std::map<Place, report::Panel> panels;
  std::map<std::tuple<Place, System, Pass>, report::Series> series;
  for (const AttentionRow& row : bench.rows) {
    if (row.threads != threads) continue;
    const bool step = row.pass == Pass::kStep;
    const Place place = step ? Place::kStep : row.causal ? Place::kCausal : Place::kBidirectional;
    report::Panel& panel = panels[place];
    panel.title = step ? "One decoding step" : row.causal ? "Causal" : "Bidirectional";
    panel.x = {step ? "context (tokens)" : "length (tokens)", report::Scale::kLog2, ""};
    panel.y = {step ? "time of a step (seconds)" : "time of a call (seconds)",
               report::Scale::kLog10, "s"};
    report::Series& line = series[{place, row.system, row.pass}];
    line.name =
        step ? TitleOf(row.system) : fmt::format("{}, {}", TitleOf(row.system), TitleOf(row.pass));
    line.hue = row.system == System::kCosformer ? 0 : row.system == System::kSoftmax ? 1 : 2;
    line.dash = step ? line.hue : row.pass == Pass::kForward ? 0 : 1;
    line.points.push_back({static_cast<double>(row.length), row.seconds});
  }
  for (auto& [key, line] : series) panels[std::get<Place>(key)].series.push_back(std::move(line));
  for (auto& [place, panel] : panels) figure.panels.push_back(std::move(panel));
  return figure;
}

}  // namespace cosformer::bench
