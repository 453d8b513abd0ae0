#include "runtime/text_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cosformer/error.h"
#include "formats/utf8.h"

namespace cosformer {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace

StopStrings::StopStrings(std::vector<std::string> texts) {
  for (std::string& text : texts) {
    const size_t number = patterns_.size() + 1;
    if (text.empty()) {
      throw Error(
          fmt::format("stop string {} is empty and would stop every text; leave it out", number));
    }
    if (const size_t bad = FindInvalidUtf8(text); bad != text.size()) {
      throw Error(
          fmt::format("stop string {} is not UTF-8 from its byte {} (0x{:02X}) on, and would "
                      "never be met in a text; convert it",
                      number, bad + 1, static_cast<unsigned char>(text[bad])));
    }
    std::vector<size_t> shorter(text.size() + 1);
    for (size_t i = 1, matched = 0; i < text.size(); ++i) {
      while (matched > 0 && text[matched] != text[i]) matched = shorter[matched];
      if (text[matched] == text[i]) ++matched;
      shorter[i + 1] = matched;
    }
    patterns_.push_back({std::move(text), std::move(shorter)});
  }
}

size_t StopStrings::Add(char byte) {
  size_t complete = 0;
  pending_ = 0;
  for (Pattern& pattern : patterns_) {
    size_t& matched = pattern.matched;
    while (matched > 0 && pattern.text[matched] != byte) matched = pattern.shorter[matched];
    if (pattern.text[matched] == byte) ++matched;
    if (matched == pattern.text.size()) {
      complete = std::max(complete, matched);
      matched = pattern.shorter[matched];
    }
    pending_ = std::max(pending_, matched);
  }
  return complete;
}

TextStream::TextStream(Tokenizer tokenizer, std::vector<std::string> stop_strings,
                       std::span<const int32_t> before, bool within_line)
    : tokenizer_(std::move(tokenizer)),
      stops_(std::move(stop_strings)),
      line_starts_(!within_line) {
  for (const int32_t token : before) {
    bytes_.clear();
    tokenizer_.Decode(token, line_starts_, bytes_);
  }
  bytes_.clear();
}

std::string TextStream::Add(int32_t token) {
  tokenizer_.Decode(token, line_starts_, bytes_);
  ShowCharacters(false);
  return TakeCertain();
}

std::string TextStream::Finish() {
  ShowCharacters(true);
  ended_ = true;
  return TakeCertain();
}

// Moves characters from the bytes to the text, and all that is left with `finish`.
void TextStream::ShowCharacters(bool finish) {
  std::string_view rest = bytes_;
  while (!rest.empty()) {
    const Utf8Start start = StartOfUtf8(rest);
    if (start.part == Utf8Part::kCut && !finish) break;
    Show(start.part == Utf8Part::kCharacter ? rest.substr(0, start.length) : kReplacement);
    rest.remove_prefix(start.length);
  }
  bytes_.erase(0, bytes_.size() - rest.size());
}

void TextStream::Show(std::string_view characters) {
  for (const char byte : characters) {
    if (ended_) return;
    text_ += byte;
    if (const size_t length = stops_.Add(byte); length > 0) {
      stopped_ = ended_ = true;
      text_.resize(text_.size() - length);
    }
  }
}

// Stop strings are whole characters, so that what is held back begins with one.
std::string TextStream::TakeCertain() {
  const size_t certain = ended_ ? text_.size() : text_.size() - stops_.pending();
  std::string taken = text_.substr(0, certain);
  text_.erase(0, certain);
  return taken;
}

}  // namespace cosformer
