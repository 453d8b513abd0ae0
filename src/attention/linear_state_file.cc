// LinearState as bytes:
//
//   8 bytes  "CSFSTATE"          u32  version
//   the fields of Header, in order, each little-endian
//   f32[]    both spans, without padding: per batch entry and head, the rows of each part, then the
//            feature sums of each part
//   u32      CRC-32 of all that precedes
//
// A header of hostile sizes costs no more memory than the stream has bytes.

#include <zlib.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <istream>
#include <limits>
#include <ostream>

#include "attention/checks.h"
#include "attention/linear_kernels.h"
#include "cosformer/attention.h"

namespace cosformer {
namespace {

static_assert(std::endian::native == std::endian::little, "state files are little-endian");

constexpr char kMagic[8] = {'C', 'S', 'F', 'S', 'T', 'A', 'T', 'E'};
// 1 had no normaliser: it was always the sum. What forgets nothing is still written as 2, which
// earlier programs read.
constexpr uint32_t kVersion = 3;

// Larger sizes are no state of a model, and their products would overflow.
constexpr int64_t kMaxSize = int64_t{1} << 20;
constexpr int64_t kMaxPosition = int64_t{1} << 60;

uint32_t Crc(uint32_t crc, const void* data, size_t size) {
  const auto* bytes = static_cast<const Bytef*>(data);
  while (size > 0) {
    const size_t part = std::min<size_t>(size, 1u << 30);
    crc = static_cast<uint32_t>(crc32(crc, bytes, static_cast<uInt>(part)));
    bytes += part;
    size -= part;
  }
  return crc;
}

class Writer {
 public:
  explicit Writer(std::ostream& out) : out_(out) {}
  void Bytes(const void* data, size_t size) {
    crc_ = Crc(crc_, data, size);
    out_.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
    if (!out_) Fail("state: the stream could not be written (is the disk full?)");
  }
  template <class T>
  void operator()(T value, const char* /*name*/) {
    Bytes(&value, sizeof(value));
  }
  uint32_t crc() const { return crc_; }

 private:
  std::ostream& out_;
  uint32_t crc_ = 0;
};

class Reader {
 public:
  explicit Reader(std::istream& in) : in_(in) {}
  void Bytes(void* data, size_t size, const char* name) {
    in_.read(static_cast<char*>(data), static_cast<std::streamsize>(size));
    if (!in_) {
      Fail("state: the file is truncated: it ends ", in_.gcount(), " bytes into ", name,
           ", which has ", size);
    }
    crc_ = Crc(crc_, data, size);
  }
  template <class T>
  void operator()(T& value, const char* name) {
    Bytes(&value, sizeof(value), name);
  }
  uint32_t crc() const { return crc_; }

 private:
  std::istream& in_;
  uint32_t crc_ = 0;
};

// Everything but the numbers, in the order of the file.
struct Header {
  LinearStateConfig config;
  uint8_t feature_map = 0;
  uint8_t reweighting = 0;
  uint8_t normaliser = 0;
  uint8_t endless = 0;
  uint8_t forgets = 0;
  uint8_t has_first = 0;
  int64_t position = 0;
  int64_t first_begin = 0;
  int64_t second_begin = 0;

  template <class Self, class Visit>
  static void ForEach(Self& self, uint32_t version, Visit& visit) {
    visit(self.config.batch, "batch");
    visit(self.config.heads, "heads");
    visit(self.config.dim, "dim");
    visit(self.config.value_dim, "value_dim");
    visit(self.feature_map, "feature_map");
    visit(self.reweighting, "reweighting");
    if (version >= 2) visit(self.normaliser, "normaliser");
    visit(self.endless, "endless");
    if (version >= 3) visit(self.forgets, "forgets");
    visit(self.has_first, "has_first");
    visit(self.config.kernel.leaky_slope, "leaky_slope");
    visit(self.config.kernel.epsilon, "epsilon");
    visit(self.config.kernel.horizon, "horizon");
    visit(self.position, "position");
    visit(self.first_begin, "first_begin");
    visit(self.second_begin, "second_begin");
  }
};

void CheckRange(const char* field, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high) {
    Fail("state: the file's ", field, " is ", value, ", which is not between ", low, " and ", high);
  }
}

// What no state can be, before any memory is set aside for it.
void CheckHeader(Header& header) {
  LinearStateConfig& config = header.config;
  CheckRange("batch", config.batch, 1, kMaxSize);
  CheckRange("heads", config.heads, 1, kMaxSize);
  CheckRange("dim", config.dim, 1, kMaxSize);
  CheckRange("value_dim", config.value_dim, 1, kMaxSize);
  CheckRange("batch * heads", config.batch * config.heads, 1, kMaxSize);
  CheckRange("dim * value_dim", config.dim * config.value_dim, 1, kMaxSize * 64);
  CheckRange("feature_map", header.feature_map, 0, static_cast<int64_t>(FeatureMap::kGiven));
  CheckRange("reweighting", header.reweighting, 0, static_cast<int64_t>(Reweighting::kNone));
  CheckRange("normaliser", header.normaliser, 0, static_cast<int64_t>(Normaliser::kNone));
  CheckRange("endless", header.endless, 0, 1);
  CheckRange("forgets", header.forgets, 0, 1);
  CheckRange("has_first", header.has_first, header.endless,
             header.forgets != 0 ? header.endless : 1);
  CheckRange("position", header.position, 0, kMaxPosition);
  config.kernel.feature_map = static_cast<FeatureMap>(header.feature_map);
  config.kernel.reweighting = static_cast<Reweighting>(header.reweighting);
  config.kernel.normaliser = static_cast<Normaliser>(header.normaliser);
  config.endless = header.endless != 0;
  config.forgets = header.forgets != 0;
  CheckKernel(config.kernel);
  if (config.endless) {
    CheckRange("horizon", config.kernel.horizon, 2, std::numeric_limits<int64_t>::max());
    const int64_t half = config.kernel.horizon / 2;
    CheckRange("first_begin", header.first_begin, 0, header.position);
    // What began anywhere else could lie so far out that the sums below overflow.
    if (header.first_begin % half != 0) {
      Fail("state: the file's first_begin is ", header.first_begin, ", which is no multiple of ",
           half, ", half its horizon");
    }
    CheckRange("second_begin", header.second_begin, header.first_begin + half,
               header.first_begin + half);
    CheckRange("position", header.position, header.first_begin, header.second_begin + half);
  } else {
    CheckRange("first_begin", header.first_begin, 0, 0);
    CheckRange("second_begin", header.second_begin, 0, header.position);
    if (config.kernel.reweighting == Reweighting::kCos) {
      CheckRange("position", header.position, 0, config.kernel.horizon);
    }
  }
}

// The numbers of a span in file order, a row at a time.
template <class Floats, class Row>
void ForEachRow(const LinearStateConfig& config, Floats& span, const Row& row) {
  const StateLayout layout(config.dim, config.value_dim,
                           config.kernel.reweighting == Reweighting::kCos);
  for (int64_t n = 0; n < config.batch * config.heads; ++n) {
    auto* state = span.data() + n * layout.Size();
    for (int64_t p = 0; p < layout.parts; ++p) {
      for (int64_t f = 0; f < layout.features; ++f) {
        row(state + (p * layout.part_rows + f) * layout.row, layout.values);
      }
    }
    for (int64_t p = 0; p < layout.parts; ++p) {
      row(state + layout.Matrix() + p * layout.sums, layout.features);
    }
  }
}

}  // namespace

