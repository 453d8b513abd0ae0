// Text that a command is given: in a file, or on standard input.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cosformer/runtime.h"

namespace cosformer::cli {

// The whole of it, without a line break at its very end. "-" is standard input. Throws Error for
// what can't be read, and for more than 1 GiB.
std::string ReadText(const std::string& path);

// Line by line. An empty text has none.
std::vector<std::string> SplitLines(const std::string& text);

// Throws Error for a text without a character in it, and for what is no UTF-8 where the model's
// tokens are not bytes. `what` begins the sentence: "the text", "line 3".
void CheckText(const runtime::Model& model, std::string_view text, const std::string& what);

}  // namespace cosformer::cli
