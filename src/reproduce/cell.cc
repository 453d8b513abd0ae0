#include "reproduce/cell.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

namespace cosformer::reproduce {
namespace {

// FNV-1a: settings are compared, not protected.
class Hash {
 public:
  // Each part with its length, so that words cannot run into each other.
  void Add(std::string_view part) {
    for (const char c : fmt::format("{}:", part.size())) Byte(c);
    for (const char c : part) Byte(c);
  }
  uint64_t value() const { return value_; }

 private:
  void Byte(char c) {
    value_ ^= static_cast<unsigned char>(c);
    value_ *= 0x100000001b3;
  }
  uint64_t value_ = 0xcbf29ce484222325;
};

}  // namespace

bool IsTraining(const Cell& cell) {
  return std::any_of(cell.commands.begin(), cell.commands.end(),
                     [](const Command& command) { return !command.run.empty(); });
}

std::string FingerprintOf(const Cell& cell) {
  Hash hash;
  for (const File& file : cell.files) {
    hash.Add(file.name);
    hash.Add(file.contents);
  }
  for (const Command& command : cell.commands) {
    hash.Add(fmt::format("{} words", command.words.size()));
    for (const std::string& word : command.words) hash.Add(word);
  }
  hash.Add(fmt::format("{} bytes", cell.memory));
  return fmt::format("{:016x}", hash.value());
}

std::string DirectoryOf(const Cell& cell) {
  return fmt::format("cells/{}.{}", cell.id, FingerprintOf(cell).substr(0, 8));
}

std::string Fill(std::string text, const Places& places) {
  const std::string threads = fmt::format("{}", places.threads);
  for (const auto& [name, value] :
       {std::pair<std::string_view, const std::string&>{"{out}", places.out},
        {"{cell}", places.cell},
        {"{data}", places.data},
        {"{json}", places.json},
        {"{threads}", threads}}) {
    for (size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += value.size()) {
      text.replace(at, name.size(), value);
    }
  }
  return text;
}

std::string ShellText(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    bool plain = !word.empty();
    for (const char c : word) {
      plain = plain && (std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                        std::string_view("-_./,=:+").find(c) != std::string_view::npos);
    }
    if (!text.empty()) text += ' ';
    if (plain) {
      text += word;
      continue;
    }
    text += '\'';
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += '\'';
  }
  return text;
}

}  // namespace cosformer::reproduce
