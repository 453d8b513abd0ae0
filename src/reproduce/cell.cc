#include "reproduce/cell.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "base/parallel.h"
#include "kernels/hash.h"

namespace cosformer::reproduce {
namespace {

// Each part with its length, so that words cannot run into each other.
void AddPart(Fnv1a& hash, std::string_view part) {
  hash.Add(fmt::format("{}:", part.size())).Add(part);
}

}  // namespace

bool IsTraining(const Cell& cell) {
  return std::any_of(cell.commands.begin(), cell.commands.end(),
                     [](const Command& command) { return !command.run.empty(); });
}

std::string FingerprintOf(const Cell& cell) {
  Fnv1a hash;
  for (const File& file : cell.files) {
    AddPart(hash, file.name);
    AddPart(hash, file.contents);
  }
  for (const Command& command : cell.commands) {
    AddPart(hash, fmt::format("{} words", command.words.size()));
    for (const std::string& word : command.words) AddPart(hash, word);
  }
  AddPart(hash, fmt::format("{} bytes", cell.memory));
  return fmt::format("{:016x}", hash.value());
}

std::string DirectoryOf(const Cell& cell) {
  return fmt::format("cells/{}.{}", cell.id, FingerprintOf(cell).substr(0, 8));
}

std::string Fill(std::string text, const Places& places) {
  // The same for all that is compared: with 0 each training would settle its own number.
  const std::string threads = fmt::format("{}", ThreadsOr(places.threads));
  const std::string eval_tokens = fmt::format("{}", places.eval_tokens);
  for (const auto& [name, value] :
       {std::pair<std::string_view, const std::string&>{"{out}", places.out},
        {"{cell}", places.cell},
        {"{data}", places.data},
        {"{json}", places.json},
        {"{threads}", threads},
        {"{eval_tokens}", eval_tokens}}) {
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
