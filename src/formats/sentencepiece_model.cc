#include "formats/sentencepiece_model.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>

#include "cosformer/error.h"

namespace cosformer {
namespace {

[[noreturn]] void Fail(const std::string& where, std::string_view what) {
  throw Error(
      fmt::format("{} is no SentencePiece model: {}; copy the file again, or train a new tokenizer",
                  where, what));
}

// One message of a protocol buffer, field after field.
class Message {
 public:
  Message(std::string_view bytes, const std::string& where) : rest_(bytes), where_(where) {}

  bool Next() {
    if (rest_.empty()) return false;
    const uint64_t key = Varint();
    field_ = key >> 3;
    wire_ = key & 7;
    bytes_ = {};
    value_ = 0;
    switch (wire_) {
      case 0:
        value_ = Varint();
        break;
      case 1:
        Take(8);
        break;
      case 2:
        bytes_ = Take(Varint());
        break;
      case 5:
        Take(4);
        break;
      default:
        Fail(where_, "it holds a field of an unknown kind");
    }
    return true;
  }

  bool IsBytes(uint64_t field) const { return field_ == field && wire_ == 2; }
  bool IsNumber(uint64_t field) const { return field_ == field && wire_ == 0; }
  std::string_view bytes() const { return bytes_; }
  uint64_t value() const { return value_; }

 private:
  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<uint8_t>(Take(1)[0]);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    Fail(where_, "it holds a number of more than 64 bits");
  }

  std::string_view Take(uint64_t size) {
    if (size > rest_.size()) Fail(where_, "it is cut off, or something else altogether");
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  std::string_view rest_;
  const std::string& where_;
  uint64_t field_ = 0, wire_ = 0, value_ = 0;
  std::string_view bytes_;
};

// A double-array trie and the text that its leaves point into. A step goes from unit i to
// i ^ offset ^ byte, without a look at the size: all of these must be units.
void CheckNormalisation(std::string_view table, const std::string& where) {
  constexpr std::string_view kBroken = "its normalisation table is broken";
  uint32_t trie_bytes = 0;
  if (table.size() < sizeof(trie_bytes)) Fail(where, kBroken);
  std::memcpy(&trie_bytes, table.data(), sizeof(trie_bytes));
  table.remove_prefix(sizeof(trie_bytes));
  if (trie_bytes == 0 || trie_bytes % sizeof(uint32_t) != 0 || trie_bytes >= table.size()) {
    Fail(where, kBroken);
  }
  const size_t text_bytes = table.size() - trie_bytes;
  const size_t units = trie_bytes / sizeof(uint32_t);
  const auto unit = [table](size_t i) {
    uint32_t value;
    std::memcpy(&value, table.data() + i * sizeof(value), sizeof(value));
    return value;
  };
  constexpr uint32_t kLeaf = uint32_t{1} << 31, kHasLeaf = 1 << 8, kFarOffset = 1 << 9;
  for (size_t i = 0; i < units; ++i) {
    const uint32_t node = unit(i);
    if (node & kLeaf) continue;
    const size_t next = i ^ (static_cast<size_t>(node >> 10) << ((node & kFarOffset) ? 8 : 0));
    if ((next | 0xFF) >= units) Fail(where, kBroken);
    if ((node & kHasLeaf) && (unit(next) & ~kLeaf) >= text_bytes) Fail(where, kBroken);
  }
}

}  // namespace

SentencePieceTraits ReadTraits(std::string_view model, const std::string& where) {
  if (model.empty()) Fail(where, "it is empty");
  SentencePieceTraits traits;
  bool has_trainer = false, has_normaliser = false;
  for (Message top(model, where); top.Next();) {
    if (top.IsBytes(2)) {
      has_trainer = true;
      for (Message trainer(top.bytes(), where); trainer.Next();) {
        if (trainer.IsNumber(35)) traits.byte_pieces = trainer.value() != 0;
      }
    } else if (top.IsBytes(3)) {
      has_normaliser = true;
      for (Message normaliser(top.bytes(), where); normaliser.Next();) {
        if (normaliser.IsBytes(2) && !normaliser.bytes().empty()) {
          traits.normalises = true;
          CheckNormalisation(normaliser.bytes(), where);
        }
        if (normaliser.IsNumber(3)) traits.blank_before = normaliser.value() != 0;
        if (normaliser.IsNumber(4)) traits.removes_blanks = normaliser.value() != 0;
        if (normaliser.IsNumber(5)) traits.escapes_blanks = normaliser.value() != 0;
      }
    } else if (top.IsBytes(5)) {
      for (Message denormaliser(top.bytes(), where); denormaliser.Next();) {
        if (denormaliser.IsBytes(2) && !denormaliser.bytes().empty()) {
          CheckNormalisation(denormaliser.bytes(), where);
        }
      }
    }
  }
  if (!has_trainer || !has_normaliser) Fail(where, "its second half is missing");
  return traits;
}

}  // namespace cosformer
