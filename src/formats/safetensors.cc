// Reading: the file is mapped, its header parsed and held against the rules of the format.
#include "formats/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "cosformer/error.h"
#include "formats/json.h"
#include "formats/option_reader.h"
#include "formats/safetensors_types.h"

namespace cosformer {

static_assert(std::endian::native == std::endian::little, "tensors are mapped as they lie");

namespace {

using nlohmann::json;

// The header's text and the data behind it.
struct Parts {
  std::string_view header;
  std::span<const std::byte> data;
};

Parts Split(std::span<const std::byte> file, const std::string& where) {
  uint64_t length = 0;
  if (file.size() < sizeof(length)) {
    throw Error(fmt::format(
        "{} has {} bytes, fewer than the 8 that say how long the header is; is it cut off?", where,
        file.size()));
  }
  std::memcpy(&length, file.data(), sizeof(length));
  const auto rest = file.subspan(sizeof(length));
  if (length > kMaxHeaderBytes) {
    throw Error(fmt::format(
        "{} claims a header of {} bytes; the format allows {}: it is no safetensors file", where,
        length, kMaxHeaderBytes));
  }
  if (length > rest.size()) {
    throw Error(fmt::format("{} claims a header of {} bytes but only {} follow; is it cut off?",
                            where, length, rest.size()));
  }
  const auto text = rest.first(length);
  const std::string_view header(reinterpret_cast<const char*>(text.data()), text.size());
  if (!header.starts_with('{')) {
    throw Error(
        fmt::format("the header of {} does not begin with '{{': it is no safetensors file", where));
  }
  return {header, rest.subspan(length)};
}

std::map<std::string, std::string> ReadMetadata(const json& value, const std::string& where) {
  if (!value.is_object()) {
    throw Error(fmt::format("{}: {} is {}; expected an object of texts", where, kMetadataKey,
                            DescribeJson(value)));
  }
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) {
      throw Error(fmt::format("{}: {} {} is {}; expected a text", where, kMetadataKey, Quoted(key),
                              DescribeJson(text)));
    }
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

// A list of integers that are not negative.
std::vector<int64_t> ReadSizes(OptionReader& reader, const char* name) {
  const json* value = reader.Find(name);
  if (value == nullptr) {
    throw Error(fmt::format("{}: the key \"{}\" is missing", reader.where(), name));
  }
  if (!value->is_array()) {
    throw Error(fmt::format("{}: \"{}\" is {}; expected a list of integers", reader.where(), name,
                            DescribeJson(*value)));
  }
  std::vector<int64_t> sizes;
  for (const json& element : *value) {
    constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (!element.is_number_unsigned() || element.get<uint64_t>() > kMost) {
      throw Error(fmt::format("{}: \"{}\" holds {}; expected an integer from 0 to {}",
                              reader.where(), name, DescribeJson(element), kMost));
    }
    sizes.push_back(static_cast<int64_t>(element.get<uint64_t>()));
  }
  return sizes;
}

// A tensor as the header describes it, held against the size of the data but not yet against its
// neighbours.
TensorEntry ReadEntry(const std::string& name, const json& value, std::span<const std::byte> data,
                      const std::string& where) {
  OptionReader reader(value, where);
  TensorEntry entry;
  entry.name = name;

  const std::string type = reader.Text("dtype", "");
  const std::optional<TensorType> known = TypeOfName(type);
  if (!known) {
    throw Error(fmt::format("{}: the dtype is {}; expected one of {}", where,
                            type.empty() ? "missing" : Quoted(type), AllTypeNames()));
  }
  entry.type = *known;
  entry.shape = ReadSizes(reader, "shape");
  const std::vector<int64_t> offsets = ReadSizes(reader, "data_offsets");
  reader.Done();

  if (offsets.size() != 2) {
    throw Error(fmt::format("{}: \"data_offsets\" is a list of {}; expected [begin, end]", where,
                            offsets.size()));
  }
  const auto [begin, end] = std::pair(offsets[0], offsets[1]);
  if (begin > end) {
    throw Error(
        fmt::format("{}: \"data_offsets\" [{}, {}] end before they begin", where, begin, end));
  }
  if (static_cast<uint64_t>(end) > data.size()) {
    throw Error(
        fmt::format("{}: the data ends at {} but the file holds {} bytes of data; is it cut "
                    "off?",
                    where, end, data.size()));
  }
  const std::optional<int64_t> bytes = BytesOfShape(entry.type, entry.shape);
  if (!bytes) {
    throw Error(
        fmt::format("{}: the shape {} is too large for any file", where, ShapeText(entry.shape)));
  }
  if (*bytes != end - begin) {
    throw Error(fmt::format(
        "{}: {} of shape {} takes {} bytes, but \"data_offsets\" [{}, {}] hold {}", where,
        Name(entry.type), ShapeText(entry.shape), *bytes, begin, end, end - begin));
  }
  entry.data = data.subspan(static_cast<size_t>(begin), static_cast<size_t>(*bytes));
  return entry;
}

// Sorts by place, and checks that the tensors tile the data.
void Arrange(std::vector<TensorEntry>& tensors, std::span<const std::byte> data,
             const std::string& where) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::tuple(a.data.data(), a.data.size(), std::string_view(a.name)) <
           std::tuple(b.data.data(), b.data.size(), std::string_view(b.name));
  });
  int64_t covered = 0;
  for (const TensorEntry& tensor : tensors) {
    const int64_t begin = tensor.data.data() - data.data();
    if (begin != covered) {
      throw Error(fmt::format("{}: tensor {} begins at {} but the one before ends at {}: {}", where,
                              Quoted(tensor.name), begin, covered,
                              begin < covered ? "they overlap" : "there is a hole between them"));
    }
    covered += static_cast<int64_t>(tensor.data.size());
  }
  const auto size = static_cast<int64_t>(data.size());
  if (covered != size) {
    throw Error(fmt::format("{} has {} bytes of data, but its tensors end at {}: {} trailing bytes",
                            where, size, covered, size - covered));
  }
}

}  // namespace

SafetensorsFile SafetensorsFile::Open(const std::string& path) {
  SafetensorsFile file{MappedFile(path)};
  const std::string where = fmt::format("\"{}\"", path);
  const Parts parts = Split(file.file_.bytes(), where);
  const json header = ParseJson(parts.header, "the header of " + where);
  file.tensors_.reserve(header.size());
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadataKey) {
      file.metadata_ = ReadMetadata(value, where);
    } else {
      const std::string tensor = fmt::format("{}: tensor {}", where, Quoted(name));
      file.tensors_.push_back(ReadEntry(name, value, parts.data, tensor));
    }
  }
  Arrange(file.tensors_, parts.data, where);
  for (size_t i = 0; i < file.tensors_.size(); ++i) file.index_[file.tensors_[i].name] = i;
  return file;
}

const TensorEntry* SafetensorsFile::Find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace cosformer
