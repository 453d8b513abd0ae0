#include "formats/word_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "cosformer/error.h"
#include "formats/utf8.h"
#include "report/units.h"

namespace cosformer {
namespace {

constexpr std::string_view kSpecial[] = {"<unk>", "<s>", "</s>", "<sep>", "<mask>"};

// Of all words together. WikiText-103's 267,735 take 2.3 MB; a list far longer is not a vocabulary
// that a model could have a row of weights for.
constexpr size_t kMaxBytes = size_t{32} << 20;

std::string Shown(std::string_view word) { return fmt::format("\"{}\"", Printable(word, 40)); }

void CheckWord(std::string_view word, size_t index, const std::string& where) {
  const auto fail = [&](std::string_view what) {
    throw Error(
        fmt::format("{}: word {} of the vocabulary, {}, {}", where, index + 1, Shown(word), what));
  };
  if (word.empty()) fail("is empty; remove it");
  size_t words = 0;
  size_t letters = 0;
  ForEachWord(
      word, [&](std::string_view part) { ++words, letters += part.size(); }, [] {});
  if (words != 1 || letters != word.size()) {
    fail("has a blank in it, but words are what lies between blanks; remove it");
  }
  if (!IsUtf8(word)) fail("is not UTF-8; convert the vocabulary");
}

}  // namespace

std::span<const std::string_view> SpecialWords() { return kSpecial; }

WordTokens::WordTokens(std::vector<std::string> words, const std::string& where) {
  size_t bytes = 0;
  for (size_t i = 0; i < words.size(); ++i) {
    CheckWord(words[i], i, where);
    bytes += words[i].size() + 1;
  }
  if (words.empty()) throw Error(fmt::format("{}: the vocabulary has no words", where));
  if (bytes > kMaxBytes) {
    throw Error(
        fmt::format("{}: the vocabulary of {} words takes {}; at most {} are supported: "
                    "give fewer words",
                    where, report::FormatInteger(static_cast<int64_t>(words.size())),
                    report::FormatBytes(static_cast<double>(bytes)),
                    report::FormatBytes(static_cast<double>(kMaxBytes))));
  }
  for (const std::string_view special : kSpecial) {
    if (std::find(words.begin(), words.end(), special) == words.end()) words_.emplace_back(special);
  }
  added_ = words_.size();
  std::move(words.begin(), words.end(), std::back_inserter(words_));

  tokens_.reserve(words_.size());
  for (size_t i = added_; i < words_.size(); ++i) {
    if (!tokens_.emplace(words_[i], static_cast<int32_t>(i)).second) {
      throw Error(fmt::format("{}: the word {} stands twice in the vocabulary; remove one of them",
                              where, Shown(words_[i])));
    }
  }
  int32_t* const places[] = {&special_.unknown, &special_.begin, &special_.end, &special_.separator,
                             &special_.mask};
  for (size_t i = 0; i < std::size(kSpecial); ++i) {
    const auto found = std::find(words_.begin(), words_.end(), kSpecial[i]);
    *places[i] = static_cast<int32_t>(found - words_.begin());
  }
}

void WordTokens::Encode(std::string_view text, std::vector<int32_t>& tokens) const {
  ForEachWord(
      text,
      [&](std::string_view word) {
        const auto found = tokens_.find(word);
        tokens.push_back(found == tokens_.end() ? special_.unknown : found->second);
      },
      [&] { tokens.push_back(special_.end); });
}

void WordTokens::Decode(int32_t token, bool& line_starts, std::string& text) const {
  if (token == special_.end) {
    text += '\n';
    line_starts = true;
  } else if (token != special_.begin && token != special_.separator && token != special_.mask) {
    if (!line_starts) text += ' ';
    text += words_[static_cast<size_t>(token)];
    line_starts = false;
  }
}

}  // namespace cosformer
