#include "runtime/parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <new>
#include <random>
#include <set>
#include <string_view>

#include "formats/safetensors_types.h"
#include "kernels/checksum.h"
#include "kernels/hash.h"

namespace cosformer::runtime {
namespace {

constexpr size_t kLargePage = size_t{2} << 20;
constexpr size_t kLine = 64;
constexpr const char* kScales = ".scales";

size_t RoundUp(size_t size, size_t to) { return (size + to - 1) / to * to; }

size_t DataBytes(const Weights& w) { return static_cast<size_t>(w.data_bytes()); }
// In a file.
size_t FileBytes(const Weights& w) {
  return static_cast<size_t>(w.rows * WeightRowBytes(w.type, w.columns));
}
size_t ScaleBytes(const Weights& w) {
  return static_cast<size_t>(w.rows * WeightRowScales(w.type, w.columns)) * sizeof(float);
}

// Gives every matrix its place. Their types and sizes are known.
void Allocate(Parameters& parameters, std::span<const Slot> slots) {
  size_t bytes = 0;
  for (const Slot& slot : slots) {
    if (slot.matrix == nullptr) continue;
    bytes += RoundUp(DataBytes(*slot.matrix), kLine) + RoundUp(ScaleBytes(*slot.matrix), kLine);
  }
  auto memory = std::make_shared<WeightMemory>(bytes);
  std::byte* next = memory->data();
  for (const Slot& slot : slots) {
    if (slot.matrix == nullptr) continue;
    Weights& w = *slot.matrix;
    w.data = next;
    next += RoundUp(DataBytes(w), kLine);
    w.scales = reinterpret_cast<const float*>(next);
    next += RoundUp(ScaleBytes(w), kLine);
  }
  parameters.memory = std::move(memory);
}

// Of what was just allocated.
std::byte* Data(const Weights& w) {
  return const_cast<std::byte*>(static_cast<const std::byte*>(w.data));
}
float* Scales(const Weights& w) { return const_cast<float*>(w.scales); }

bool AllFinite(const float* from, size_t count) {
  uint32_t bad = 0;
  for (size_t i = 0; i < count; ++i) {
    bad |= static_cast<uint32_t>((std::bit_cast<uint32_t>(from[i]) & 0x7f800000u) == 0x7f800000u);
  }
  return bad == 0;
}

bool AllFinite(const uint16_t* from, size_t count) {
  uint16_t bad = 0;
  for (size_t i = 0; i < count; ++i) {
    bad = static_cast<uint16_t>(bad | ((from[i] & 0x7f80u) == 0x7f80u ? 1 : 0));
  }
  return bad == 0;
}

// Whether all numbers are finite; integers are.
bool AllFinite(const std::byte* data, size_t bytes, TensorType type) {
  switch (type) {
    case TensorType::kF32:
      return AllFinite(reinterpret_cast<const float*>(data), bytes / sizeof(float));
    case TensorType::kBF16:
      return AllFinite(reinterpret_cast<const uint16_t*>(data), bytes / sizeof(uint16_t));
    default:
      return true;
  }
}

// Copies a matrix to its place, on all threads, and tells whether all of its numbers are finite: of
// the copy, since the file need not be aligned. With `checksum` also takes that of the file's
// bytes.
bool CopyFinite(const TensorEntry& from, const Weights& w, uint64_t* checksum) {
  constexpr int64_t kRows = kChecksumRows;
  static_assert(kRows % kWeightPanel == 0);
  const int64_t row_bytes = WeightRowBytes(w.type, w.columns);
  std::vector<uint64_t> pieces(static_cast<size_t>((w.rows + kRows - 1) / kRows));
  int64_t bad = 0;
#pragma omp parallel for reduction(+ : bad) schedule(static) if (w.bytes() > (1 << 20))
  for (int64_t begin = 0; begin < w.rows; begin += kRows) {
    const int64_t end = std::min(begin + kRows, w.rows);
    const auto from_byte = static_cast<size_t>(begin * row_bytes);
    // Costs nothing: it fetches the rows in their order, and packing finds them in the cache. A
    // process with 168 MB of weights took 74 ms of CPU time to its first token so, and 82 without
    // (Zen 5, one thread, medians of 60).
    if (checksum != nullptr) {
      pieces[static_cast<size_t>(begin / kRows)] =
          Xxh64(from.data.subspan(from_byte, static_cast<size_t>((end - begin) * row_bytes)));
    }
    PackWeights(w, begin, end, from.data.data(), Data(w));
    // Panels lie one after the other, as rows do; the last one ends with the matrix.
    const size_t to_byte =
        end == w.rows ? DataBytes(w) : from_byte + static_cast<size_t>((end - begin) * row_bytes);
    if (!AllFinite(Data(w) + from_byte, to_byte - from_byte, from.type)) ++bad;
  }
  if (checksum != nullptr) *checksum = TensorChecksum(pieces);
  return bad == 0;
}

class Fingerprint {
 public:
  explicit Fingerprint(const ModelConfig& config) {
    const std::string json = ToJson(config).dump();
    hash_.Add(json);
  }
  // A sample from the beginning, the middle and the end.
  void Sample(const void* data, size_t size) {
    const std::string_view bytes(static_cast<const char*>(data), size);
    SampleBy(size, [&](size_t begin, size_t count) { hash_.Add(bytes.substr(begin, count)); });
  }
  // Of what a file has.
  void Sample(const Weights& w) {
    SampleBy(FileBytes(w), [&](size_t begin, size_t count) {
      std::string bytes(count, '\0');
      UnpackWeights(w, static_cast<int64_t>(begin), static_cast<int64_t>(begin + count),
                    bytes.data());
      hash_.Add(bytes);
    });
  }
  std::string Text() const { return fmt::format("{:016x}", hash_.value()); }

