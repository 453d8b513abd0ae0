#include "runs/metrics.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "cosformer/error.h"
#include "formats/json.h"
#include "report/files.h"

namespace cosformer {
namespace {

using nlohmann::ordered_json;

// Keys in the order in which a person looks for them.
std::string LineOf(const TrainMetrics& metrics) {
  return ordered_json{{"kind", "train"},
                      {"step", metrics.step},
                      {"loss", metrics.loss},
                      {"learning_rate", metrics.learning_rate},
                      {"gradient", metrics.gradient},
                      {"tokens", metrics.tokens},
                      {"seconds", metrics.seconds},
                      {"tokens_per_second", metrics.tokens_per_second}}
             .dump() +
         "\n";
}

std::string LineOf(const EvalMetrics& metrics) {
  ordered_json json{
      {"kind", "eval"}, {"step", metrics.step}, {"split", metrics.split}, {"loss", metrics.loss}};
  if (metrics.perplexity) json["perplexity"] = *metrics.perplexity;
  if (metrics.accuracy) json["accuracy"] = *metrics.accuracy;
  json["tokens"] = metrics.tokens;
  json["seconds"] = metrics.seconds;
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

// A line of the file, as an object whose values are asked for by key.
class LineReader {
 public:
  LineReader(std::string_view line, std::string where) : where_(std::move(where)) {
    json_ = ParseJson(line, where_);
    if (!json_.is_object()) {
      throw Error(fmt::format("{}: expected a JSON object, as {{\"kind\":\"train\",...}}", where_));
    }
  }

  bool Has(const char* key) const { return json_.contains(key); }

  std::string Text(const char* key) const {
    if (!At(key).is_string()) Fail(key, "a text in quotes");
    return At(key);
  }

  int64_t Integer(const char* key) const {
    const nlohmann::json& value = At(key);
    // The second: what is beyond int64_t would come back negative.
    if (!value.is_number_integer() || value.get<int64_t>() < 0) Fail(key, "an integer from 0 up");
    return value;
  }

  double Number(const char* key) const {
    const nlohmann::json& value = At(key);
    if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
    if (!value.is_number()) Fail(key, "a number or null");
    return value;
  }

  std::optional<double> NumberIfThere(const char* key) const {
    return Has(key) ? std::optional(Number(key)) : std::nullopt;
  }

 private:
  const nlohmann::json& At(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end())
      throw Error(fmt::format("{}: the key \"{}\" is missing", where_, key));
    return *found;
  }

  [[noreturn]] void Fail(const char* key, const char* expected) const {
    throw Error(fmt::format(
        "{}: \"{}\" is {}; expected {}", where_, key,
        At(key).dump(-1, ' ', false, ordered_json::error_handler_t::replace).substr(0, 60),
        expected));
  }

  std::string where_;
  nlohmann::json json_;
};

TrainMetrics TrainOf(const LineReader& line) {
  return {.step = line.Integer("step"),
          .loss = line.Number("loss"),
          .learning_rate = line.Number("learning_rate"),
          .gradient = line.Number("gradient"),
          .tokens = line.Integer("tokens"),
          .seconds = line.Number("seconds"),
          .tokens_per_second = line.Number("tokens_per_second")};
}

EvalMetrics EvalOf(const LineReader& line) {
  return {.step = line.Integer("step"),
          .split = line.Text("split"),
          .loss = line.Number("loss"),
          .perplexity = line.NumberIfThere("perplexity"),
          .accuracy = line.NumberIfThere("accuracy"),
          .tokens = line.Integer("tokens"),
          .seconds = line.Number("seconds")};
}

[[noreturn]] void FailToRead(const std::string& path, int error_number) {
  throw Error(fmt::format("cannot read the metrics \"{}\": {}", path, std::strerror(error_number)));
}

std::string ReadWhole(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) FailToRead(path, errno);
  struct stat status;
  std::string text;
  int error_number = fstat(descriptor, &status) != 0 ? errno : 0;
  // A device could go on for ever.
  if (error_number == 0 && !S_ISREG(status.st_mode)) {
    close(descriptor);
    throw Error(fmt::format("cannot read the metrics \"{}\": it is not a file", path));
  }
  while (error_number == 0) {
    char part[65536];
    const ssize_t bytes = read(descriptor, part, sizeof part);
    if (bytes == 0) break;
    if (bytes > 0) text.append(part, static_cast<size_t>(bytes));
    if (bytes < 0 && errno != EINTR) error_number = errno;
  }
  close(descriptor);
  if (error_number != 0) FailToRead(path, error_number);
  return text;
}

// Hands over every line with its object. A last line without an end counts if it is whole: of an
// object no beginning is an object.
void ForEachLine(const std::string& path, const std::string& text,
                 const std::function<void(std::string_view, const LineReader&)>& handle) {
  std::string_view rest = text;
  for (int64_t number = 1; !rest.empty(); ++number) {
    const size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    const std::string where = fmt::format("line {} of \"{}\"", number, path);
    if (end == std::string_view::npos) {
      try {
        LineReader(line, where);
      } catch (const Error&) {
        return;
      }
    }
    handle(line, LineReader(line, where));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
}

// The lines that stay when the run goes on from that step, as they are.
std::string KeptLines(const std::string& path, const std::string& text, int64_t keep_steps) {
  std::string kept;
  ForEachLine(path, text, [&](std::string_view line, const LineReader& reader) {
    reader.Text("kind");
    if (reader.Has("step") && reader.Integer("step") > keep_steps) return;
    // The figure of a run's end, which comes again at the end.
    if (reader.Has("split") && reader.Text("split") == "test") return;
    kept.append(line).append("\n");
  });
  return kept;
}

}  // namespace

MetricsFile::MetricsFile(const std::string& path, int64_t keep_steps) : path_(path) {
  if (access(path.c_str(), F_OK) == 0) {
    const std::string text = ReadWhole(path);
    const std::string kept = KeptLines(path, text, keep_steps);
    if (kept != text) report::WriteFile(path, kept);
  }
  descriptor_ = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) {
    throw Error(fmt::format("cannot write the metrics \"{}\": {}", path, std::strerror(errno)));
  }
}

