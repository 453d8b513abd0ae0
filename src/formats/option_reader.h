// Reads one JSON object field by field: each key is asked for by name, with its type, its range and
// what it is when absent. Whatever was never asked for is an error at the end, so that a misspelt
// key can't be overlooked.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cosformer {

// Every function throws Error with a sentence that holds `where`, the key, what was found and what
// was expected. The fallback is returned as it is, also when it lies outside the range: 0 can so
// mean "derived from other fields" without being a value that a file may hold. JSON null is a
// value of a wrong type, not an absent one.
class OptionReader {
 public:
  // `where` names the object in errors: "config.json", "attention performer". The object is not
  // copied and must outlive the reader. Throws when it is not an object.
  OptionReader(const nlohmann::json& object, std::string where);
  OptionReader(nlohmann::json&&, std::string) = delete;

  // A number without a fraction: 3, also 3.0 and 1e6, but not 3.5. The range is inclusive.
  int64_t Integer(const char* name, int64_t fallback, int64_t least, int64_t most);
  // A finite number. The range is inclusive; an infinite bound is none.
  double Number(const char* name, double fallback, double least, double most);
  bool Flag(const char* name, bool fallback);
  std::string Choice(const char* name, std::string_view fallback,
                     std::span<const std::string_view> choices);
  std::string Choice(const char* name, std::string_view fallback,
                     std::initializer_list<std::string_view> choices);
  std::string Text(const char* name, std::string_view fallback);

  // Accepts the number "format" of a file from 1 to `newest`, and files without it. What a later
  // version wrote is an Error: update cosformer, or do what `instead` says ("remove the file").
  void CheckFormat(int64_t newest, std::string_view instead = "");

  // The value as it stands, null when absent. Counts as asked for.
  const nlohmann::json* Find(const char* name);
  // Does not count as asked for.
  bool Has(const char* name) const;

  // Throws when the object has keys that were never asked for: names them, for each the nearest
  // known key if there is one near, and all known keys.
  void Done() const;

  const std::string& where() const { return where_; }

 private:
  const nlohmann::json& object_;
  std::string where_;
  std::vector<std::string> known_;  // in the order they were asked for
};

// The known word that `word` is most likely a misspelling of; empty when none is near.
std::string Nearest(std::string_view word, const std::vector<std::string>& known);

// A text as errors show it: quoted as in JSON, and no more than its first bytes.
std::string Quoted(std::string_view text);

// A value as errors show it: its kind, and the value itself where that is short.
std::string DescribeJson(const nlohmann::json& value);

}  // namespace cosformer
