#include "formats/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>

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

// Longer lines are no options, and more than std::regex has stack for.
constexpr size_t kLongestLine = 4096;

bool HasLongLine(std::string_view text) {
  for (size_t begin = 0, end = 0; end < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    if (end - begin > kLongestLine) return true;
  }
  return false;
}

// Runs of older versions hold numbers as they were typed, `.5` and `1.` among them, which TOML does
// not have.
std::string WithWholeNumbers(std::string_view text) {
  static const std::regex kPoint(R"(^([A-Za-z0-9-]+\s*=\s*[+-]?)(?:(\.\d+)|(\d+)\.)(?=[eE\s]|$))",
                                 std::regex::multiline);
  std::string whole;
  const std::string source(text);
  if (HasLongLine(text)) return source;
  size_t done = 0;
  for (std::sregex_iterator match(source.begin(), source.end(), kPoint), end; match != end;
       ++match) {
    whole.append(source, done, static_cast<size_t>(match->position()) - done);
    whole += (*match)[1].str() +
             ((*match)[2].matched ? "0" + (*match)[2].str() : (*match)[3].str() + ".0");
    done = static_cast<size_t>(match->position() + match->length());
  }
  return whole + source.substr(done);
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
  // 18 digits are below 2^63, which ends TOML's whole numbers.
  static const std::regex kBare(
      R"(true|false|[+-]?(0|[1-9]\d{0,17})|[+-]?(0|[1-9]\d*)(\.\d+([eE][+-]?\d+)?|[eE][+-]?\d+))");
  if (std::regex_match(value, kBare)) return value;
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
