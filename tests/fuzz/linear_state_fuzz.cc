// The state of linear attention as bytes: what was loaded is saved to the same bytes, and goes on.
#include <cstring>
#include <sstream>
#include <vector>

#include "cosformer/attention.h"
#include "fuzz.h"
#include "vouched.h"

namespace cosformer::fuzz {
namespace {

using testing::Vouched;

// Where fields of the present version stand.
constexpr size_t kEndless = 47, kHasFirst = 48, kHorizon = 57, kFirstBegin = 73, kSecondBegin = 81,
                 kNumbers = 89;

std::string Saved(const LinearState& state) {
  std::ostringstream out(std::ios::binary);
  state.Save(out);
  return out.str();
}

LinearState Loaded(std::string bytes) {
  std::istringstream in(std::move(bytes), std::ios::binary);
  return LinearState::Load(in);
}

// Steps of one token and of several take different ways.
void Step(LinearState& state, int64_t tokens) {
  const LinearStateConfig& config = state.config();
  const auto floats = [&](int64_t dim) {
    return std::vector<float>(static_cast<size_t>(config.batch * tokens * config.heads * dim), 0.5);
  };
  const std::vector<float> q = floats(config.dim), v = floats(config.value_dim);
  std::vector<float> o = floats(config.value_dim);
  const auto queries = ConstView::Of(q.data(), config.batch, tokens, config.heads, config.dim);
  const auto values = ConstView::Of(v.data(), config.batch, tokens, config.heads, config.value_dim);
  const auto outputs = View::Of(o.data(), config.batch, tokens, config.heads, config.value_dim);
  state.Step(queries, queries, values, outputs, 1);
  MayRefuse([&] { state.Attend(queries, outputs, state.position() - tokens, 1); });
}

void Use(std::string_view bytes) {
  std::istringstream in(std::string(bytes), std::ios::binary);
  LinearState state = LinearState::Load(in);
  const auto size = static_cast<size_t>(in.tellg());
  // Version 1 is saved as the present one.
  if (bytes[8] != 1) {
    Check(Saved(state) == bytes.substr(0, size),
          "a state is saved to the bytes it was loaded from");
  }
  Step(state, 1);
  Step(state, 3);
  // Where positions end, a step leads out of what a file may hold.
  if (state.position() < int64_t{1} << 59) {
    MustAccept("a state that went on can be saved and loaded",
               [&] { Check(Saved(Loaded(Saved(state))) == Saved(state), "to the bit"); });
  }
}

}  // namespace

void Try(std::string_view input) {
  MayRefuse([&] { Use(input); });
  if (input.size() < kNumbers + sizeof(uint32_t)) return;
  // No mutation hits the right checksum: with it, the fields behind are reached.
  MayRefuse([&] { Use(Vouched(std::string(input))); });
  // Nor a second beginning that fits the first.
  std::string endless(input);
  uint64_t horizon = 0, begin = 0;
  std::memcpy(&horizon, endless.data() + kHorizon, sizeof(horizon));
  std::memcpy(&begin, endless.data() + kFirstBegin, sizeof(begin));
  begin += horizon / 2;
  std::memcpy(endless.data() + kSecondBegin, &begin, sizeof(begin));
  endless[kEndless] = endless[kHasFirst] = 1;
  Use(Vouched(endless));
}

}  // namespace cosformer::fuzz
