// A SentencePiece model put together by hand, field by field, so that any part of it can be wrong.
// Numbers of fields are those of SentencePiece's ModelProto.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

namespace cosformer::testing {

inline std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

inline std::string NumberField(uint64_t field, uint64_t value) {
  return Varint(field << 3) + Varint(value);
}

inline std::string BytesField(uint64_t field, const std::string& bytes) {
  return Varint(field << 3 | 2) + Varint(bytes.size()) + bytes;
}

inline std::string FloatField(uint64_t field, float value) {
  char bytes[sizeof(value)];
  std::memcpy(bytes, &value, sizeof(value));
  return Varint(field << 3 | 5) + std::string(bytes, sizeof(bytes));
}

enum PieceType { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kByte = 6 };

inline std::string PieceField(const std::string& piece, PieceType type = kNormal,
                              float score = -1) {
  return BytesField(1, BytesField(1, piece) + FloatField(2, score) + NumberField(3, type));
}

inline std::string TrainerField(const std::string& fields) { return BytesField(2, fields); }
inline std::string NormaliserField(const std::string& fields) { return BytesField(3, fields); }

// <unk>, <s>, </s> and the pieces of "the cat".
inline std::string RawPieces() {
  std::string pieces = PieceField("<unk>", kUnknown, 0) + PieceField("<s>", kControl, 0) +
                       PieceField("</s>", kControl, 0);
  for (const char* piece : {"\xE2\x96\x81", "t", "h", "e", "c", "a", "\xE2\x96\x81the", "at"}) {
    pieces += PieceField(piece);
  }
  return pieces;
}

// A small model that can be used. Model types are 1, unigram, to 4, characters.
inline std::string RawModel(uint64_t model_type = 1) {
  return RawPieces() + TrainerField(NumberField(3, model_type)) + NormaliserField("");
}

inline std::string TableOf(const std::vector<uint32_t>& units) {
  const auto size = static_cast<uint32_t>(4 * units.size());
  std::string table(sizeof(size) + size, '\0');
  std::memcpy(table.data(), &size, sizeof(size));
  std::memcpy(table.data() + sizeof(size), units.data(), size);
  return table + std::string("a\0", 2);
}

// A normalisation table that turns "A" into "a". A unit is offset << 10 | has a leaf << 8 | byte:
// the root's children stand at their own bytes, and the one of 'A' has its leaf at 44.
inline std::string RawTable() {
  std::vector<uint32_t> units(256);
  units['A'] = (uint32_t{'A'} ^ 44) << 10 | 1 << 8 | 'A';
  units[44] = uint32_t{1} << 31;
  return TableOf(units);
}

// One with a rule for "A", one for "AA" and so on, up to `rules` of them, at most 256: the unit of
// each run is in a block of its own, and has its leaf there.
inline std::string TableOfRuns(uint32_t rules) {
  std::vector<uint32_t> units(256 * (rules + 1));
  const auto at = [](uint32_t run) { return 256 * (run - 1) + 'A'; };
  for (uint32_t run = 1; run <= rules; ++run) {
    units[at(run)] = (at(run) ^ 256 * run) << 10 | 1 << 8 | 'A';
    units[256 * run] = uint32_t{1} << 31;
  }
  return TableOf(units);
}

// User-defined pieces "A", "AA" and so on.
inline std::string UserDefinedRuns(size_t pieces) {
  std::string fields;
  for (size_t i = 1; i <= pieces; ++i) fields += PieceField(std::string(i, 'A'), kUserDefined);
  return fields;
}

}  // namespace cosformer::testing
