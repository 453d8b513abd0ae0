#include "formats/sentencepiece_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

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

// How many matches at one place of a text the library has room for. It does not look whether there
// are more.
constexpr int kMaxRules = 32;      // of the normalisation
constexpr size_t kMaxPieces = 64;  // that the user has defined

// A normalisation table: a double-array trie, and the text that its leaves point into.
class NormalisationTable {
 public:
  NormalisationTable(std::string_view table, const std::string& where) : where_(where) {
    uint32_t trie_bytes = 0;
    if (table.size() < sizeof(trie_bytes) || table.size() > kMaxTable) FailBroken();
    std::memcpy(&trie_bytes, table.data(), sizeof(trie_bytes));
    table.remove_prefix(sizeof(trie_bytes));
    if (trie_bytes == 0 || trie_bytes % sizeof(uint32_t) != 0 || trie_bytes >= table.size()) {
      FailBroken();
    }
    units_.resize(trie_bytes / sizeof(uint32_t));
    std::memcpy(units_.data(), table.data(), trie_bytes);
    text_bytes_ = table.size() - trie_bytes;
  }

  void Check() {
    // The library steps on without a look at the size: every step must end at a unit. From the
    // root it steps on whatever the root is.
    if (units_[0] & kLeaf) FailBroken();
    for (size_t unit = 0; unit < units_.size(); ++unit) {
      if (units_[unit] & kLeaf) continue;
      if ((Next(unit) | 0xFF) >= units_.size()) FailBroken();
      if (HasLeaf(unit) && (units_[Next(unit)] & ~kLeaf) >= text_bytes_) FailBroken();
    }
    leaves_below_.assign(units_.size(), kUnseen);
    CountLeavesBelow(0, 0);
  }

 private:
  static constexpr uint32_t kLeaf = uint32_t{1} << 31, kHasLeaf = 1 << 8, kFarOffset = 1 << 9;
  static constexpr int8_t kUnseen = -1, kOpen = -2;
  // SentencePiece's own tables take 300 KB, and their rules a few characters.
  static constexpr size_t kMaxTable = size_t{8} << 20;
  static constexpr int kMaxRuleBytes = 1024;

  [[noreturn]] void FailBroken() const { Fail(where_, "its normalisation table is broken"); }

  bool HasLeaf(size_t unit) const { return (units_[unit] & kHasLeaf) != 0; }
  // The children of a unit stand at this place ^ their byte, and its leaf at this place.
  size_t Next(size_t unit) const {
    const uint32_t node = units_[unit];
    return unit ^ (static_cast<size_t>(node >> 10) << ((node & kFarOffset) ? 8 : 0));
  }

  // How many leaves a way down from the unit passes at most. Ways may join, but not go round.
  void CountLeavesBelow(size_t unit, int depth) {
    if (depth > kMaxRuleBytes) FailBroken();
    leaves_below_[unit] = kOpen;
    int most = 0;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const size_t child = Next(unit) ^ byte;
      if ((units_[child] & (kLeaf | 0xFF)) != byte) continue;
      // A unit that is not used looks like a child for a zero byte, which leads nowhere else.
      if (!HasLeaf(child) && Next(child) == Next(unit)) continue;
      if (leaves_below_[child] == kOpen) FailBroken();
      if (leaves_below_[child] == kUnseen) CountLeavesBelow(child, depth + 1);
      most = std::max(most, leaves_below_[child] + (HasLeaf(child) ? 1 : 0));
    }
    if (most > kMaxRules) FailBroken();
    leaves_below_[unit] = static_cast<int8_t>(most);
  }

  const std::string& where_;
  std::vector<uint32_t> units_;
  size_t text_bytes_ = 0;
  std::vector<int8_t> leaves_below_;
};

// Pieces that begin with each other all match at one place.
void CheckUserDefined(std::vector<std::string_view> pieces, const std::string& where) {
  std::sort(pieces.begin(), pieces.end());
  std::vector<std::string_view> begun;  // each begins with the one before
  for (const std::string_view piece : pieces) {
    while (!begun.empty() && !piece.starts_with(begun.back())) begun.pop_back();
    begun.push_back(piece);
    if (begun.size() > kMaxPieces) {
      Fail(where,
           fmt::format("more than {} user-defined pieces begin with each other", kMaxPieces));
    }
  }
}

// Adds the piece to those that the user has defined if it is one.
void ReadPiece(std::string_view bytes, std::vector<std::string_view>& user_defined,
               const std::string& where) {
  constexpr uint64_t kUserDefined = 4;
  std::string_view text;
  uint64_t type = 0;
  for (Message piece(bytes, where); piece.Next();) {
    if (piece.IsBytes(1)) text = piece.bytes();
    if (piece.IsNumber(3)) type = piece.value();
  }
  // The library takes a zero byte for the end.
  if (type == kUserDefined) user_defined.push_back(text.substr(0, text.find('\0')));
}

}  // namespace

SentencePieceTraits ReadTraits(std::string_view model, const std::string& where) {
  if (model.empty()) Fail(where, "it is empty");
  SentencePieceTraits traits;
  bool has_trainer = false, has_normaliser = false;
  std::vector<std::string_view> user_defined;
  for (Message top(model, where); top.Next();) {
    if (top.IsBytes(1)) {
      ReadPiece(top.bytes(), user_defined, where);
    } else if (top.IsBytes(2)) {
      has_trainer = true;
      for (Message trainer(top.bytes(), where); trainer.Next();) {
        if (trainer.IsNumber(35)) traits.byte_pieces = trainer.value() != 0;
      }
    } else if (top.IsBytes(3)) {
      has_normaliser = true;
      for (Message normaliser(top.bytes(), where); normaliser.Next();) {
        if (normaliser.IsBytes(2) && !normaliser.bytes().empty()) {
          traits.normalises = true;
          NormalisationTable(normaliser.bytes(), where).Check();
        }
        if (normaliser.IsNumber(3)) traits.blank_before = normaliser.value() != 0;
        if (normaliser.IsNumber(4)) traits.removes_blanks = normaliser.value() != 0;
        if (normaliser.IsNumber(5)) traits.escapes_blanks = normaliser.value() != 0;
      }
    } else if (top.IsBytes(5)) {
      for (Message denormaliser(top.bytes(), where); denormaliser.Next();) {
        if (denormaliser.IsBytes(2) && !denormaliser.bytes().empty()) {
          NormalisationTable(denormaliser.bytes(), where).Check();
        }
      }
    }
  }
  if (!has_trainer || !has_normaliser) Fail(where, "its second half is missing");
  CheckUserDefined(std::move(user_defined), where);
  return traits;
}

}  // namespace cosformer
