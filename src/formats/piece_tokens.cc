#include "formats/piece_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "cosformer/error.h"
#include "formats/utf8.h"

namespace cosformer {
namespace {

constexpr std::string_view kBlank = "\xE2\x96\x81";  // U+2581, a blank within a piece

// SentencePiece needs some 70 bytes of memory for a byte of a line, and there are texts of 100 MB
// in one line: what is longer than this is cut.
constexpr size_t kLongLine = 1 << 16;

std::string WithBlanks(std::string_view piece) {
  std::string text;
  while (true) {
    const size_t at = piece.find(kBlank);
    text += piece.substr(0, at);
    if (at == std::string_view::npos) return text;
    text += ' ';
    piece.remove_prefix(at + kBlank.size());
  }
}

// Whether the library can't give back the character of `length` bytes that `text` begins with: what
// is no UTF-8, and the character it takes for a blank.
bool IsRaw(std::string_view text, size_t length) { return length == 0 || text.starts_with(kBlank); }

int32_t FindPiece(const PieceProcessor& processor, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (const int32_t token = processor.Find(name); token >= 0) return token;
  }
  return -1;
}

}  // namespace

PieceTokens::PieceTokens(std::string model, const std::string& where)
    : model_(std::move(model)), traits_(ReadTraits(model_, where)) {
  std::string reason = SentencePiece().Load(model_, processor_);
  if (!reason.empty()) {
    if (reason.back() == '.') reason.pop_back();
    // It can hold a piece of the model, of any length and any bytes.
    throw Error(fmt::format(
        "{} is no SentencePiece model that can be used: {}; copy the file again, or train a new "
        "tokenizer",
        where, Printable(reason, 300)));
  }
  special_ = {.unknown = processor_->unknown(),
              .begin = processor_->begin(),
              .end = processor_->end(),
              .separator = FindPiece(*processor_, {"<sep>", "[SEP]"}),
              .mask = FindPiece(*processor_, {"<mask>", "[MASK]"})};
  newline_ = FindPiece(*processor_, {"\n", "<0x0A>"});
  if (newline_ < 0) newline_ = special_.end >= 0 ? special_.end : special_.unknown;
  if (newline_ < 0) {
    throw Error(
        fmt::format("{} is no SentencePiece model that can be used: it has no piece for the end of "
                    "a line, none for the end of a text, and none by the name of its unknown "
                    "piece; train a new tokenizer",
                    where));
  }

  if (traits_.byte_pieces) byte_tokens_.resize(256);
  text_.resize(static_cast<size_t>(processor_->size()));
  for (int32_t token = 0; token < size(); ++token) {
    const std::string& piece = processor_->Piece(token);
    std::string& text = text_[static_cast<size_t>(token)];
    if (processor_->IsByte(token)) {
      const int byte = std::stoi(piece.substr(3, 2), nullptr, 16);  // <0x0A>
      byte_tokens_[static_cast<size_t>(byte)] = token;
      text = static_cast<char>(byte);
    } else if (token == newline_) {
      text = '\n';
    } else if (token == special_.unknown) {
      text = piece;
    } else if (!processor_->IsControl(token) && token != special_.separator &&
               token != special_.mask) {
      text = WithBlanks(piece);
    }
  }
}

void PieceTokens::Encode(std::string_view text, std::vector<int32_t>& tokens) const {
  while (true) {
    const size_t end = text.find('\n');
    EncodeLine(text.substr(0, end), tokens);
    if (end == std::string_view::npos) return;
    tokens.push_back(newline_);
    text.remove_prefix(end + 1);
  }
}

void PieceTokens::EncodeLine(std::string_view line, std::vector<int32_t>& tokens) const {
  if (!traits_.Lossless()) {
    EncodeLong(line, tokens);
    return;
  }
  while (!line.empty()) {
    size_t plain = 0, raw = 0;
    while (plain < line.size()) {
      const std::string_view rest = line.substr(plain);
      const size_t length = Utf8Length(rest);
      if (IsRaw(rest, length)) {
        raw = std::max<size_t>(length, 1);
        break;
      }
      plain += length;
    }
    EncodeLong(line.substr(0, plain), tokens);
    line.remove_prefix(plain);
    for (const char byte : line.substr(0, raw)) {
      tokens.push_back(byte_tokens_[static_cast<unsigned char>(byte)]);
    }
    line.remove_prefix(raw);
  }
}

// A model that thinks of a blank before each text gets it in place of the one that was cut at.
void PieceTokens::EncodeLong(std::string_view text, std::vector<int32_t>& tokens) const {
  while (!text.empty()) {
    const size_t cut = CutLength(text, kLongLine);
    const std::vector<int> part = processor_->Encode(text.substr(0, cut));
    tokens.insert(tokens.end(), part.begin(), part.end());
    text.remove_prefix(cut);
    if (traits_.blank_before && text.starts_with(' ')) text.remove_prefix(1);
  }
}

void PieceTokens::Decode(int32_t token, bool& line_starts, std::string& text) const {
  std::string_view part = text_[static_cast<size_t>(token)];
  if (part.empty()) return;
  if (line_starts && traits_.blank_before && part[0] == ' ' && !processor_->IsByte(token)) {
    part.remove_prefix(1);
  }
  text += part;
  line_starts = token == newline_;
}

std::string PieceTokens::Piece(int32_t token) const {
  const std::string& piece = processor_->Piece(token);
  return piece == "\n" ? "\\n" : piece;
}

}  // namespace cosformer
