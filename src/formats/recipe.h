// A recipe: options of `cosformer train` by their long names, as TOML holds them. The one reader
// and the one writer of these files; commands fill recipes and ask them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cosformer {

class Recipe {
 public:
  struct Entry {
    std::string option;  // without its dashes
    std::string value;   // as it would stand on the command line
    int line = 0;        // in the text that it was read from; 0: it was set
  };

  // `origin` names the text in errors. Throws Error with the line for what is no TOML, for a key
  // that stands twice, and for values that no option can have: tables, lists, dates.
  static Recipe Parse(std::string_view text, const std::string& origin);
  static Recipe Read(const std::string& path);

  // In the order in which they were written.
  const std::vector<Entry>& entries() const& { return entries_; }
  std::vector<Entry> entries() && { return std::move(entries_); }
  // Null where the recipe does not have the option.
  const std::string* Find(std::string_view option) const;
  // Replaces the option, or adds it.
  void Set(const std::string& option, const std::string& value);

  // A line per option. Numbers, true and false stand as they are, all else in quotes.
  std::string ToToml() const;

 private:
  std::vector<Entry> entries_;
};

// A value of an option as TOML writes it: `0.5`, `true`, `"bytes"`.
std::string TomlValue(const std::string& value);

}  // namespace cosformer
