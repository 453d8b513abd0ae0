#include "formats/tokenizer.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <variant>

#include "cosformer/error.h"
#include "formats/byte_tokens.h"
#include "formats/json.h"
#include "formats/option_reader.h"
#include "formats/piece_tokens.h"
#include "formats/read_file.h"
#include "formats/word_tokens.h"
#include "kernels/hash.h"
#include "report/files.h"
#include "report/units.h"

namespace cosformer {
namespace {

using nlohmann::json;

constexpr int64_t kTokenizerFormat = 1;  // of tokenizer.json
constexpr const char* kModelFile = "tokenizer.model";
constexpr const char* kJsonFile = "tokenizer.json";
// The largest public models take 5 MB; vocabularies of words are limited to 32 MB, which escapes
// can make six times as long.
constexpr size_t kMaxFile = size_t{256} << 20;

constexpr std::string_view kNames[] = {"bytes", "words", "sentencepiece"};

std::string FileContents(const ByteTokens&) {
  return fmt::format("{{\"format\": {}, \"kind\": \"bytes\"}}\n", kTokenizerFormat);
}

// A line for each word, for those who look into it.
std::string FileContents(const WordTokens& words) {
  std::string text =
      fmt::format("{{\"format\": {}, \"kind\": \"words\", \"words\": [", kTokenizerFormat);
  const char* separator = "\n";
  for (const std::string& word : words.given()) {
    text += separator;
    text += json(word).dump();
    separator = ",\n";
  }
  return text + "\n]}\n";
}

const std::string& FileContents(const PieceTokens& pieces) { return pieces.model(); }

std::vector<std::string> ReadWords(json& list, const std::string& where) {
  if (!list.is_array()) {
    throw Error(
        fmt::format("{}: \"words\" is {}; expected a list of words", where, DescribeJson(list)));
  }
  std::vector<std::string> words;
  words.reserve(list.size());
  for (json& word : list) {
    if (!word.is_string()) {
      throw Error(fmt::format("{}: word {} of the vocabulary is {}; expected a text", where,
                              words.size() + 1, DescribeJson(word)));
    }
    words.push_back(std::move(word.get_ref<std::string&>()));
  }
  return words;
}

}  // namespace

std::string_view Name(TokenizerKind kind) { return kNames[static_cast<size_t>(kind)]; }

struct Tokenizer::Impl {
  std::variant<ByteTokens, WordTokens, PieceTokens> tokens;  // in the order of TokenizerKind
  std::string fingerprint;

  template <class Tokens>
  static Tokenizer Make(Tokens tokens) {
    auto impl = std::make_shared<Impl>(Impl{std::move(tokens), ""});
    impl->fingerprint =
        fmt::format("{:016x}", Fnv1a().Add(FileContents(std::get<Tokens>(impl->tokens))).value());
    return Tokenizer(std::move(impl));
  }