 private:
  template <class Add>
  void SampleBy(size_t size, const Add& add) {
    constexpr size_t kSample = 64;
    if (size <= 3 * kSample) return add(0, size);
    for (const size_t begin : {size_t{0}, size / 2, size - kSample}) add(begin, kSample);
  }

  Fnv1a hash_;
};

// What follows from the numbers.
void Finish(const ModelConfig& config, Parameters& parameters, std::span<const Slot> slots) {
  Fingerprint fingerprint(config);
  for (const Slot& slot : slots) {
    parameters.count += slot.rows * slot.columns;
    if (slot.matrix != nullptr) {
      parameters.bytes += slot.matrix->bytes();
      fingerprint.Sample(*slot.matrix);
    } else {
      parameters.bytes += static_cast<int64_t>(slot.vector->size() * sizeof(float));
      fingerprint.Sample(slot.vector->data(), slot.vector->size() * sizeof(float));
    }
  }
  parameters.fingerprint = fingerprint.Text();
}

// One file, tensor by tensor.
class Reader {
 public:
  Reader(const SafetensorsFile& file, const std::string& where,
         const Checksums* checksums = nullptr)
      : file_(file), where_(where), checksums_(checksums) {}

  const TensorEntry& Find(const std::string& name) {
    const TensorEntry* entry = file_.Find(name);
    if (entry == nullptr) {
      throw Error(
          fmt::format("{}: it has no tensor \"{}\", which the config asks for", where_, name));
    }
    used_.insert(name);
    return *entry;
  }

  void CheckShape(const TensorEntry& entry, const std::vector<int64_t>& expected) const {
    if (entry.shape == expected) return;
    throw Error(fmt::format("{}: \"{}\" has the shape {}; the config asks for {}", where_,
                            entry.name, ShapeText(entry.shape), ShapeText(expected)));
  }

  void CheckFloat32(const TensorEntry& entry) const {
    if (entry.type == TensorType::kF32) return;
    throw Error(fmt::format("{}: \"{}\" is of type {}; it must be F32", where_, entry.name,
                            cosformer::Name(entry.type)));
  }

