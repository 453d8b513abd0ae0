// Writing: the header is laid out first, then it and the caller's bytes go out in one pass.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <utility>

#include "cosformer/error.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "formats/safetensors_types.h"
#include "report/files.h"

namespace cosformer {
namespace {

using nlohmann::json;

constexpr size_t kAlignment = 8;  // of the widest element

// A string as JSON; throws where it is not UTF-8.
std::string Quoted(const std::string& text, const std::string& where) {
  try {
    return json(text).dump();
  } catch (const json::exception&) {
    throw Error(fmt::format("{}: the text {} is not UTF-8, which names and metadata have to be",
                            where, JsonText(json(text))));
  }
}

void CheckEntry(const TensorEntry& tensor, const std::string& quoted_name,
                const std::string& where) {
  if (tensor.name == kMetadataKey) {
    throw Error(
        fmt::format("{}: no tensor can have the name {}; give it another", where, quoted_name));
  }
  if (std::any_of(tensor.shape.begin(), tensor.shape.end(), [](int64_t dim) { return dim < 0; })) {
    throw Error(fmt::format("{}: tensor {} has the shape {}, which is negative", where, quoted_name,
                            ShapeText(tensor.shape)));
  }
  const std::optional<int64_t> bytes = BytesOfShape(tensor.type, tensor.shape);
  if (!bytes || static_cast<uint64_t>(*bytes) != tensor.data.size()) {
    throw Error(fmt::format("{}: tensor {} has {} bytes of data; {} of shape {} takes {}", where,
                            quoted_name, tensor.data.size(), Name(tensor.type),
                            ShapeText(tensor.shape),
                            bytes ? fmt::to_string(*bytes) : "more than any file holds"));
  }
}

// Wide elements first: as the header's length is a multiple of 8 and every tensor's one of its own
// element, all are aligned without the holes that the format forbids.
std::vector<const TensorEntry*> InFileOrder(std::span<const TensorEntry> tensors) {
  std::vector<const TensorEntry*> order;
  for (const TensorEntry& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const TensorEntry* a, const TensorEntry* b) {
    return std::tuple(-ByteSize(a->type), std::string_view(a->name)) <
           std::tuple(-ByteSize(b->type), std::string_view(b->name));
  });
  return order;
}

void CheckUnique(std::span<const TensorEntry> tensors, const std::string& where) {
  std::vector<std::string_view> names;
  for (const TensorEntry& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) {
    throw Error(fmt::format("{}: two tensors have the name {}; give them different ones", where,
                            Quoted(std::string(*twice), where)));
  }
}

// The length and the JSON behind it.
std::string Header(std::span<const TensorEntry* const> order,
                   const std::map<std::string, std::string>& metadata, const std::string& where) {
  std::vector<std::string> members;
  if (!metadata.empty()) {
    std::vector<std::string> texts;
    for (const auto& [key, value] : metadata) {
      texts.push_back(fmt::format("{}:{}", Quoted(key, where), Quoted(value, where)));
    }
    members.push_back(fmt::format("\"{}\":{{{}}}", kMetadataKey, fmt::join(texts, ",")));
  }
  size_t offset = 0;
  for (const TensorEntry* tensor : order) {
    const std::string name = Quoted(tensor->name, where);
    CheckEntry(*tensor, name, where);
    const size_t end = offset + tensor->data.size();
    members.push_back(fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                                  name, Name(tensor->type), fmt::join(tensor->shape, ","), offset,
                                  end));
    offset = end;
  }
  std::string text = fmt::format("{{{}}}", fmt::join(members, ","));
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  if (text.size() > kMaxHeaderBytes) {
    throw Error(fmt::format("{}: the names and metadata take {} bytes; the format allows {}", where,
                            text.size(), kMaxHeaderBytes));
  }
  std::string header(sizeof(uint64_t), '\0');
  for (size_t i = 0; i < header.size(); ++i) {
    header[i] = static_cast<char>(static_cast<uint64_t>(text.size()) >> (8 * i) & 0xff);
  }
  return header + text;
}

// Hands over the parts of the file, in their order.
template <class Write>
void LayOut(const std::string& path, std::span<const TensorEntry> tensors,
            const std::map<std::string, std::string>& metadata, const Write& write) {
  const std::string where = fmt::format("cannot write \"{}\"", path);
  CheckUnique(tensors, where);
  const std::vector<const TensorEntry*> order = InFileOrder(tensors);
  const std::string header = Header(order, metadata, where);
  std::vector<std::string_view> parts = {header};
  for (const TensorEntry* tensor : order) {
    parts.emplace_back(reinterpret_cast<const char*>(tensor->data.data()), tensor->data.size());
  }
  write(parts);
}

}  // namespace

void WriteSafetensors(const std::string& path, std::span<const TensorEntry> tensors,
                      const std::map<std::string, std::string>& metadata) {
  LayOut(path, tensors, metadata,
         [&](std::span<const std::string_view> parts) { report::WriteFile(path, parts); });
}

report::FileWriter StageSafetensors(const std::string& path, std::span<const TensorEntry> tensors,
                                    const std::map<std::string, std::string>& metadata) {
  std::optional<report::FileWriter> writer;
  LayOut(path, tensors, metadata, [&](std::span<const std::string_view> parts) {
    writer.emplace(path);
    for (const std::string_view part : parts) writer->Write(part);
  });
  return std::move(*writer);
}

}  // namespace cosformer