MetricsFile::~MetricsFile() { close(descriptor_); }

void MetricsFile::Add(const TrainMetrics& metrics) { Append(LineOf(metrics)); }
void MetricsFile::Add(const EvalMetrics& metrics) { Append(LineOf(metrics)); }

void MetricsFile::Append(const std::string& line) {
  const off_t before = lseek(descriptor_, 0, SEEK_END);
  ssize_t written;
  // In one call, so that who reads meanwhile sees whole lines.
  do {
    written = write(descriptor_, line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(line.size())) return;
  const int error_number = written < 0 ? errno : ENOSPC;
  // The rest of a line would spoil the next one. If even that fails, reading says which line it is.
  if (written > 0 && ftruncate(descriptor_, before) != 0) {
    throw Error(fmt::format("cannot write the metrics \"{}\": half a line was written: {}", path_,
                            std::strerror(errno)));
  }
  throw Error(fmt::format("cannot write the metrics \"{}\": {}; make room and resume the run",
                          path_, std::strerror(error_number)));
}

History ReadMetrics(const std::string& path) {
  History history;
  ForEachLine(path, ReadWhole(path), [&](std::string_view, const LineReader& line) {
    const std::string kind = line.Text("kind");
    if (kind == "train") history.train.push_back(TrainOf(line));
    if (kind == "eval") history.evals.push_back(EvalOf(line));
  });
  return history;
}

std::optional<Best> BestOf(const History& history) {
  const auto has_number = [](std::optional<double> value) {
    return value && std::isfinite(*value);
  };
  std::vector<const EvalMetrics*> evals;
  for (const char* split : {"valid", ""}) {
    for (const EvalMetrics& eval : history.evals) {
      const std::string wanted = *split != '\0' ? split : history.evals.front().split;
      if (eval.split == wanted) evals.push_back(&eval);
    }
    if (!evals.empty()) break;
  }
  struct Figure {
    const char* name;
    std::function<std::optional<double>(const EvalMetrics&)> value;
    double sign;  // -1 where more is better
  };
  const Figure figures[] = {
      {"accuracy", [](const EvalMetrics& eval) { return eval.accuracy; }, -1},
      {"perplexity", [](const EvalMetrics& eval) { return eval.perplexity; }, 1},
      {"loss", [](const EvalMetrics& eval) { return std::optional(eval.loss); }, 1}};
  for (const Figure& figure : figures) {
    std::optional<Best> best;
    for (const EvalMetrics* eval : evals) {
      const std::optional<double> value = figure.value(*eval);
      if (!has_number(value)) continue;
      if (best && figure.sign * *value >= figure.sign * best->value) continue;
      best = Best{eval->split, figure.name, *value, eval->step};
    }
    if (best) return best;
  }
  return std::nullopt;
}

}  // namespace cosformer
