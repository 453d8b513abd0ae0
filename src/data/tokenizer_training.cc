#include "data/tokenizer_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cosformer/error.h"
#include "data/line_sample.h"
#include "formats/sentencepiece_library.h"
#include "formats/utf8.h"
#include "formats/word_tokens.h"
#include "report/units.h"

namespace cosformer::data {
namespace {

using report::FormatInteger;

// --- words

struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
using WordCounts = std::unordered_map<std::string, int64_t, StringHash, std::equal_to<>>;

WordCounts CountWords(const TextStream& text) {
  WordCounts counts;
  text([&](std::string_view stretch) {
    ForEachWord(
        stretch,
        [&](std::string_view word) {
          const auto found = counts.find(word);
          if (found != counts.end()) {
            ++found->second;
          } else if (IsUtf8(word)) {
            counts.emplace(word, 1);
          }
        },
        [] {});
  });
  return counts;
}

// --- SentencePiece

// Of the sample. Larger vocabularies need more to see their pieces often enough: 32,000 from 40 MB
// of English came to 27,000 with half of this. More text makes 4,096 pieces no better, and slower.
size_t SampleBytes(int64_t vocabulary) {
  return static_cast<size_t>(std::clamp<int64_t>(vocabulary * 512, 8 << 20, 32 << 20));
}

// The sums over the threads depend on their number, and so would the model.
constexpr int kThreads = 2;

// The number behind `mark` in the trainer's sentence.
std::optional<int64_t> NumberAfter(const std::string& sentence, std::string_view mark) {
  const size_t at = sentence.find(mark);
  if (at == std::string::npos) return std::nullopt;
  return std::stoll(sentence.substr(at + mark.size()));
}

}  // namespace

Tokenizer TrainWords(const TextStream& text, int64_t vocabulary) {
  const WordCounts counts = CountWords(text);
  if (counts.empty()) throw Error("the text to make a vocabulary from has no words in it");
  std::vector<const WordCounts::value_type*> order;
  order.reserve(counts.size());
  for (const auto& entry : counts) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return a->second != b->second ? a->second > b->second : a->first < b->first;
  });

  // A word that is itself a special one takes no place of its own.
  const auto special = SpecialWords();
  auto size = static_cast<int64_t>(special.size());
  std::vector<std::string> words;
  for (const auto* entry : order) {
    const bool is_special =
        std::find(special.begin(), special.end(), entry->first) != special.end();
    if (!is_special && vocabulary != 0 && size >= vocabulary) break;
    words.push_back(entry->first);
    if (!is_special) ++size;
  }
  if (vocabulary != 0 && (size > vocabulary || words.empty())) {
    throw Error(
        fmt::format("a vocabulary of {} words is too small: the special ones alone are {}; "
                    "ask for more, or for 0, which takes all",
                    FormatInteger(vocabulary), special.size()));
  }
  if (size < vocabulary) {
    throw Error(
        fmt::format("the text has too few different words for a vocabulary of {}; ask for "
                    "at most {}, or for 0, which takes all",
                    FormatInteger(vocabulary), FormatInteger(size)));
  }
  return Tokenizer::Words(std::move(words));
}

Tokenizer TrainSentencePiece(const TextStream& text, int64_t vocabulary, bool fewer) {
  if (vocabulary < 1) {
    throw Error(fmt::format("a vocabulary of {} pieces is none; ask for some thousands",
                            FormatInteger(vocabulary)));
  }
  // Beyond these limits the trainer still says what would do: three tokens must have a place, and
  // no sample holds ten million pieces.
  const int64_t asked = std::clamp<int64_t>(vocabulary, 3, 10'000'000);
  LineSample sample(SampleBytes(asked));
  text([&](std::string_view stretch) { sample.Add(stretch); });
  if (sample.lines().empty()) {
    throw Error("the text to train a tokenizer on is empty: it has no line with anything in it");
  }
  const std::unordered_map<std::string, std::string> options = {
      {"model_type", "unigram"},
      {"vocab_size", fmt::to_string(asked)},
      // Candidates to begin with. A million, the trainer's own choice, takes half as long again
      // for 4,096 pieces and gives 0.3 % more tokens.
      {"seed_sentencepiece_size",
       fmt::to_string(std::clamp<int64_t>(20 * asked, 100'000, 1'000'000))},
      {"character_coverage", "0.9995"},
      {"required_chars", "\u2581"},  // the blank
      {"num_threads", fmt::to_string(kThreads)},
      {"max_sentence_length", fmt::to_string(LineSample::kLongest)},
      // What makes it lossless. No blank is thought before a text either: tokens of a part of a
      // text then are the text of that part.
      {"normalization_rule_name", "identity"},
      {"remove_extra_whitespaces", "false"},
      {"add_dummy_prefix", "false"},
      {"byte_fallback", "true"},
      {"unk_id", "0"},
      {"bos_id", "1"},
      {"eos_id", "2"},
      {"pad_id", "-1"},
      // Never found in a text, unlike symbols of the user: a text can't smuggle them in.
      {"control_symbols", "<sep>,<mask>"},
      {"user_defined_symbols", "\n"},
      {"minloglevel", "2"},  // errors
  };
  // A blank comes after the lines, so that there always is a character to learn: the trainer ends
  // the process where it finds none, as in a text of nothing but tabs.
  const std::string blank = " ";
  size_t at = 0;
  const auto next = [&]() -> const std::string* {
    const size_t line = at++;
    const size_t count = sample.lines().size();
    return line < count ? &sample.lines()[line].text : line == count ? &blank : nullptr;
  };
  std::string model;
  const std::string sentence = SentencePiece().Train(options, next, model);
  if (!sentence.empty()) {
    if (const auto most = NumberAfter(sentence, "Please set it to a value <= ")) {
      if (fewer) return TrainSentencePiece(text, *most);
      throw Error(
          fmt::format("the text does not support a vocabulary of {} pieces; ask for at most {}",
                      FormatInteger(vocabulary), FormatInteger(*most)));
    }
    if (const auto least = NumberAfter(sentence, fmt::format("{} vs ", asked))) {
      throw Error(
          fmt::format("a vocabulary of {} pieces is too small: the 256 bytes, the special "
                      "tokens and the text's letters alone need {}; ask for at least that",
                      FormatInteger(vocabulary), FormatInteger(*least)));
    }
    throw Error(
        fmt::format("a SentencePiece tokenizer can't be trained on this text: {}; is it "
                    "text in UTF-8?",
                    sentence));
  }
  return Tokenizer::SentencePiece(std::move(model), "the trained tokenizer");
}

}  // namespace cosformer::data
