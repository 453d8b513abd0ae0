// A saved session: what was loaded is saved to the same bytes, predicts, and goes on.
#include <cstring>
#include <sstream>
#include <variant>

#include "formats/utf8.h"
#include "fuzz.h"
#include "runtime/session_file.h"
#include "session_models.h"
#include "vouched.h"

namespace cosformer::fuzz {
namespace {

using runtime::Model;
using runtime::Session;
using testing::Vouched;

// Where fields stand: of a session, and of a linear state in it.
constexpr size_t kFingerprint = 16, kPosition = 48, kWidth = 72, kLast = 80;
constexpr size_t kHasFirst = 48, kHorizon = 57, kStatePosition = 65, kFirstBegin = 73,
                 kSecondBegin = 81, kNumbers = 89;

int64_t NumberAt(const std::string& bytes, size_t at) {
  int64_t number = 0;
  std::memcpy(&number, bytes.data() + at, sizeof(number));
  return number;
}

void Put(std::string& bytes, size_t at, int64_t number) {
  std::memcpy(bytes.data() + at, &number, sizeof(number));
}

// A session's bytes with those fields made right that no mutation hits: the model's fingerprint,
// the checksums, and with `positions` what the layers have seen.
class Mended {
 public:
  Mended(std::string_view input, const Model& model, bool positions)
      : bytes_(input), positions_(positions) {
    const std::string& fingerprint = model.network().parameters().fingerprint;
    bytes_.replace(kFingerprint, fingerprint.size(), fingerprint);
    position_ = NumberAt(bytes_, kPosition);
    at_ = kLast + (NumberAt(bytes_, kWidth) == 0 ? 0 : sizeof(float) * 4);
    for (const runtime::LayerAttention& attention : model.network().attention()) {
      const runtime::LayerState state = attention.NewState();
      if (const auto* linear = std::get_if<LinearState>(&state)) Mend(linear->config());
      if (const auto* turned = std::get_if<runtime::TurnedState>(&state)) {
        Mend(turned->sums.config());
        if (turned->normaliser) Mend(turned->normaliser->config());
      }
      if (attention.softmax) {
        const auto row =
            static_cast<size_t>(2 * attention.kv_heads * attention.dim) * sizeof(float);
        at_ += row * static_cast<size_t>(std::clamp<int64_t>(position_, 0, 1 << 20));
      }
    }
    bytes_ = Vouched(std::move(bytes_));
  }

  const std::string& bytes() const { return bytes_; }

 private:
  // The linear state that begins here; goes on to what follows it.
  void Mend(const LinearStateConfig& config) {
    if (at_ + kNumbers > bytes_.size()) return;
    const int64_t parts = config.kernel.reweighting == Reweighting::kCos ? 2 : 1;
    const int64_t spans = bytes_[at_ + kHasFirst] == 1 ? 2 : 1;
    const auto numbers = static_cast<size_t>(spans * config.batch * config.heads * parts *
                                             config.dim * (config.value_dim + 1));
    const size_t size = kNumbers + numbers * sizeof(float) + sizeof(uint32_t);
    if (at_ + size > bytes_.size()) return;
    std::string state = bytes_.substr(at_, size);
    if (positions_) {
      Put(state, kStatePosition, position_);
      const int64_t half = NumberAt(state, kHorizon) / 2;
      if (config.endless && half > 0 && position_ >= 0 && position_ < INT64_MAX / 2) {
        const int64_t begin = std::max<int64_t>(0, position_ / half - 1) * half;
        Put(state, kFirstBegin, begin);
        Put(state, kSecondBegin, begin + half);
      }
    }
    bytes_.replace(at_, size, Vouched(state));
    at_ += size;
  }

  std::string bytes_;
  bool positions_;
  int64_t position_ = 0;
  size_t at_ = 0;
};

std::string Saved(const Session& session) {
  std::ostringstream out(std::ios::binary);
  session.Save(out);
  return out.str();
}

Session Loaded(const Model& model, const std::string& bytes) {
  std::istringstream in(bytes, std::ios::binary);
  return Session::Load(model, in, {.checkpoints = 2});
}

void Use(const Model& model, const std::string& bytes) {
  Session session = Loaded(model, bytes);
  Check(Saved(session) == bytes, "a session is saved to the bytes it was loaded from");
  Check(session.position() == NumberAt(bytes, kPosition), "it is where the file says");
  if (session.position() > 0) session.Logits();
  Session fork = session;
  // One token and several take different ways; past an end there is a sentence.
  MayRefuse([&] {
    const int32_t several[] = {1, 2, 3};
    session.Feed(several);
    session.Feed(4);
    session.Logits();
    // Numbers near the largest have become infinite, and positions past the last are none.
    const Session again = Loaded(model, Saved(session));
    Check(Saved(again) == Saved(session), "a session that went on is saved and loaded to the bit");
  });
  MustAccept("a session can be given another text", [&] {
    const int32_t text[] = {4, 0};
    // Numbers that came from no token would be gone on with.
    if (fork.position() == 0) fork.Reset();
    fork.Edit(text);
    Session fresh(model);
    fresh.Feed(text);
    Check(fork.position() == 2 && (fork.Logits() == fresh.Logits()), "and then is of that text");
  });
}

}  // namespace

void Try(std::string_view input) {
  static const std::vector<Model> models = SessionModels();
  MayRefuse([&] {
    const runtime::SessionInfo info = runtime::ReadSessionInfo(FileOf("session", input));
    Check(IsUtf8(info.model) && IsUtf8(info.tokenizer), "what a session tells can be shown");
    Check(info.position >= 0 && info.width >= 0, "and makes sense");
  });
  for (const Model& model : models) {
    MayRefuse([&] { Use(model, std::string(input)); });
    if (input.size() < kLast + sizeof(uint32_t)) continue;
    for (const bool positions : {false, true}) {
      MayRefuse([&] { Use(model, Mended(input, model, positions).bytes()); });
    }
  }
}

}  // namespace cosformer::fuzz
