#include "formats/recipe.h"

#include <fmt/format.h>

#include <algorithm>

// Compiled in: what is installed asks for no further library.
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include "cosformer/error.h"
#include "formats/read_file.h"

namespace cosformer {
namespace {

constexpr size_t kMostBytes = size_t{1} << 20;

[[noreturn]] void Refuse(const std::string& origin, int line, const std::string& why) {
  throw Error(fmt::format("\"{}\", line {}: {}", origin, line, why));
}

// Digits from `at` on.
size_t DigitsAt(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
  return end - at;
}

bool IsSign(char c) { return c == '+' || c == '-'; }

// What TOML takes without quotes: true and false, whole numbers below 2^63, numbers with a point or
// an exponent.
bool IsBare(std::string_view value) {
  constexpr size_t kMostDigits = 18;
  if (value == "true" || value == "false") return true;
  size_t at = !value.empty() && IsSign(value[0]) ? 1 : 0;
  const size_t whole = DigitsAt(value, at);
  if (whole == 0 || (whole > 1 && value[at] == '0')) return false;
  at += whole;
  if (at == value.size()) return whole <= kMostDigits;
  if (value[at] == '.') {
    const size_t part = DigitsAt(value, at + 1);
    if (part == 0) return false;
    at += 1 + part;
    if (at == value.size()) return true;
  }
  if (value[at] != 'e' && value[at] != 'E') return false;
  ++at;
  if (at < value.size() && IsSign(value[at])) ++at;
  const size_t exponent = DigitsAt(value, at);
  return exponent > 0 && at + exponent == value.size();
}

// A line `option = number`. Runs of older versions hold numbers as they were typed, `.5` and `1.`
// among them, which TOML does not have.
std::string WithWholeNumber(std::string line) {
  size_t at = line.find('=');
  if (at == std::string::npos) return line;
  at = line.find_first_not_of(" \t", at + 1);
  if (at != std::string::npos && IsSign(line[at])) ++at;
  if (at == std::string::npos || at >= line.size()) return line;
  const size_t whole = DigitsAt(line, at);
  const size_t point = at + whole;
  if (point >= line.size() || line[point] != '.') return line;
  const size_t part = DigitsAt(line, point + 1);
  if (whole + part == 0 || (whole > 0 && part > 0)) return line;
  const size_t end = point + 1 + part;
  if (end < line.size() && std::string_view("eE \t\r").find(line[end]) == std::string_view::npos) {
    return line;
  }
  return line.insert(part > 0 ? point : end, "0");
}

std::string WithWholeNumbers(std::string_view text) {
  std::string whole;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    whole += WithWholeNumber(std::string(text.substr(begin, end - begin)));
    if (end < text.size()) whole += '\n';
    begin = end + 1;
  }
  return whole;
}

// What stands in the text, so that no digit changes.
std::string Digits(std::string_view text, const toml::source_region& place) {
  size_t begin = 0;
  for (toml::source_index line = 1; line < place.begin.line; ++line) {
    begin = text.find('\n', begin) + 1;
  }
  // Numbers are ASCII, and so is what stands before them in a line: columns are bytes.
  const size_t first = begin + place.begin.column - 1;
  std::string digits(text.substr(first, place.end.column - place.begin.column));
  std::erase(digits, '_');
  return digits;
}

std::string ValueOf(const toml::node& node, const std::string& option, std::string_view text,
                    const std::string& origin) {
  const int line = static_cast<int>(node.source().begin.line);
  switch (node.type()) {
    case toml::node_type::string:
      return node.as_string()->get();
    case toml::node_type::boolean:
      return node.as_boolean()->get() ? "true" : "false";
    case toml::node_type::integer:
      return fmt::format("{}", node.as_integer()->get());
    case toml::node_type::floating_point:
      return Digits(text, node.source());
    case toml::node_type::table:
      Refuse(origin, line,
             fmt::format("\"{}\" is a table; a recipe has none, but an option per line, as in "
                         "lr = 0.001",
                         option));
    case toml::node_type::array:
      Refuse(origin, line,
             fmt::format("\"{}\" is a list; an option has one value (several systems are a text: "
                         "attention = \"softmax,cosformer\")",
                         option));
    default:
      Refuse(origin, line,
             fmt::format("\"{}\" is a date or a time, which no option takes; put text in quotes",
                         option));
  }
}

}  // namespace

Recipe Recipe::Parse(std::string_view given, const std::string& origin) {
  const std::string text = WithWholeNumbers(given);
  toml::table table;
  try {
    table = toml::parse(text);
  } catch (const toml::parse_error& error) {
    Refuse(origin, static_cast<int>(error.source().begin.line),
           fmt::format("not TOML: {}", error.description()));
  }
  Recipe recipe;
  for (const auto& [key, node] : table) {
    const std::string option(key.str());
    recipe.entries_.push_back(
        {option, ValueOf(node, option, text, origin), static_cast<int>(node.source().begin.line)});
  }
  std::stable_sort(recipe.entries_.begin(), recipe.entries_.end(),
                   [](const Entry& a, const Entry& b) { return a.line < b.line; });
  return recipe;
}

Recipe Recipe::Read(const std::string& path) { return Parse(ReadFile(path, kMostBytes), path); }

const std::string* Recipe::Find(std::string_view option) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.option == option; });
  return found == entries_.end() ? nullptr : &found->value;
}

void Recipe::Set(const std::string& option, const std::string& value) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.option == option; });
  if (found == entries_.end()) {
    entries_.push_back({option, value});
  } else {
    found->value = value;
  }
}

std::string Recipe::ToToml() const {
  std::string text;
  for (const Entry& entry : entries_) {
    text += fmt::format("{} = {}\n", entry.option, TomlValue(entry.value));
  }
  return text;
}

std::string TomlValue(const std::string& value) {
  if (IsBare(value)) return value;
  std::string text = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      text += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      text += c;
    }
  }
  return text + '"';
}

}  // namespace cosformer