  template <class Function>
  decltype(auto) Visit(Function function) const {
    return std::visit(function, tokens);
  }
};

Tokenizer Tokenizer::Bytes() { return Impl::Make(ByteTokens()); }

Tokenizer Tokenizer::Words(std::vector<std::string> words) {
  return Impl::Make(WordTokens(std::move(words), "tokenizer"));
}

Tokenizer Tokenizer::SentencePiece(std::string model, const std::string& where) {
  return Impl::Make(PieceTokens(std::move(model), where));
}

TokenizerKind Tokenizer::kind() const { return static_cast<TokenizerKind>(impl_->tokens.index()); }

int64_t Tokenizer::size() const {
  return impl_->Visit([](const auto& tokens) { return tokens.size(); });
}

const SpecialTokens& Tokenizer::special() const {
  return impl_->Visit([](const auto& tokens) -> const SpecialTokens& { return tokens.special(); });
}

void Tokenizer::Encode(std::string_view text, std::vector<int32_t>& tokens) const {
  impl_->Visit([&](const auto& vocabulary) { vocabulary.Encode(text, tokens); });
}

std::vector<int32_t> Tokenizer::Encode(std::string_view text) const {
  std::vector<int32_t> tokens;
  Encode(text, tokens);
  return tokens;
}

std::string Tokenizer::Decode(std::span<const int32_t> tokens) const {
  std::string text;
  text.reserve(tokens.size());
  bool line_starts = true;
  for (const int32_t token : tokens) Decode(token, line_starts, text);
  return text;
}

void Tokenizer::Decode(int32_t token, bool& line_starts, std::string& text) const {
  if (token < 0 || token >= size()) {
    throw Error(
        fmt::format("token {} is outside the tokenizer's vocabulary of {}: were the "
                    "tokens made with another tokenizer?",
                    token, report::FormatInteger(size())));
  }
  impl_->Visit([&](const auto& pieces) { pieces.Decode(token, line_starts, text); });
}

std::string Tokenizer::Piece(int32_t token) const {
  if (token < 0 || token >= size()) {
    throw Error(fmt::format("token {} is outside the tokenizer's vocabulary of {}", token,
                            report::FormatInteger(size())));
  }
  return impl_->Visit([&](const auto& pieces) { return pieces.Piece(token); });
}

const std::string& Tokenizer::Fingerprint() const { return impl_->fingerprint; }

void Tokenizer::Save(const std::string& directory) const {
  const std::filesystem::path folder(directory);
  const bool is_model = kind() == TokenizerKind::kSentencePiece;
  impl_->Visit([&](const auto& tokens) {
    report::WriteFile((folder / (is_model ? kModelFile : kJsonFile)).string(),
                      FileContents(tokens));
  });
  // Only now: a directory that had a tokenizer has one at every moment.
  const std::filesystem::path other = folder / (is_model ? kJsonFile : kModelFile);
  std::error_code error;
  std::filesystem::remove(other, error);
  if (error) {
    throw Error(fmt::format("cannot remove \"{}\", which the new tokenizer replaces: {}",
                            other.string(), error.message()));
  }
}

Tokenizer Tokenizer::Load(const std::string& path) {
  std::filesystem::path file(path);
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) {
    const bool has_model = std::filesystem::exists(file / kModelFile, error);
    const bool has_json = std::filesystem::exists(file / kJsonFile, error);
    if (!has_model && !has_json) {
      throw Error(fmt::format("\"{}\" has no tokenizer: expected {} or {} in it", path, kModelFile,
                              kJsonFile));
    }
    if (has_model && has_json) {
      throw Error(
          fmt::format("\"{}\" has two tokenizers, {} and {}; remove the one that is not "
                      "meant",
                      path, kModelFile, kJsonFile));
    }
    file /= has_model ? kModelFile : kJsonFile;
  }
  const std::string where = fmt::format("\"{}\"", file.string());
  if (file.extension() == ".model") return SentencePiece(ReadFile(file.string(), kMaxFile), where);
  if (file.extension() != ".json") {
    throw Error(
        fmt::format("{} is no tokenizer by its name: expected a directory, or a file "
                    "*.model or *.json",
                    where));
  }
  json object = ReadJsonFile(file.string(), kMaxFile);
  OptionReader reader(object, where);
  for (const char* key : {"format", "kind"}) {
    if (!reader.Has(key)) throw Error(fmt::format("{}: \"{}\" is missing", where, key));
  }
  reader.CheckFormat(kTokenizerFormat);
  const std::string kind = reader.Choice("kind", "", {kNames[0], kNames[1]});
  if (kind == kNames[0]) {
    reader.Done();
    return Bytes();
  }
  if (reader.Find("words") == nullptr) {
    throw Error(fmt::format("{}: \"words\" is missing", where));
  }
  reader.Done();
  return Impl::Make(WordTokens(ReadWords(object["words"], where), where));
}

bool Tokenizer::IsIn(const std::string& directory) {
  const std::filesystem::path folder(directory);
  std::error_code error;
  return std::filesystem::exists(folder / kModelFile, error) ||
         std::filesystem::exists(folder / kJsonFile, error);
}

}  // namespace cosformer
