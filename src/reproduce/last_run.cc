#include "reproduce/last_run.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cosformer/error.h"
#include "formats/json.h"
#include "report/files.h"

namespace cosformer::reproduce {
namespace {

using nlohmann::json;

std::string PathIn(const std::string& out) {
  return (std::filesystem::path(out) / "request.json").string();
}

}  // namespace

void WriteLastRun(const std::string& out, const LastRun& last) {
  const Request& request = last.request;
  const nlohmann::ordered_json file = {
      {"experiment", last.experiment}, {"command", last.command},
      {"data", request.data},          {"systems", request.systems},
      {"tasks", request.tasks},        {"seeds", request.seeds},
      {"lengths", request.lengths},    {"scale", request.scale},
      {"memory", request.memory},      {"threads", request.threads},
      {"by_time", request.by_time},    {"eval_tokens", request.eval_tokens}};
  report::WriteFile(PathIn(out), JsonText(file, 2) + "\n");
}

std::optional<LastRun> ReadLastRun(const std::string& out) {
  const std::string path = PathIn(out);
  if (!std::filesystem::exists(path)) return std::nullopt;
  const json file = ReadJsonFile(path);
  try {
    LastRun last;
    // Earlier versions did not write all of it.
    last.experiment = file.value("experiment", "");
    last.request.eval_tokens = file.value("eval_tokens", int64_t{0});
    file.at("command").get_to(last.command);
    file.at("data").get_to(last.request.data);
    file.at("systems").get_to(last.request.systems);
    file.at("tasks").get_to(last.request.tasks);
    file.at("seeds").get_to(last.request.seeds);
    file.at("lengths").get_to(last.request.lengths);
    file.at("scale").get_to(last.request.scale);
    file.at("memory").get_to(last.request.memory);
    file.at("threads").get_to(last.request.threads);
    file.at("by_time").get_to(last.request.by_time);
    return last;
  } catch (const json::exception& error) {
    throw Error(
        fmt::format("\"{}\" is not what the last run left ({}): remove it", path, error.what()));
  }
}

void RequireOwnDirectory(const std::string& out, const std::string& experiment) {
  const std::optional<LastRun> last = ReadLastRun(out);
  std::string there = last ? last->experiment : "";
  const std::string report = (std::filesystem::path(out) / "report.json").string();
  if (there.empty() && std::filesystem::exists(report)) {
    const json file = ReadJsonFile(report);
    if (file.is_object()) there = file.value("experiment", "");
  }
  if (there.empty() || there == experiment) return;
  throw Error(fmt::format("\"{}\" holds the experiment {}: give {} another directory as --out", out,
                          there, experiment));
}

Request WithLastSets(Request asked, const std::string& out) {
  if (!asked.data.empty()) return asked;
  const std::optional<LastRun> last = ReadLastRun(out);
  if (last && std::filesystem::is_directory(last->request.data)) asked.data = last->request.data;
  return asked;
}

Request WithLastRun(Request asked, const std::string& out) {
  const std::optional<LastRun> last = ReadLastRun(out);
  if (!last) return asked;
  const Request& before = last->request;
  if (asked.data.empty()) asked.data = before.data;
  if (asked.systems.empty()) asked.systems = before.systems;
  if (asked.tasks.empty()) asked.tasks = before.tasks;
  if (asked.seeds.empty()) asked.seeds = before.seeds;
  if (asked.lengths.empty()) asked.lengths = before.lengths;
  if (asked.scale.empty()) asked.scale = before.scale;
  if (asked.memory == 0) asked.memory = before.memory;
  if (asked.threads == 0) asked.threads = before.threads;
  if (asked.eval_tokens == 0) asked.eval_tokens = before.eval_tokens;
  asked.by_time = asked.by_time || before.by_time;
  return asked;
}

}  // namespace cosformer::reproduce
