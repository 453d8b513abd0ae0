#include "reproduce/run_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "formats/recipe.h"
#include "report/units.h"
#include "runs/run_directory.h"

namespace cosformer::reproduce {
namespace {

using nlohmann::json;

// The steps of the run, which its recipe has once they are settled.
int64_t StepsOf(const std::string& run) {
  try {
    const std::string* steps = Recipe::Read(RecipePath(run)).Find("steps");
    return steps == nullptr ? 0 : std::stoll(*steps);
  } catch (const std::exception&) {  // not there yet, or not one of ours
    return 0;
  }
}

// The last lines of a file, without one that is still being written and one that is cut.
std::string Tail(const std::string& path) {
  constexpr std::streamoff kMost = 4096;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  const std::streamoff size = file.tellg();
  file.seekg(std::max<std::streamoff>(0, size - kMost));
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  text.erase(text.find_last_of('\n') == std::string::npos ? 0 : text.find_last_of('\n'));
  if (size > kMost) {
    const size_t first = text.find('\n');
    text.erase(0, first == std::string::npos ? text.size() : first + 1);
  }
  return text;
}

}  // namespace

RunProgress ProgressOf(const std::string& run) {
  RunProgress progress;
  const std::string text = Tail(MetricsPath(run));
  for (size_t end = text.size(); end > 0;) {
    const size_t newline = text.find_last_of('\n', end - 1);
    const size_t begin = newline == std::string::npos ? 0 : newline + 1;
    const json line = json::parse(text.substr(begin, end - begin), nullptr, false);
    if (line.is_object() && line.value("kind", "") == "train" && line.contains("step") &&
        line["step"].is_number_integer()) {
      const auto step = line["step"].get<int64_t>();
      const int64_t steps = StepsOf(run);
      progress.text = fmt::format("step {}", report::FormatInteger(step));
      if (steps > 0) {
        progress.part = static_cast<double>(step) / static_cast<double>(steps);
        progress.text += fmt::format(" of {}", report::FormatInteger(steps));
      }
      if (line.contains("loss") && line["loss"].is_number()) {
        progress.text += fmt::format(", loss {:.3f}", line["loss"].get<double>());
      }
      return progress;
    }
    end = newline == std::string::npos ? 0 : newline;
  }
  return progress;
}

bool HasMetrics(const std::string& run) {
  std::error_code error;
  return std::filesystem::file_size(MetricsPath(run), error) > 0 && !error;
}

}  // namespace cosformer::reproduce
