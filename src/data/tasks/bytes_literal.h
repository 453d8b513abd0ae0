// Texts that were written as Python shows bytes: b'na\xc3\xafve\n'. The Long-Range Arena's pairs of
// papers are such.
#pragma once

#include <string>
#include <string_view>

namespace cosformer::data {

// The bytes that the literal stands for; a cell that is none comes back as it is, and so does a
// backslash that begins nothing known.
std::string DecodeBytesLiteral(std::string_view cell);

}  // namespace cosformer::data
