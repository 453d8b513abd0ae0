// Small SentencePiece models, made once: one as this library trains them, others as they come from
// elsewhere.
#pragma once

#include <gtest/gtest.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/tokenizer_training.h"
#include "formats/tokenizer.h"

namespace cosformer::testing {

inline const std::string& SampleText() {
  static const std::string text = [] {
    const char* parts[] = {"the ",       "linear ", "attention ", "of ",          "a ",  "long ",
                           "sequence\n", "less",    "mo",         "ka",           "ber", "tan",
                           ", ",         ". ",      "lo",         "caf\xC3\xA9 ", "su",  "that ",
                           "vo ",        "costs ",  "before\n"};
    std::mt19937 random(1);
    std::string all;
    for (size_t i = 0; i < 4000; ++i) all += parts[random() % std::size(parts)];
    return all;
  }();
  return text;
}

inline const Tokenizer& Lossless() {
  static const Tokenizer tokenizer =
      data::TrainSentencePiece([](const auto& take) { take(SampleText()); }, 320);
  return tokenizer;
}

class Lines : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(const std::string& text) {
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      lines_.push_back(text.substr(at, end - at));
      at = end + 1;
    }
  }
  bool done() const override { return at_ == lines_.size(); }
  void Next() override { ++at_; }
  const std::string& value() const override { return lines_[at_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::vector<std::string> lines_;
  size_t at_ = 0;
};

// The library's own defaults (a blank before each text, NFKC, no bytes), unless `options` say else.
inline std::string ForeignModel(std::unordered_map<std::string, std::string> options = {}) {
  options.insert({{"vocab_size", "60"}, {"num_threads", "1"}, {"minloglevel", "2"}});
  std::string model;
  Lines lines(SampleText());
  const auto status = sentencepiece::SentencePieceTrainer::Train(options, &lines, &model);
  EXPECT_TRUE(status.ok()) << status.message();
  return model;
}

}  // namespace cosformer::testing
