// The shared object behind sentencepiece_library.h: all that knows SentencePiece's own headers.
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <exception>

#include "formats/sentencepiece_library.h"

namespace cosformer {
namespace {

// Empty when all is well, and only then: the library's own message ends at a zero byte, and can
// begin with a piece that begins with one.
std::string ReasonOf(const sentencepiece::util::Status& status) {
  if (status.ok()) return "";
  const std::string message = status.message();
  return message.empty() ? "the library gives no reason" : message;
}

class Processor : public PieceProcessor {
 public:
  std::string Load(std::string_view model) {
    try {
      return ReasonOf(processor_.LoadFromSerializedProto(model));
    } catch (const std::exception& error) {  // from the trie, for pieces it can't hold
      return error.what();
    }
  }

  int32_t size() const override { return processor_.GetPieceSize(); }
  int32_t unknown() const override { return processor_.unk_id(); }
  int32_t begin() const override { return processor_.bos_id(); }
  int32_t end() const override { return processor_.eos_id(); }
  int32_t Find(std::string_view piece) const override {
    const int token = processor_.PieceToId(piece);  // unknown's when there is no such piece
    return token >= 0 && processor_.IdToPiece(token) == piece ? token : -1;
  }
  const std::string& Piece(int32_t token) const override { return processor_.IdToPiece(token); }
  bool IsByte(int32_t token) const override { return processor_.IsByte(token); }
  bool IsControl(int32_t token) const override { return processor_.IsControl(token); }
  std::vector<int> Encode(std::string_view text) const override {
    return processor_.EncodeAsIds(text);
  }

 private:
  sentencepiece::SentencePieceProcessor processor_;
};

class Lines : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(const SentencePieceLibrary::NextLine& next) : next_(next), line_(next()) {}
  bool done() const override { return line_ == nullptr; }
  void Next() override { line_ = next_(); }
  const std::string& value() const override { return *line_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const SentencePieceLibrary::NextLine& next_;
  const std::string* line_;
};

class Library : public SentencePieceLibrary {
 public:
  std::string Load(std::string_view model,
                   std::unique_ptr<const PieceProcessor>& processor) const override {
    auto loaded = std::make_unique<Processor>();
    std::string reason = loaded->Load(model);
    if (reason.empty()) processor = std::move(loaded);
    return reason;
  }

  std::string Train(const Options& options, const NextLine& next,
                    std::string& model) const override {
    Lines lines(next);
    return ReasonOf(sentencepiece::SentencePieceTrainer::Train(options, &lines, &model));
  }
};

}  // namespace
}  // namespace cosformer

extern "C" __attribute__((visibility("default"))) const cosformer::SentencePieceLibrary*
CosformerSentencePiece() {
  static const cosformer::Library library;
  return &library;
}
