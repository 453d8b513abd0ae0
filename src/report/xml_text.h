// Text in SVG files: what XML allows, what a reader can see, and how much room it takes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cosformer::report {

// The characters of UTF-8 text; each byte that is no part of one gives U+FFFD.
std::u32string DecodeUtf8(std::string_view text);

// Text as it may stand in XML: markup escaped, what XML forbids (control characters, U+FFFE and
// U+FFFF, bytes that aren't UTF-8) replaced by U+FFFD.
std::string EscapeXml(std::string_view text);

// Bytes as digits of base 64, padded with "=": what a data: address in an attribute holds.
std::string Base64(std::string_view bytes);

// A token as a label, not escaped yet. Blanks and control characters get a sign: "␣" for a space,
// "↵" for a newline, "⇥" for a tab, "␀" and its like for the other ASCII ones, "U+200B" for the
// rest, which also keeps marks of writing direction from turning what stands beside them. More than
// `most` characters of the result (at least 1) are cut: the last one kept is "…".
std::string VisibleText(std::string_view text, size_t most);

// The width of one line, in the unit of the font size. An estimate, since exact ones need the
// font's tables: some half of the size a character, all of it for East Asian ones and emoji.
double TextWidth(std::string_view text, double font_size);

}  // namespace cosformer::report
