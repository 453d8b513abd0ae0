// JSON that comes from outside: read with limits on its size, depth and values, refused with the
// line and column of what is wrong. Stricter than the parser underneath: a key may stand only once
// in an object, since which of two values counts is nobody's intention.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace cosformer {

// `where` names the text in errors.
nlohmann::json ParseJson(std::string_view text, const std::string& where);

inline constexpr size_t kMaxJsonFile = size_t{16} << 20;

// Throws Error for files that are missing, empty, directories, larger than `most_bytes` or not
// JSON.
nlohmann::json ReadJsonFile(const std::string& path, size_t most_bytes = kMaxJsonFile);

// As text, in one line where indent is negative. Strings that are no UTF-8, as names of files need
// not be, are written with replacement characters.
std::string JsonText(const nlohmann::json& value, int indent = -1);

}  // namespace cosformer
