// SentencePiece, in a shared object of its own that is loaded when it is first needed. Debian's
// build of it carries a protobuf within, and libtorch brings another: in one process each would
// call into the other's, and crash at the start. Loaded apart, it sees its own first.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace cosformer {

// A model. Every function may be called from several threads at once.
class PieceProcessor {
 public:
  virtual ~PieceProcessor() = default;
  virtual int32_t size() const = 0;
  virtual int32_t unknown() const = 0;
  virtual int32_t begin() const = 0;
  virtual int32_t end() const = 0;
  virtual int32_t Find(std::string_view piece) const = 0;  // -1: there is none
  virtual const std::string& Piece(int32_t token) const = 0;
  virtual bool IsByte(int32_t token) const = 0;
  virtual bool IsControl(int32_t token) const = 0;
  virtual std::vector<int> Encode(std::string_view text) const = 0;
};

// Nothing is thrown across: what went wrong is a text, empty when nothing did.
class SentencePieceLibrary {
 public:
  using Options = std::unordered_map<std::string, std::string>;
  // The next line, or null at the end.
  using NextLine = std::function<const std::string*()>;

  virtual std::string Load(std::string_view model,
                           std::unique_ptr<const PieceProcessor>& processor) const = 0;
  virtual std::string Train(const Options& options, const NextLine& next,
                            std::string& model) const = 0;

 protected:
  ~SentencePieceLibrary() = default;  // it is never destroyed
};

// Throws Error when it can't be loaded.
const SentencePieceLibrary& SentencePiece();

}  // namespace cosformer
