#include "formats/option_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "cosformer/error.h"
#include "formats/json.h"

namespace cosformer {
namespace {

using nlohmann::json;

constexpr size_t kMaxShown = 60;         // characters of a value
constexpr size_t kMaxUnknownShown = 20;  // keys

std::string Range(const char* kind, const std::string& least, const std::string& most) {
  if (least.empty() && most.empty()) return kind;
  if (most.empty()) return fmt::format("{} of at least {}", kind, least);
  if (least.empty()) return fmt::format("{} of at most {}", kind, most);
  return fmt::format("{} from {} to {}", kind, least, most);
}

std::string IntegerRange(int64_t least, int64_t most) {
  using Limits = std::numeric_limits<int64_t>;
  return Range("an integer", least == Limits::min() ? "" : fmt::to_string(least),
               most == Limits::max() ? "" : fmt::to_string(most));
}

std::string NumberRange(double least, double most) {
  return Range("a finite number", std::isinf(least) ? "" : fmt::format("{:g}", least),
               std::isinf(most) ? "" : fmt::format("{:g}", most));
}

std::string Listed(std::span<const std::string_view> names) {
  std::string list;
  for (const std::string_view name : names) {
    list += fmt::format("{}\"{}\"", list.empty() ? "" : ", ", name);
  }
  return list;
}

[[noreturn]] void Unexpected(const std::string& where, const char* name, const json& found,
                             const std::string& expected) {
  throw Error(
      fmt::format("{}: \"{}\" is {}; expected {}", where, name, DescribeJson(found), expected));
}

// Insertions, deletions and substitutions that turn one into the other.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string Nearest(std::string_view key, const std::vector<std::string>& known) {
  std::string nearest;
  if (key.size() > kMaxShown) return nearest;
  // Two edits are one transposition; a third of the letters still looks alike.
  size_t best = std::max<size_t>(2, key.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const size_t distance = EditDistance(key, candidate);
    if (distance < best && distance < candidate.size()) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string Quoted(std::string_view text) {
  std::string quoted = JsonText(json(text.substr(0, kMaxShown)));
  if (text.size() > kMaxShown) quoted.insert(quoted.size() - 1, "...");
  return quoted;
}

std::string DescribeJson(const json& value) {
  switch (value.type()) {
    case json::value_t::object:
      return "an object";
    case json::value_t::array:
      return fmt::format("a list of {}", value.size());
    case json::value_t::string:
      return "the text " + Quoted(value.get_ref<const std::string&>());
    case json::value_t::number_float:
      // json writes non-finite numbers as null.
      if (!std::isfinite(value.get<double>())) return fmt::format("{}", value.get<double>());
      return value.dump();
    default:
      return value.dump();
  }
}

OptionReader::OptionReader(const json& object, std::string where)
    : object_(object), where_(std::move(where)) {
  if (!object_.is_object()) {
    throw Error(fmt::format("{} is {}; expected an object, {{\"key\": value, ...}}", where_,
                            DescribeJson(object_)));
  }
}

const json* OptionReader::Find(const char* name) {
  if (std::find(known_.begin(), known_.end(), name) == known_.end()) known_.emplace_back(name);
  const auto found = object_.find(name);
  return found == object_.end() ? nullptr : &*found;
}

bool OptionReader::Has(const char* name) const { return object_.contains(name); }

int64_t OptionReader::Integer(const char* name, int64_t fallback, int64_t least, int64_t most) {
  const json* found = Find(name);
  if (found == nullptr) return fallback;
  const auto fail = [&] { Unexpected(where_, name, *found, IntegerRange(least, most)); };
  int64_t value = 0;
  if (found->is_number_unsigned()) {
    const uint64_t whole = found->get<uint64_t>();
    if (whole > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) fail();
    value = static_cast<int64_t>(whole);
  } else if (found->is_number_integer()) {
    value = found->get<int64_t>();
  } else if (found->is_number_float()) {
    const double number = found->get<double>();
    // From 2^53 on, a double no longer says which integer was written.
    if (!(std::abs(number) <= 9007199254740992.0) || number != std::trunc(number)) fail();
    value = static_cast<int64_t>(number);
  } else {
    fail();
  }
  if (value < least || value > most) fail();
  return value;
}

double OptionReader::Number(const char* name, double fallback, double least, double most) {
  const json* found = Find(name);
  if (found == nullptr) return fallback;
  const double value =
      found->is_number() ? found->get<double>() : std::numeric_limits<double>::quiet_NaN();
  if (!std::isfinite(value) || value < least || value > most) {
    Unexpected(where_, name, *found, NumberRange(least, most));
  }
  return value;
}

bool OptionReader::Flag(const char* name, bool fallback) {
  const json* found = Find(name);
  if (found == nullptr) return fallback;
  if (!found->is_boolean()) Unexpected(where_, name, *found, "true or false");
  return found->get<bool>();
}

std::string OptionReader::Choice(const char* name, std::string_view fallback,
                                 std::span<const std::string_view> choices) {
  const json* found = Find(name);
  if (found == nullptr) return std::string(fallback);
  if (found->is_string()) {
    const auto& value = found->get_ref<const std::string&>();
    if (std::find(choices.begin(), choices.end(), value) != choices.end()) return value;
  }
  Unexpected(where_, name, *found, "one of " + Listed(choices));
}

std::string OptionReader::Choice(const char* name, std::string_view fallback,
                                 std::initializer_list<std::string_view> choices) {
  return Choice(name, fallback, std::span(choices.begin(), choices.size()));
}

std::string OptionReader::Text(const char* name, std::string_view fallback) {
  const json* found = Find(name);
  if (found == nullptr) return std::string(fallback);
  if (!found->is_string()) Unexpected(where_, name, *found, "a text in quotes");
  return found->get<std::string>();
}

void OptionReader::CheckFormat(int64_t newest, std::string_view instead) {
  const int64_t format = Integer("format", newest, 1, std::numeric_limits<int64_t>::max());
  if (format <= newest) return;
  throw Error(
      fmt::format("{} is of format {}, which a later version of cosformer wrote; this one reads up "
                  "to {}: update cosformer{}{}",
                  where_, format, newest, instead.empty() ? "" : ", or ", instead));
}

void OptionReader::Done() const {
  std::string unknown;
  size_t count = 0;
  for (const auto& [key, value] : object_.items()) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    if (++count > kMaxUnknownShown) continue;
    unknown += fmt::format("{}{}", count == 1 ? "" : ", ", Quoted(key));
    const std::string nearest = Nearest(key, known_);
    if (!nearest.empty()) unknown += fmt::format(" (did you mean \"{}\"?)", nearest);
  }
  if (count == 0) return;
  if (count > kMaxUnknownShown) unknown += fmt::format(" and {} more", count - kMaxUnknownShown);
  std::vector<std::string_view> known(known_.begin(), known_.end());
  throw Error(fmt::format("{}: unknown key{} {}; {}", where_, count == 1 ? "" : "s", unknown,
                          known.empty() ? "expected none" : "expected only " + Listed(known)));
}

}  // namespace cosformer