void LinearState::Save(std::ostream& out) const {
  Writer write(out);
  write.Bytes(kMagic, sizeof(kMagic));
  const uint32_t version = config_.forgets ? kVersion : 2;
  write(version, "version");
  Header header;
  header.config = config_;
  header.feature_map = static_cast<uint8_t>(config_.kernel.feature_map);
  header.reweighting = static_cast<uint8_t>(config_.kernel.reweighting);
  header.normaliser = static_cast<uint8_t>(config_.kernel.normaliser);
  header.endless = config_.endless ? 1 : 0;
  header.forgets = config_.forgets ? 1 : 0;
  header.has_first = first_.empty() ? 0 : 1;
  header.position = position_;
  header.first_begin = first_begin_;
  header.second_begin = second_begin_;
  Header::ForEach(header, version, write);
  for (const AlignedFloats* span : {&first_, &second_}) {
    if (span->empty()) continue;
    ForEachRow(config_, *span, [&](const float* row, int64_t count) {
      write.Bytes(row, static_cast<size_t>(count) * sizeof(float));
    });
  }
  const uint32_t crc = write.crc();
  write(crc, "checksum");
}

LinearState LinearState::Load(std::istream& in) {
  Reader read(in);
  char magic[sizeof(kMagic)];
  read.Bytes(magic, sizeof(magic), "magic");
  if (std::memcmp(magic, kMagic, sizeof(magic)) != 0) {
    Fail("state: this is not a state file: it does not begin with \"CSFSTATE\"");
  }
  uint32_t version = 0;
  read(version, "version");
  if (version < 1 || version > kVersion) {
    Fail("state: the file has version ", version, "; this program reads versions up to ", kVersion);
  }
  Header header;
  Header::ForEach(header, version, read);
  CheckHeader(header);

  // The whole payload first: memory grows with what the stream really holds.
  const LinearStateConfig& config = header.config;
  const int64_t parts = config.kernel.reweighting == Reweighting::kCos ? 2 : 1;
  int64_t left = (1 + header.has_first) * config.batch * config.heads * parts * config.dim *
                 (config.value_dim + 1);
  std::vector<float> numbers;
  while (left > 0) {
    const size_t part = static_cast<size_t>(std::min<int64_t>(left, 1 << 18));
    const size_t had = numbers.size();
    numbers.resize(had + part);
    read.Bytes(numbers.data() + had, part * sizeof(float), "the numbers");
    left -= static_cast<int64_t>(part);
  }
  const uint32_t crc = read.crc();
  uint32_t stored = 0;
  read(stored, "checksum");
  if (stored != crc) {
    Fail("state: the file is damaged: its checksum is ", stored, ", but its content gives ", crc);
  }

  LinearState state(config);
  state.position_ = header.position;
  state.first_begin_ = header.first_begin;
  state.second_begin_ = header.second_begin;
  state.first_.assign(header.has_first != 0 ? state.second_.size() : 0, 0.0f);
  const float* next = numbers.data();
  for (AlignedFloats* span : {&state.first_, &state.second_}) {
    if (span->empty()) continue;
    ForEachRow(config, *span, [&](float* row, int64_t count) {
      std::memcpy(row, next, static_cast<size_t>(count) * sizeof(float));
      next += count;
    });
  }
  return state;
}

LinearState LinearState::Load(std::istream& in, const LinearStateConfig& expected) {
  LinearState state = Load(in);
  CheckSameConfig(expected, state.config_, "the file's state");
  return state;
}

}  // namespace cosformer
