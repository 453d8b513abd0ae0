// A session as bytes: a header that names the model, the text's position and hash, each layer's
// state, the latest tokens, and a checksum of all. Little-endian. docs/formats.md describes it.
#include "runtime/session_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <istream>
#include <iterator>
#include <sstream>
#include <streambuf>

#include "cosformer/runtime.h"
#include "formats/mapped_file.h"
#include "formats/tokenizer.h"
#include "report/files.h"
#include "runtime/session_impl.h"

namespace cosformer::runtime {
namespace {

static_assert(std::endian::native == std::endian::little, "files are written as memory is");

constexpr std::array<char, 8> kMagic = {'C', 'S', 'F', 'S', 'E', 'S', 'S', 'N'};
constexpr uint32_t kVersion = 2;
constexpr uint32_t kVersionWithoutTokens = 1;  // of sessions that remember none

struct Header {
  std::array<char, 8> magic = kMagic;
  uint32_t version = kVersion;
  uint32_t layers = 0;
  std::array<char, 16> model = {};      // its fingerprint
  std::array<char, 16> tokenizer = {};  // likewise; zeros: none
  int64_t position = 0;
  uint64_t hash_low = 0;
  uint64_t hash_high = 0;
  int64_t width = 0;  // numbers in `last`: 0 before anything was fed
};
static_assert(sizeof(Header) == 80);

void Copy(const std::string& from, std::array<char, 16>& to) {
  std::memcpy(to.data(), from.data(), std::min(from.size(), to.size()));
}

Header HeaderOf(const Model& model, const TextState& text, const PrefixHash& hash) {
  Header header;
  header.layers = static_cast<uint32_t>(text.layers.size());
  Copy(model.network().parameters().fingerprint, header.model);
  if (model.tokenizer() != nullptr) Copy(model.tokenizer()->Fingerprint(), header.tokenizer);
  header.position = text.position;
  header.hash_low = hash.low();
  header.hash_high = hash.high();
  header.width = static_cast<int64_t>(text.last.size());
  return header;
}

uint32_t Checksum(std::string_view bytes) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

std::string_view TextOf(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

// Bytes in memory as a stream.
class MemoryStream : private std::streambuf, public std::istream {
 public:
  explicit MemoryStream(std::string_view bytes) : std::istream(static_cast<std::streambuf*>(this)) {
    char* begin = const_cast<char*>(bytes.data());  // a get area is never written to
    setg(begin, begin, begin + bytes.size());
  }
};

void Require(bool holds, const std::string& where, const std::string& what) {
  if (!holds) throw Error(fmt::format("{}: {}", where, what));
}

// A header of a kind and version that can be read.
Header ReadHeader(std::string_view bytes, const std::string& where) {
  Header header;
  constexpr size_t kLeast = sizeof(header) + sizeof(uint32_t);
  Require(bytes.size() >= kLeast, where,
          fmt::format("this is no session, or it is cut off: it has {} bytes, and the smallest has "
                      "{}",
                      bytes.size(), kLeast));
  std::memcpy(&header, bytes.data(), sizeof(header));
  Require(header.magic == kMagic, where, "this is no session: it does not begin with \"CSFSESSN\"");
  Require(header.version >= 1, where, "the session has version 0, which there is not");
  Require(header.version <= kVersion, where,
          fmt::format("the session has version {}; this program reads versions up to {}: update "
                      "cosformer",
                      header.version, kVersion));
  return header;
}

// What the checksum at the end is of.
std::string_view CheckedContent(std::string_view bytes, const std::string& where) {
  const std::string_view content = bytes.substr(0, bytes.size() - sizeof(uint32_t));
  uint32_t checksum = 0;
  std::memcpy(&checksum, bytes.data() + content.size(), sizeof(checksum));
  Require(checksum == Checksum(content), where,
          "the session is damaged or cut off: its checksum does not fit; copy the file again, or "
          "begin another session");
  return content;
}

bool IsFingerprint(const std::array<char, 16>& field) {
  return std::all_of(field.begin(), field.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// What holds for the sessions of any model. The checksum is right: what is not so was made so.
void CheckFields(const Header& header, const std::string& where) {
  const auto require = [&](bool holds, const std::string& what) { Require(holds, where, what); };
  require(IsFingerprint(header.model),
          "the session's fingerprint of its model is not of 16 hexadecimal digits");
  require(header.tokenizer == std::array<char, 16>{} || IsFingerprint(header.tokenizer),
          "the session's fingerprint of its tokenizer is not of 16 hexadecimal digits");
  require(
      header.position >= 0,
      fmt::format("the session's position is {}, which is no number of tokens", header.position));
  require(header.width >= 0 && (header.position > 0) == (header.width > 0),
          fmt::format("the session's position is {} and its width {}; one is 0 where the other is",
                      header.position, header.width));
}

void CheckHeader(const Header& header, const Model& model, const std::string& where) {
  const auto require = [&](bool holds, const std::string& what) { Require(holds, where, what); };
  const Network& network = model.network();
  const Header expected = HeaderOf(model, {}, {});
  require(header.tokenizer == expected.tokenizer,
          "the session was made with another tokenizer than this model's; give the model that it "
          "was made with");
  require(header.model == expected.model,
          "the session was made with another model than this one; give the model that it was made "
          "with");
  require(header.layers == network.attention().size(),
          fmt::format("the session has {} layers, the model {}", header.layers,
                      network.attention().size()));
  require(header.width == 0 || header.width == network.config().width,
          fmt::format("the session has the width {}, the model {}", header.width,
                      network.config().width));
  const std::optional<int64_t> limit = network.Limit();
  require(!limit || header.position <= *limit,
          fmt::format("the session has read {} tokens, and {} {}; {}", header.position,
                      network.LimitReason(), limit.value_or(0),
                      network.endless() ? "the file is damaged"
                                        : "if it went on past the horizon, load the model in "
                                          "endless mode (endless; no --no-endless)"));
}

std::vector<int32_t> ReadRecent(std::istream& in, int64_t position, int64_t vocabulary) {
  constexpr const char* kEnds = "the session ends within its latest tokens";
  uint32_t count = 0;
  if (!in.read(reinterpret_cast<char*>(&count), sizeof(count))) throw Error(kEnds);
  const int64_t most = std::min<int64_t>(position, Session::kRecentTokens);
  if (count < 1 || count > most) {
    throw Error(fmt::format(
        "the session has {} latest tokens, where 1 to {} are expected; the file is damaged", count,
        most));
  }
  std::vector<int32_t> tokens(count);
  if (!in.read(reinterpret_cast<char*>(tokens.data()),
               static_cast<std::streamsize>(tokens.size() * sizeof(int32_t)))) {
    throw Error(kEnds);
  }
  for (const int32_t token : tokens) {
    if (token < 0 || token >= vocabulary) {
      throw Error(fmt::format(
          "the session's latest tokens have {}, which is not in the model's vocabulary of {}; the "
          "file is damaged",
          token, vocabulary));
    }
  }
  return tokens;
}

}  // namespace

void Session::Save(std::ostream& out) const {
  std::ostringstream bytes;
  Header header = HeaderOf(impl_->model, impl_->text, impl_->hash);
  const std::vector<int32_t>& recent = impl_->recent;
  if (recent.empty()) header.version = kVersionWithoutTokens;
  bytes.write(reinterpret_cast<const char*>(&header), sizeof(header));
  bytes.write(reinterpret_cast<const char*>(impl_->text.last.data()),
              static_cast<std::streamsize>(impl_->text.last.size() * sizeof(float)));
  for (const LayerState& layer : impl_->text.layers) runtime::Save(layer, bytes);
  if (!recent.empty()) {
    const auto count = static_cast<uint32_t>(recent.size());
    bytes.write(reinterpret_cast<const char*>(&count), sizeof(count));
    bytes.write(reinterpret_cast<const char*>(recent.data()),
                static_cast<std::streamsize>(recent.size() * sizeof(int32_t)));
  }
  const std::string_view all = bytes.view();
  const uint32_t checksum = Checksum(all);
  out.write(all.data(), static_cast<std::streamsize>(all.size()));
  out.write(reinterpret_cast<const char*>(&checksum), sizeof(checksum));
  if (!out) throw Error("session: it could not be written");
}

void Session::Save(const std::string& path) const {
  std::ostringstream bytes;
  Save(bytes);
  report::WriteFile(path, bytes.view());
}

Session Session::Parse(Model model, std::string_view bytes, const std::string& where,
                       const SessionOptions& options) {
  const Header header = ReadHeader(bytes, where);
  // The checksum first: a model or a tokenizer is not another one for a bit that is.
  const std::string_view content = CheckedContent(bytes, where);
  CheckFields(header, where);
  CheckHeader(header, model, where);

  Session session(std::move(model), options);
  Impl& impl = *session.impl_;
  MemoryStream in(content.substr(sizeof(header)));
  const auto fail = [&](const std::string& what) -> Session {
    throw Error(fmt::format("{}: {}", where, what));
  };
  impl.text.last.resize(static_cast<size_t>(header.width));
  const auto last_bytes = static_cast<std::streamsize>(impl.text.last.size() * sizeof(float));
  if (!in.read(reinterpret_cast<char*>(impl.text.last.data()), last_bytes)) {
    return fail("the session ends within the numbers that the next token is predicted from");
  }
  if (!std::all_of(impl.text.last.begin(), impl.text.last.end(),
                   [](float x) { return std::isfinite(x); })) {
    return fail(
        "what the session predicts the next token from is infinite or NaN; the file is damaged, or "
        "the model's numbers were too large when it was written");
  }
  for (size_t i = 0; i < impl.text.layers.size(); ++i) {
    try {
      const Network& network = impl.model.network();
      impl.text.layers[i] =
          LoadState(network.attention()[i], header.position, network.endless(), in);
    } catch (const Error& error) {
      return fail(fmt::format("layer {}: {}", i, error.what()));
    }
  }
  if (header.version > kVersionWithoutTokens) {
    try {
      impl.recent = ReadRecent(in, header.position, impl.model.vocabulary());
    } catch (const Error& error) {
      return fail(error.what());
    }
  }
  if (in.peek() != std::istream::traits_type::eof()) {
    return fail("the session has bytes behind its end; the file is damaged");
  }
  impl.text.position = header.position;
  impl.hash = PrefixHash::Of(header.hash_low, header.hash_high);
  return session;
}

Session Session::Load(Model model, std::istream& in, const SessionOptions& options) {
  const std::string bytes(std::istreambuf_iterator<char>(in), {});
  return Parse(std::move(model), bytes, "session", options);
}

Session Session::Load(Model model, const std::string& path, const SessionOptions& options) {
  const MappedFile file(path);
  return Parse(std::move(model), TextOf(file), path, options);
}

bool IsSessionFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, kMagic.size()> begin = {};
  return file.read(begin.data(), begin.size()) && begin == kMagic;
}

// From the states of linear layers that stand before any other, or before what is damaged.
static void ReadHorizons(std::string_view layers, SessionInfo& info) {
  MemoryStream stream(layers);
  try {
    for (;;) {
      const LinearStateConfig config = LinearState::Load(stream).config();
      if (config.kernel.reweighting != Reweighting::kCos) continue;
      info.horizons.insert(config.kernel.horizon);
      info.endless |= config.endless;
    }
  } catch (const Error&) {
    // Whether the layers are in order is for Session::Load() to say.
  }
}

SessionInfo ReadSessionInfo(const std::string& path) {
  const MappedFile file(path);
  const std::string_view bytes = TextOf(file);
  const Header header = ReadHeader(bytes, path);
  const std::string_view content = CheckedContent(bytes, path);
  CheckFields(header, path);
  const auto text = [](const std::array<char, 16>& field) {
    const std::string_view all(field.data(), field.size());
    return std::string(all.substr(0, all.find('\0')));
  };
  SessionInfo info;
  info.version = header.version;
  info.layers = header.layers;
  info.model = text(header.model);
  info.tokenizer = text(header.tokenizer);
  info.position = header.position;
  info.width = header.width;
  info.bytes = static_cast<int64_t>(bytes.size());
  const auto last = static_cast<uint64_t>(header.width) * sizeof(float);
  if (last <= content.size() - sizeof(header)) {
    ReadHorizons(content.substr(sizeof(header) + last), info);
  }
  return info;
}

}  // namespace cosformer::runtime