  WeightType TypeOf(const TensorEntry& entry) const {
    switch (entry.type) {
      case TensorType::kF32:
        return WeightType::kFloat32;
      case TensorType::kBF16:
        return WeightType::kBFloat16;
      case TensorType::kI8:
        return WeightType::kInt8;
      case TensorType::kU8:
        return WeightType::kInt4;
      default:
        throw Error(
            fmt::format("{}: \"{}\" is of type {}; weights are F32, BF16, I8 (int8) or U8 (int4)",
                        where_, entry.name, cosformer::Name(entry.type)));
    }
  }

  void Copy(const TensorEntry& entry, float* to) const {
    if (checksums_ != nullptr) checksums_->Check(entry, where_);
    std::memcpy(to, entry.data.data(), entry.data.size());
    CheckFinite(entry, AllFinite(to, entry.data.size() / sizeof(float)));
  }
  void Copy(const TensorEntry& entry, const Weights& w) const {
    uint64_t checksum = 0;
    const bool finite = CopyFinite(entry, w, checksums_ != nullptr ? &checksum : nullptr);
    if (checksums_ != nullptr) checksums_->Check(entry, checksum, where_);
    CheckFinite(entry, finite);
  }

  void CheckFinite(const TensorEntry& entry, bool finite) const {
    if (finite) return;
    throw Error(
        fmt::format("{}: \"{}\" holds numbers that are infinite or NaN; the training that "
                    "made it had diverged, or the file is damaged",
                    where_, entry.name));
  }

  void CheckScales(const TensorEntry& entry, const Weights& w) const {
    // A group's sum in integers, before the scale of what it is multiplied with comes in, is below
    // 2^28; a part of a row has 16 of them.
    for (const float scale : std::span(w.scales, ScaleBytes(w) / sizeof(float))) {
      if (std::isfinite(scale * 0x1p32f)) continue;
      throw Error(fmt::format(
          "{}: \"{}\" holds the scale {}, which makes products infinite; the file is damaged",
          where_, entry.name, scale));
    }
  }

  void CheckAllUsed() const {
    for (const TensorEntry& entry : file_.tensors()) {
      if (used_.contains(entry.name)) continue;
      throw Error(fmt::format("{}: it has a tensor \"{}\", which the config knows nothing of",
                              where_, entry.name));
    }
  }

