#include "formats/safetensors_types.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace cosformer {
namespace {

struct TypeInfo {
  std::string_view name;
  int64_t bytes;
};

// In the order of the enum.
constexpr TypeInfo kTypes[] = {
    {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1},
    {"U16", 2},  {"I16", 2}, {"F16", 2}, {"BF16", 2},    {"U32", 4},
    {"I32", 4},  {"F32", 4}, {"U64", 8}, {"I64", 8},     {"F64", 8},
};
static_assert(std::size(kTypes) == static_cast<size_t>(TensorType::kF64) + 1);

}  // namespace

std::string_view Name(TensorType type) { return kTypes[static_cast<size_t>(type)].name; }
int64_t ByteSize(TensorType type) { return kTypes[static_cast<size_t>(type)].bytes; }

std::optional<TensorType> TypeOfName(std::string_view name) {
  for (size_t i = 0; i < std::size(kTypes); ++i) {
    if (kTypes[i].name == name) return static_cast<TensorType>(i);
  }
  return std::nullopt;
}

std::string AllTypeNames() {
  std::string names;
  for (const TypeInfo& type : kTypes) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", type.name);
  }
  return names;
}

std::optional<int64_t> BytesOfShape(TensorType type, std::span<const int64_t> shape) {
  int64_t bytes = ByteSize(type);
  bool empty = false;
  for (const int64_t dim : shape) {
    if (dim == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(bytes, dim, &bytes)) {
      return std::nullopt;
    }
  }
  return empty ? 0 : bytes;
}

std::string ShapeText(std::span<const int64_t> shape) {
  // A hostile header can hold millions of dimensions.
  constexpr size_t kMaxShown = 16;
  const auto shown = shape.first(std::min(shape.size(), kMaxShown));
  return fmt::format("[{}{}]", fmt::join(shown, ", "), shown.size() < shape.size() ? ", ..." : "");
}

}  // namespace cosformer
