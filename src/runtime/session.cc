// Sessions: a text's state with the checkpoints behind it, and many of them in one pass. The file
// form is in session_file.cc.
#include <fmt/format.h>

#include <algorithm>

#include "cosformer/runtime.h"
#include "runtime/network.h"
#include "runtime/session_impl.h"

namespace cosformer::runtime {
namespace {

// Checkpoints are this far apart at least; a shorter way is as quickly read again.
constexpr int64_t kLeastSpacing = 64;

}  // namespace

size_t SizeOf(const TextState& state, bool with_caches) {
  size_t bytes = state.last.size() * sizeof(float);
  for (const LayerState& layer : state.layers) {
    if (with_caches || !Grows(layer)) bytes += BytesOf(layer);
  }
  return bytes;
}

// A state without what its softmax layers remember: of that, the session's own cache has the
// beginning still.
static TextState WithoutCaches(const TextState& state, const Network& network) {
  TextState copy;
  copy.position = state.position;
  copy.last = state.last;
  for (size_t i = 0; i < state.layers.size(); ++i) {
    copy.layers.push_back(Grows(state.layers[i]) ? network.attention()[i].NewState()
                                                 : state.layers[i]);
  }
  return copy;
}

// Keeps the present as a checkpoint if the last one is far enough, and drops the one that is missed
// least: the one whose neighbours are closest together, measured by how far back they lie.
void Session::Impl::Checkpoint() {
  if (options.checkpoints == 0 || text.position == 0) return;
  const int64_t last = checkpoints.empty() ? 0 : checkpoints.back()->state.position;
  if (text.position - last < kLeastSpacing) return;
  checkpoints.push_back(
      std::make_shared<const SavedText>(SavedText{hash, WithoutCaches(text, model.network())}));
  if (checkpoints.size() <= static_cast<size_t>(options.checkpoints)) return;
  size_t least = 0;
  double least_loss = 0;
  for (size_t i = 0; i + 1 < checkpoints.size(); ++i) {
    const int64_t before = i == 0 ? 0 : checkpoints[i - 1]->state.position;
    const int64_t after = checkpoints[i + 1]->state.position;
    const double loss = static_cast<double>(after - before) /
                        static_cast<double>(text.position - checkpoints[i]->state.position + 1);
    if (i == 0 || loss < least_loss) {
      least = i;
      least_loss = loss;
    }
  }
  checkpoints.erase(checkpoints.begin() + static_cast<ptrdiff_t>(least));
}

std::span<const int32_t> Session::Impl::NextPart(std::span<const int32_t> tokens) const {
  if (options.checkpoints == 0) return tokens;
  const int64_t part = std::max<int64_t>(1, text.position / 16 / Network::kPass) * Network::kPass;
  return tokens.first(std::min(tokens.size(), static_cast<size_t>(part)));
}

void Session::Impl::Remember(std::span<const int32_t> tokens) {
  tokens = tokens.last(std::min(tokens.size(), kRecentTokens));
  recent.insert(recent.end(), tokens.begin(), tokens.end());
  if (recent.size() > kRecentTokens) {
    recent.erase(recent.begin(), recent.end() - static_cast<ptrdiff_t>(kRecentTokens));
  }
}

void Session::Impl::Took(std::span<const int32_t> tokens) {
  for (const int32_t token : tokens) hash.Add(token);
  Remember(tokens);
  Checkpoint();
}

void Session::FeedParts(std::span<Session* const> sessions,
                        std::vector<std::span<const int32_t>> tokens, float* hidden) {
  const Network& network = sessions[0]->impl_->model.network();
  // The first parts' checks would leave the others' to happen half way.
  for (size_t i = 0; i < sessions.size(); ++i) {
    network.CheckTurn({&sessions[i]->impl_->text, tokens[i]});
  }
  for (;;) {
    std::vector<Turn> turns;
    std::vector<Impl*> of;
    for (size_t i = 0; i < sessions.size(); ++i) {
      if (tokens[i].empty()) continue;
      of.push_back(sessions[i]->impl_.get());
      turns.push_back({&of.back()->text, of.back()->NextPart(tokens[i])});
      tokens[i] = tokens[i].subspan(turns.back().tokens.size());
    }
    if (turns.empty()) return;
    network.Advance(turns, hidden);
    for (size_t i = 0; i < turns.size(); ++i) {
      of[i]->Took(turns[i].tokens);
      if (hidden != nullptr) hidden += std::ssize(turns[i].tokens) * network.config().width;
    }
  }
}

Session::Session(Model model, const SessionOptions& options)
    : impl_(std::make_unique<Impl>(Impl{std::move(model), options, {}, {}, {}, {}})) {
  if (options.checkpoints < 0 || options.checkpoints > 1024) {
    throw Error(fmt::format("session: checkpoints is {}; give 0 to 1024", options.checkpoints));
  }
  impl_->text = impl_->model.network().NewText();
}

Session::Session(const Session& other) : impl_(std::make_unique<Impl>(*other.impl_)) {}
Session& Session::operator=(const Session& other) {
  if (this != &other) impl_ = std::make_unique<Impl>(*other.impl_);
  return *this;
}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

const Model& Session::model() const { return impl_->model; }
int64_t Session::position() const { return impl_->text.position; }
std::optional<int64_t> Session::max_tokens() const {
  return impl_->model.network().LimitOf(impl_->text);
}
size_t Session::state_bytes() const { return SizeOf(impl_->text, true); }
std::vector<int32_t> Session::recent() const { return impl_->recent; }

size_t Session::bytes() const {
  size_t bytes = state_bytes();
  for (const auto& checkpoint : impl_->checkpoints) bytes += SizeOf(checkpoint->state, false);
  return bytes;
}

void Session::Check(std::span<const int32_t> tokens) const {
  impl_->model.network().CheckTurn({&impl_->text, tokens});
}

void Session::Feed(std::span<const int32_t> tokens) {
  Session* self = this;
  FeedParts({&self, 1}, {tokens}, nullptr);
}

std::vector<float> Session::FeedAll(std::span<const int32_t> tokens) {
  const Network& network = impl_->model.network();
  std::vector<float> hidden(tokens.size() * static_cast<size_t>(network.config().width));
  std::vector<float> logits(tokens.size() * static_cast<size_t>(network.config().vocabulary));
  Session* self = this;
  FeedParts({&self, 1}, {tokens}, hidden.data());
  network.Logits(hidden.data(), static_cast<int64_t>(tokens.size()), logits.data());
  return logits;
}

std::vector<float> Session::Logits() const {
  Session* self = const_cast<Session*>(this);
  return LogitsBatch({&self, 1});
}

int64_t Session::Edit(std::span<const int32_t> tokens) {
  Impl& impl = *impl_;
  // But for the latest, tokens are not kept, their hashes are: of the whole text, and at each
  // checkpoint.
  PrefixHash hash;
  size_t next = 0;  // checkpoint
  std::shared_ptr<const SavedText> found;
  bool whole = false;
  for (size_t i = 0; i <= tokens.size(); ++i) {
    const auto position = static_cast<int64_t>(i);
    while (next < impl.checkpoints.size() && impl.checkpoints[next]->state.position < position) {
      ++next;
    }
    if (next < impl.checkpoints.size() && impl.checkpoints[next]->state.position == position &&
        impl.checkpoints[next]->hash == hash) {
      found = impl.checkpoints[next];
    }
    if (position == impl.text.position && impl.hash == hash) whole = true;
    if (i < tokens.size()) hash.Add(tokens[i]);
  }
  if (whole) {
    const auto known = static_cast<size_t>(impl.text.position);
    impl.recent.clear();  // of a session without them
    impl.Remember(tokens.first(known));
    const auto rest = tokens.subspan(known);
    Feed(rest);
    return static_cast<int64_t>(rest.size());
  }
  const int64_t kept = found == nullptr ? 0 : found->state.position;
  const auto rest = tokens.subspan(static_cast<size_t>(kept));
  // Nothing is given up for a text that can't be read.
  const Network& network = impl.model.network();
  network.CheckTokens(rest, kept, found == nullptr ? network.Limit() : max_tokens());
  if (found == nullptr) {
    Reset();
  } else {
    for (size_t i = 0; i < impl.text.layers.size(); ++i) {
      if (auto* cache = std::get_if<SoftmaxCache>(&impl.text.layers[i])) {
        cache->Truncate(kept);
      } else {
        impl.text.layers[i] = found->state.layers[i];
      }
    }
    impl.text.position = kept;
    impl.text.last = found->state.last;
    impl.hash = found->hash;
    impl.recent.clear();
    impl.Remember(tokens.first(static_cast<size_t>(kept)));
    std::erase_if(impl.checkpoints, [&](const auto& one) { return one->state.position > kept; });
  }
  Feed(rest);
  return static_cast<int64_t>(rest.size());
}

void Session::Reset() {
  impl_->text = impl_->model.network().NewText();
  impl_->hash = {};
  impl_->checkpoints.clear();
  impl_->recent.clear();
}

void Session::FeedBatch(std::span<Session* const> sessions,
                        std::span<const std::span<const int32_t>> tokens) {
  if (sessions.size() != tokens.size()) {
    throw Error(fmt::format("session: a batch of {} sessions was given tokens for {}",
                            sessions.size(), tokens.size()));
  }
  if (sessions.empty()) return;
  const Network& network = sessions[0]->impl_->model.network();
  for (size_t i = 0; i < sessions.size(); ++i) {
    if (&sessions[i]->impl_->model.network() != &network) {
      throw Error("session: the sessions of a batch must be of one model");
    }
    if (std::find(sessions.begin(), sessions.begin() + static_cast<ptrdiff_t>(i), sessions[i]) !=
        sessions.begin() + static_cast<ptrdiff_t>(i)) {
      throw Error("session: a session stands twice in a batch");
    }
  }
  FeedParts(sessions, {tokens.begin(), tokens.end()}, nullptr);
}

void Session::FeedBatch(std::span<Session* const> sessions, std::span<const int32_t> tokens) {
  std::vector<std::span<const int32_t>> parts;
  for (const int32_t& token : tokens) parts.emplace_back(&token, 1);
  FeedBatch(sessions, parts);
}

std::vector<float> Session::LogitsBatch(std::span<Session* const> sessions) {
  std::vector<float> hidden, logits;
  if (sessions.empty()) return logits;
  const Network& network = sessions[0]->impl_->model.network();
  for (const Session* session : sessions) {
    if (session->impl_->text.last.empty()) {
      throw Error("session: nothing was fed yet, so that there is nothing to predict from");
    }
    if (&session->impl_->model.network() != &network) {
      throw Error("session: the sessions of a batch must be of one model");
    }
    hidden.insert(hidden.end(), session->impl_->text.last.begin(), session->impl_->text.last.end());
  }
  logits.resize(sessions.size() * static_cast<size_t>(network.config().vocabulary));
  network.Logits(hidden.data(), static_cast<int64_t>(sessions.size()), logits.data());
  return logits;
}

}  // namespace cosformer::runtime
