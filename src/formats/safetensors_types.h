// What reading and writing safetensors share: the element types and the size that a shape asks for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "formats/safetensors.h"

namespace cosformer {

inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
inline constexpr std::string_view kMetadataKey = "__metadata__";

// None for a name that the format does not have, or that came to it after this was written.
std::optional<TensorType> TypeOfName(std::string_view name);
std::string AllTypeNames();

// None if it does not fit in int64. Dimensions must not be negative. A shape with a zero takes 0
// bytes, but its other dimensions still have to fit: whoever computes strides multiplies them.
std::optional<int64_t> BytesOfShape(TensorType type, std::span<const int64_t> shape);

std::string ShapeText(std::span<const int64_t> shape);

}  // namespace cosformer
