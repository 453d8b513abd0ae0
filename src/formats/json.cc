#include "formats/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "cosformer/error.h"
#include "formats/option_reader.h"
#include "formats/read_file.h"

namespace cosformer {
namespace {

// No format of ours goes deeper than five levels; what is far deeper is no such file.
constexpr size_t kMaxDepth = 64;
// A value takes up to 80 bytes of memory and as little as two of the text. The most that there is
// reason for are words of a tokenizer, whose vocabularies stay below this.
constexpr size_t kMaxValues = size_t{1} << 23;

// The parser's own sentence without its error code, its position, which is counted here, and the
// text it read last, which can be long and need not be printable.
std::string Reason(std::string text) {
  const auto drop_through = [&text](std::string_view mark) {
    const size_t at = text.find(mark);
    if (at != std::string::npos) text.erase(0, at + mark.size());
  };
  drop_through("] ");
  if (text.starts_with("parse error")) drop_through(": ");
  text.resize(std::min({text.size(), text.find("; last read"), size_t{200}}));
  return text;
}

// `at` is the offset of what is wrong.
[[noreturn]] void Fail(std::string_view text, size_t at, const std::string& where,
                       const std::string& reason) {
  const std::string_view before = text.substr(0, at);
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  throw Error(fmt::format("{} is not valid JSON: line {}, column {}: {}", where,
                          std::count(before.begin(), before.end(), '\n') + 1,
                          before.size() - line_start + 1, reason));
}

// Builds the document from the parser's events. Throws from within them, which the parser, holding
// nothing but values, permits.
class DocumentBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  DocumentBuilder(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  nlohmann::json Take() { return std::move(root_); }

  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(number_integer_t value) override { return Add(value); }
  bool number_unsigned(number_unsigned_t value) override { return Add(value); }
  bool number_float(number_float_t value, const string_t&) override { return Add(value); }
  bool string(string_t& value) override { return Add(std::move(value)); }
  bool binary(binary_t& value) override { return Add(std::move(value)); }
  bool start_object(size_t) override { return Enter(nlohmann::json::object()); }
  bool start_array(size_t) override { return Enter(nlohmann::json::array()); }
  bool end_object() override { return Leave(); }
  bool end_array() override { return Leave(); }

  bool key(string_t& value) override {
    if (open_.back()->contains(value)) {
      throw Error(fmt::format("{}: the key {} stands twice in one object; remove one of them",
                              where_, Quoted(value)));
    }
    key_ = std::move(value);
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::json::exception& error) override {
    // The parser counts the characters it has read, the wrong one included.
    const size_t read = std::min(position, text_.size());
    Fail(text_, read > 0 ? read - 1 : 0, where_, Reason(error.what()));
  }

 private:
  nlohmann::json* Place(nlohmann::json value) {
    if (++values_ > kMaxValues) {
      throw Error(
          fmt::format("{} holds more than {} values: is it the right file?", where_, kMaxValues));
    }
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    nlohmann::json& parent = *open_.back();
    if (parent.is_object()) return &(parent[key_] = std::move(value));
    parent.push_back(std::move(value));
    return &parent.back();
  }

  bool Add(nlohmann::json value) {
    Place(std::move(value));
    return true;
  }

  bool Enter(nlohmann::json value) {
    if (open_.size() == kMaxDepth) {
      throw Error(fmt::format("{} nests lists and objects more than {} deep: is it the right file?",
                              where_, kMaxDepth));
    }
    // Stays valid: a parent does not change while a child is open.
    open_.push_back(Place(std::move(value)));
    return true;
  }

  bool Leave() {
    open_.pop_back();
    return true;
  }

  std::string_view text_;
  const std::string& where_;
  nlohmann::json root_;
  std::vector<nlohmann::json*> open_;
  std::string key_;
  size_t values_ = 0;
};

}  // namespace

nlohmann::json ParseJson(std::string_view text, const std::string& where) {
  // The parser takes a zero byte for the end and would not look at what is behind it.
  const size_t zero = text.find('\0');
  if (zero != std::string_view::npos) Fail(text, zero, where, "a zero byte");
  DocumentBuilder builder(text, where);
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  return builder.Take();
}

nlohmann::json ReadJsonFile(const std::string& path, size_t most_bytes) {
  const std::string text = ReadFile(path, most_bytes);
  if (text.empty()) throw Error(fmt::format("\"{}\" is empty; expected a JSON object", path));
  return ParseJson(text, fmt::format("\"{}\"", path));
}

std::string JsonText(const nlohmann::json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace cosformer