 private:
  const SafetensorsFile& file_;
  const std::string& where_;
  const Checksums* checksums_;
  std::set<std::string> used_;
};

// Of a layer that is not linear attention, those of one without parameters of its own.
FeatureOptions OptionsOf(const ModelConfig& config, size_t layer) {
  const SystemConfig& system = config.attention[layer];
  const FeatureSystem* feature = FindFeatureSystem(system.system);
  if (feature == nullptr) return {};
  OptionReader options(system.options, "attention " + system.system);
  return ReadFeatureOptions(*feature, config.max_length, options);
}

}  // namespace

WeightMemory::WeightMemory(size_t bytes) : size_(RoundUp(std::max<size_t>(bytes, 1), kLargePage)) {
  data_ = static_cast<std::byte*>(::operator new(size_, std::align_val_t(kLargePage)));
  // Where the system does not do it, it is slower and no less right.
  (void)madvise(data_, size_, MADV_HUGEPAGE);
}

WeightMemory::~WeightMemory() { ::operator delete(data_, std::align_val_t(kLargePage)); }

std::vector<Slot> SlotsOf(const ModelConfig& config, Parameters& parameters) {
  std::vector<Slot> slots;
  const auto matrix = [&](const std::string& name, Weights& to, int64_t rows, int64_t columns,
                          bool convertible) {
    to.rows = rows;
    to.columns = columns;
    slots.push_back({name, &to, nullptr, rows, columns, convertible});
  };
  const auto vector = [&](const std::string& name, Vector& to, int64_t size) {
    slots.push_back({name, nullptr, &to, 1, size, false});
  };
  const auto norm = [&](const std::string& name, NormParameters& to) {
    vector(name + ".weight", to.weight, config.width);
    if (config.norm == NormKind::kLayerNorm && config.bias) {
      vector(name + ".bias", to.bias, config.width);
    }
  };
  const int64_t width = config.width;
  if (config.input == InputKind::kTokens) {
    matrix("embeddings.tokens", parameters.tokens, config.vocabulary, width, true);
  } else {
    const int64_t patch = config.input == InputKind::kPatches ? config.image.patch : 1;
    matrix("embeddings.pixel_weight", parameters.pixels, width,
           config.image.channels * patch * patch, false);
    vector("embeddings.pixel_bias", parameters.pixel_bias, width);
  }
  if (config.positions.kind == PositionKind::kLearned) {
    matrix("embeddings.positions", parameters.positions, config.max_length, width, false);
  }

  const std::string stack = config.kind == ModelKind::kDecoder ? "decoder" : "encoder";
  const int64_t all = config.heads * config.head_dim;
  const int64_t kv = config.kv_heads * config.head_dim;
  const int64_t pre = PreWidth(config.activation, config.hidden);
  parameters.layers.resize(static_cast<size_t>(config.layers));
  for (size_t i = 0; i < parameters.layers.size(); ++i) {
    LayerParameters& layer = parameters.layers[i];
    const std::string name = fmt::format("{}.layers.{}.", stack, i);
    norm(name + "attention_norm", layer.attention_norm);
    matrix(name + "attention.in_weight", layer.in, all + 2 * kv, width, true);
    matrix(name + "attention.out_weight", layer.out, width, all, true);
    const FeatureOptions options = OptionsOf(config, i);
    if (options.norm) vector(name + "attention.system.gain", layer.gain, all);
    if (options.gate) {
      matrix(name + "attention.system.gate_weight", layer.gate, config.kv_heads, width, false);
      vector(name + "attention.system.gate_bias", layer.gate_bias, config.kv_heads);
    }
    norm(name + "feed_forward_norm", layer.feed_forward_norm);
    matrix(name + "feed_forward.in_weight", layer.hidden, pre, width, true);
    matrix(name + "feed_forward.out_weight", layer.back, width, config.hidden, true);
    if (config.bias) {
      vector(name + "attention.in_bias", layer.in_bias, all + 2 * kv);
      vector(name + "attention.out_bias", layer.out_bias, width);
      vector(name + "feed_forward.in_bias", layer.hidden_bias, pre);
      vector(name + "feed_forward.out_bias", layer.back_bias, width);
    }
  }
  if (config.norm_place == NormPlace::kPre) norm(stack + ".norm", parameters.norm);

  if (config.classes > 0) {
    if (config.kind == ModelKind::kTwoTower) {
      matrix("mix_weight", parameters.mix, width, 4 * width, false);
      vector("mix_bias", parameters.mix_bias, width);
    }
    matrix("classes_weight", parameters.classes, config.classes, width, false);
    vector("classes_bias", parameters.classes_bias, config.classes);
    return slots;
  }
  if (!config.tied_embeddings) {
    matrix("output_weight", parameters.output, config.vocabulary, width, true);
  }
  if (config.bias) vector("output_bias", parameters.output_bias, config.vocabulary);
  return slots;
}

// In the file, of a vector: a gain is stored a head.
static std::vector<int64_t> ShapeOf(const ModelConfig& config, const Slot& slot) {
  if (slot.name.ends_with(".gain")) return {config.heads, config.head_dim};
  return {slot.columns};
}

// The slots with the types that the file has for them: everything is checked before memory is asked
// for.
static std::vector<Slot> CheckedSlots(const ModelConfig& config, Reader& reader,
                                      Parameters& parameters) {
  std::vector<Slot> slots = SlotsOf(config, parameters);
  for (const Slot& slot : slots) {
    const TensorEntry& entry = reader.Find(slot.name);
    if (!slot.convertible) reader.CheckFloat32(entry);
    if (slot.vector != nullptr) {
      reader.CheckShape(entry, ShapeOf(config, slot));
      continue;
    }
    Weights& w = *slot.matrix;
    w.type = reader.TypeOf(entry);
    if (WeightGroup(w.type) == 1) {
      reader.CheckShape(entry, {w.rows, w.columns});
      continue;
    }
    reader.CheckShape(entry, {w.rows, WeightRowBytes(w.type, w.columns)});
    const TensorEntry& scales = reader.Find(slot.name + kScales);
    reader.CheckFloat32(scales);
    reader.CheckShape(scales, {w.rows, WeightRowScales(w.type, w.columns)});
  }
  reader.CheckAllUsed();
  return slots;
}

ParametersInfo DescribeParameters(const ModelConfig& config, const SafetensorsFile& file,
                                  const std::string& where) {
  Parameters parameters;
  Reader reader(file, where);
  const std::vector<Slot> slots = CheckedSlots(config, reader, parameters);
  Fingerprint fingerprint(config);
  ParametersInfo info;
  info.type = TypeOf(parameters);
  for (const Slot& slot : slots) {
    const std::span<const std::byte> data = reader.Find(slot.name).data;
    info.count += slot.rows * slot.columns;
    info.bytes += slot.matrix != nullptr ? slot.matrix->bytes() : static_cast<int64_t>(data.size());
    fingerprint.Sample(data.data(), data.size());
  }
  info.fingerprint = fingerprint.Text();
  return info;
}

Parameters ReadParameters(const ModelConfig& config, const SafetensorsFile& file,
                          const std::string& where, const Checksums* checksums) {
  Parameters parameters;
  Reader reader(file, where, checksums);
  const std::vector<Slot> slots = CheckedSlots(config, reader, parameters);
  Allocate(parameters, slots);
  for (const Slot& slot : slots) {
    const TensorEntry& entry = reader.Find(slot.name);
    if (slot.vector != nullptr) {
      slot.vector->resize(static_cast<size_t>(slot.columns));
      reader.Copy(entry, slot.vector->data());
      continue;
    }
    reader.Copy(entry, *slot.matrix);
    if (ScaleBytes(*slot.matrix) > 0) {
      const TensorEntry& scales = reader.Find(slot.name + kScales);
      reader.Copy(scales, Scales(*slot.matrix));
      reader.CheckScales(scales, *slot.matrix);
    }
  }
  Finish(config, parameters, slots);
  return parameters;
}

Parameters RandomParameters(const ModelConfig& config, WeightType type, uint64_t seed) {
  Parameters parameters;
  const std::vector<Slot> slots = SlotsOf(config, parameters);
  for (const Slot& slot : slots) {
    if (slot.convertible) slot.matrix->type = type;
  }
  Allocate(parameters, slots);
  for (size_t i = 0; i < slots.size(); ++i) {
    const Slot& slot = slots[i];
    if (slot.vector != nullptr) {
      const bool scale = slot.name.ends_with(".weight") || slot.name.ends_with(".gain");
      slot.vector->assign(static_cast<size_t>(slot.columns), scale ? 1.0f : 0.0f);
      continue;
    }
    const Weights& w = *slot.matrix;
    const float deviation = 1 / std::sqrt(static_cast<float>(w.columns));
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < w.rows; ++row) {
      std::mt19937 random(static_cast<uint32_t>(seed + 1000003 * i + static_cast<uint64_t>(row)));
      // Uniform, with that deviation: fast, and no product tells the difference.
      std::uniform_real_distribution<float> uniform(-deviation * 1.7320508f,
                                                    deviation * 1.7320508f);
      std::vector<float> numbers(static_cast<size_t>(w.columns));
      for (float& x : numbers) x = uniform(random);
      WriteWeights(w, row, numbers.data(), Data(w), Scales(w));
    }
  }
  Finish(config, parameters, slots);
  return parameters;
}

