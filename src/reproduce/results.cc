#include "reproduce/results.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include "cosformer/error.h"
#include "formats/json.h"

namespace cosformer::reproduce {
namespace {

using nlohmann::json;

constexpr std::array<std::pair<State, std::string_view>, 3> kStates = {
    {{State::kDone, "done"}, {State::kFailed, "failed"}, {State::kRefused, "refused"}}};

std::string LineOf(const Result& result) {
  std::string_view state;
  for (const auto& [value, name] : kStates) {
    if (value == result.state) state = name;
  }
  const nlohmann::ordered_json line = {{"cell", result.cell},
                                       {"key", result.key},
                                       {"state", state},
                                       {"reason", result.reason},
                                       {"values", result.values},
                                       {"seconds", result.seconds},
                                       {"peak_bytes", result.peak_bytes},
                                       {"share_seconds", result.share_seconds},
                                       {"directory", result.directory},
                                       {"fingerprint", result.fingerprint},
                                       {"version", result.version},
                                       {"machine", result.machine},
                                       {"started", result.started},
                                       {"finished", result.finished}};
  return JsonText(line) + "\n";
}

// What lines of earlier versions leave to compute.
std::string Before(const std::string& finished, double seconds) {
  std::tm parts{};
  if (strptime(finished.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts) == nullptr) return finished;
  return UtcText(timegm(&parts) - static_cast<std::time_t>(seconds));
}

Result ParseLine(std::string_view text, const std::string& where) {
  try {
    const json line = json::parse(text);
    Result result;
    result.cell = line.at("cell").get<std::string>();
    result.key = line.at("key");
    result.fingerprint = line.at("fingerprint").get<std::string>();
    const std::string state = line.at("state").get<std::string>();
    bool known = false;
    for (const auto& [value, name] : kStates) {
      if (name != state) continue;
      result.state = value;
      known = true;
    }
    if (!known) {
      throw Error(
          fmt::format("{}: the state is \"{}\"; it is done, failed or refused", where, state));
    }
    result.reason = line.at("reason").get<std::string>();
    result.values = line.at("values");
    result.seconds = line.at("seconds").get<double>();
    result.peak_bytes = line.at("peak_bytes").get<int64_t>();
    result.share_seconds = line.at("share_seconds").get<double>();
    result.directory = line.at("directory").get<std::string>();
    result.version = line.at("version").get<std::string>();
    result.machine = line.at("machine").get<std::string>();
    result.finished = line.at("finished").get<std::string>();
    result.started = line.contains("started") ? line["started"].get<std::string>()
                                              : Before(result.finished, result.seconds);
    return result;
  } catch (const json::exception& error) {
    throw Error(fmt::format("{} is no result ({}): remove the line, and its cell is run again",
                            where, error.what()));
  }
}

[[noreturn]] void FailToWrite(const std::string& path, int error) {
  throw Error(fmt::format("cannot write \"{}\": {}", path, std::strerror(error)));
}

}  // namespace

std::string SignOf(const Result& result) {
  if (result.state == State::kDone) return "✓";
  if (result.state == State::kRefused) return kSigns[3].first;
  const std::string by = result.values.value("failed_by", "");
  return kSigns[by == "memory" ? 0 : by == "time" ? 1 : 2].first;
}

std::string UtcText(std::time_t time) {
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Results::Results(const std::string& path) : path_(path) {
  if (!std::filesystem::exists(path)) return;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(fmt::format("cannot read \"{}\"", path));
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  int64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    ++number;
    const size_t end = text.find('\n', begin);
    if (end == std::string::npos) {
      cut_ = static_cast<int64_t>(begin);
      remark_ = fmt::format("The last line of {} was cut off; its cell is run again.", path);
      return;
    }
    results_.push_back(ParseLine(std::string_view(text).substr(begin, end - begin),
                                 fmt::format("\"{}\", line {}", path, number)));
    begin = end + 1;
  }
}

void Results::Add(const Result& result) {
  const int file = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0) FailToWrite(path_, errno);
  const std::string line = LineOf(result);
  const off_t before = cut_ ? static_cast<off_t>(*cut_) : lseek(file, 0, SEEK_END);
  int error = 0;
  if (cut_ && ftruncate(file, before) != 0) error = errno;
  std::string_view rest = line;
  while (error == 0 && !rest.empty()) {
    const ssize_t written = write(file, rest.data(), rest.size());
    if (written >= 0) {
      rest.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (error == 0 && fsync(file) != 0) error = errno;
  // A part of a line would make the next one unreadable too.
  if (error != 0) [[maybe_unused]]
    const int ignored = ftruncate(file, before);
  close(file);
  if (error != 0) FailToWrite(path_, error);
  cut_.reset();
  results_.push_back(result);
}

const Result* Results::Find(const std::string& cell, const std::string& fingerprint) const {
  for (size_t i = results_.size(); i-- > 0;) {
    if (results_[i].cell == cell && results_[i].fingerprint == fingerprint) return &results_[i];
  }
  return nullptr;
}

const Result* Results::Latest(const std::string& cell) const {
  for (size_t i = results_.size(); i-- > 0;) {
    if (results_[i].cell == cell) return &results_[i];
  }
  return nullptr;
}

}  // namespace cosformer::reproduce