Parameters Converted(const ModelConfig& config, const Parameters& from, WeightType type) {
  Parameters source = from;  // the vectors; the matrices stay where they are
  const std::vector<Slot> from_slots = SlotsOf(config, source);
  Parameters parameters;
  const std::vector<Slot> slots = SlotsOf(config, parameters);
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].matrix == nullptr) continue;
    slots[i].matrix->type = slots[i].convertible ? type : from_slots[i].matrix->type;
  }
  Allocate(parameters, slots);
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].vector != nullptr) {
      *slots[i].vector = *from_slots[i].vector;
      continue;
    }
    const Weights& w = *slots[i].matrix;
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < w.rows; ++row) {
      std::vector<float> numbers(static_cast<size_t>(w.columns));
      ReadWeights(*from_slots[i].matrix, row, numbers.data());
      WriteWeights(w, row, numbers.data(), Data(w), Scales(w));
    }
  }
  Finish(config, parameters, slots);
  return parameters;
}

// Hands over the tensors and the metadata of a file with these weights.
template <class Write>
static void WithTensors(const ModelConfig& config, const Parameters& parameters,
                        const Write& write) {
  Parameters source = parameters;
  std::vector<TensorEntry> entries;
  std::vector<std::vector<std::byte>> unpacked;
  for (const Slot& slot : SlotsOf(config, source)) {
    if (slot.vector != nullptr) {
      entries.push_back({slot.name, TensorType::kF32, ShapeOf(config, slot),
                         std::as_bytes(std::span(*slot.vector))});
      continue;
    }
    const Weights& w = *slot.matrix;
    std::span<const std::byte> data(static_cast<const std::byte*>(w.data), DataBytes(w));
    if (WeightGroup(w.type) == 1) {
      std::vector<std::byte>& rows = unpacked.emplace_back(FileBytes(w));
      UnpackWeights(w, 0, static_cast<int64_t>(rows.size()), rows.data());
      data = rows;
    }
    switch (w.type) {
      case WeightType::kFloat32:
        entries.push_back({slot.name, TensorType::kF32, {w.rows, w.columns}, data});
        break;
      case WeightType::kBFloat16:
        entries.push_back({slot.name, TensorType::kBF16, {w.rows, w.columns}, data});
        break;
      case WeightType::kInt8:
      case WeightType::kInt4:
        entries.push_back({slot.name,
                           w.type == WeightType::kInt8 ? TensorType::kI8 : TensorType::kU8,
                           {w.rows, WeightRowBytes(w.type, w.columns)},
                           data});
        entries.push_back({slot.name + kScales,
                           TensorType::kF32,
                           {w.rows, WeightRowScales(w.type, w.columns)},
                           std::span(reinterpret_cast<const std::byte*>(w.scales), ScaleBytes(w))});
        break;
    }
  }
  const std::map<std::string, std::string> metadata = {
      {"weights", std::string(Name(TypeOf(parameters)))}};
  write(entries, metadata);
}

void SaveParameters(const ModelConfig& config, const Parameters& parameters,
                    const std::string& directory) {
  WithTensors(config, parameters, [&](const auto& tensors, const auto& metadata) {
    WriteModelWeights(directory, tensors, metadata);
  });
}

void WriteParameters(const ModelConfig& config, const Parameters& parameters,
                     const std::string& path) {
  WithTensors(config, parameters, [&](const auto& tensors, const auto& metadata) {
    WriteSafetensors(path, tensors, metadata);
  });
}

std::string_view Name(WeightType type) {
  switch (type) {
    case WeightType::kFloat32:
      return "float32";
    case WeightType::kBFloat16:
      return "bfloat16";
    case WeightType::kInt8:
      return "int8";
    case WeightType::kInt4:
      return "int4";
  }
  return "";
}

WeightType TypeOf(const Parameters& parameters) { return parameters.layers.front().in.type; }

}  // namespace cosformer::runtime
