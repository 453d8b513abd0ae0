// The C API of sessions, alone and in batches.
#include <vector>

#include "cosformer/cosformer.h"
#include "runtime/c_api_support.h"

namespace cosformer::capi {
namespace {

using runtime::Session;

constexpr size_t kFirstSessionOptions = 16;
static_assert(sizeof(cosformer_session_options) >= kFirstSessionOptions);

cosformer_session_options DefaultSessionOptions() {
  return {sizeof(cosformer_session_options), runtime::SessionOptions().checkpoints};
}

runtime::SessionOptions OptionsOf(const Call& call, const cosformer_session_options* options) {
  const int64_t checkpoints =
      call.Options(options, DefaultSessionOptions(), kFirstSessionOptions, "options").checkpoints;
  // What does not fit is refused as what fits and is out of range.
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  return {.checkpoints = static_cast<int>(std::clamp(checkpoints, -kMost, kMost))};
}

// Those of a batch, none of which may be NULL.
std::vector<Session*> SessionsOf(const Call& call, std::span<cosformer_session* const> handles) {
  std::vector<Session*> sessions;
  sessions.reserve(handles.size());
  for (size_t i = 0; i < handles.size(); ++i) {
    call.Need(handles[i], fmt::format("sessions[{}]", i).c_str());
    sessions.push_back(&handles[i]->session);
  }
  return sessions;
}

}  // namespace
}  // namespace cosformer::capi

using cosformer::capi::Call;
using cosformer::runtime::Session;

cosformer_status cosformer_session_options_init(cosformer_session_options* options, size_t size) {
  return Call(__func__).Init(options, size, cosformer::capi::DefaultSessionOptions(),
                             cosformer::capi::kFirstSessionOptions);
}

cosformer_status cosformer_session_new(const cosformer_model* model,
                                       const cosformer_session_options* options,
                                       cosformer_session** session) {
  const Call call(__func__);
  return call.New(session, "session", [&] {
    call.Need(model, "model");
    return Session(model->model, cosformer::capi::OptionsOf(call, options));
  });
}

void cosformer_session_free(cosformer_session* session) { delete session; }

cosformer_status cosformer_session_fork(const cosformer_session* session,
                                        cosformer_session** fork) {
  const Call call(__func__);
  return call.New(fork, "fork", [&] {
    call.Need(session, "session");
    return Session(session->session);
  });
}

cosformer_status cosformer_session_feed(cosformer_session* session, const int32_t* tokens,
                                        size_t token_count) {
  const Call call(__func__);
  return call.Run([&] {
    call.Need(session, "session");
    session->session.Feed(call.Array(tokens, token_count, "tokens"));
    return COSFORMER_OK;
  });
}

cosformer_status cosformer_session_feed_all(cosformer_session* session, const int32_t* tokens,
                                            size_t token_count, float* logits, size_t capacity,
                                            size_t* count) {
  const Call call(__func__);
  return call.Run([&] {
    call.Need(session, "session");
    const auto given = call.Array(tokens, token_count, "tokens");
    const size_t needed = call.Product(given.size(), session->session.model().vocabulary());
    if (capacity < needed) return call.TellSize(needed, logits, capacity, count);
    call.CheckOutput(logits, capacity, count);
    const std::vector<float> found = session->session.FeedAll(given);
    return call.Give<float>(found, logits, capacity, count);
  });
}

cosformer_status cosformer_session_logits(const cosformer_session* session, float* logits,
                                          size_t capacity, size_t* count) {
  const Call call(__func__);
  return call.Run([&] {
    call.Need(session, "session");
    const auto needed = static_cast<size_t>(session->session.model().vocabulary());
    if (capacity < needed) return call.TellSize(needed, logits, capacity, count);
    const std::vector<float> found = session->session.Logits();
    return call.Give<float>(found, logits, capacity, count);
  });
}

cosformer_status cosformer_session_position(const cosformer_session* session, int64_t* position) {
  const Call call(__func__);
  return call.Run([&] {
    call.Need(session, "session");
    call.Need(position, "position");
    *position = session->session.position();
    return COSFORMER_OK;
  });
}

cosformer_status cosformer_session_max_tokens(const cosformer_session* session,
                                              int64_t* max_tokens) {
  const Call call(__func__);
  return call.Run([&] {
    call.Need(session, "session");
    call.Need(max_tokens, "max_tokens");
    *max_tokens = session->session.max_tokens().value_or(-1);
    return COSFORMER_OK;
  });
}

cosformer_status cosformer_session_bytes(const cosformer_session* session, size_t* bytes) {
  const Call call(__func__);
  return call.Run([&] {
    call.Need(session, "session");
    call.Need(bytes, "bytes");
    *bytes = session->session.bytes();
    return COSFORMER_OK;
  });
}

cosformer_status cosformer_session_edit(cosformer_session* session, const int32_t* tokens,
                                        size_t token_count, int64_t* fed) {
  const Call call(__func__);
  return call.Run([&] {
    call.Need(session, "session");
    const int64_t anew = session->session.Edit(call.Array(tokens, token_count, "tokens"));
    if (fed != nullptr) *fed = anew;
    return COSFORMER_OK;
  });
}

cosformer_status cosformer_session_reset(cosformer_session* session) {
  const Call call(__func__);
  return call.Run([&] {
    call.Need(session, "session");
    session->session.Reset();
    return COSFORMER_OK;
  });
}

cosformer_status cosformer_session_save(const cosformer_session* session, const char* path) {
  const Call call(__func__);
  return call.Run([&] {
    call.Need(session, "session");
    call.Need(path, "path");
    session->session.Save(std::string(path));
    return COSFORMER_OK;
  });
}

cosformer_status cosformer_session_load(const cosformer_model* model, const char* path,
                                        const cosformer_session_options* options,
                                        cosformer_session** session) {
  const Call call(__func__);
  return call.New(session, "session", [&] {
    call.Need(model, "model");
    call.Need(path, "path");
    return Session::Load(model->model, std::string(path),
                         cosformer::capi::OptionsOf(call, options));
  });
}

cosformer_status cosformer_feed_batch(cosformer_session* const* sessions, size_t session_count,
                                      const int32_t* const* tokens, const size_t* token_counts) {
  const Call call(__func__);
  return call.Run([&] {
    const auto handles = call.Array(sessions, session_count, "sessions");
    const auto texts = call.Array(tokens, session_count, "tokens");
    const auto counts = call.Array(token_counts, session_count, "token_counts");
    std::vector<std::span<const int32_t>> parts;
    parts.reserve(session_count);
    for (size_t i = 0; i < session_count; ++i) {
      parts.push_back(call.Array(texts[i], counts[i], fmt::format("tokens[{}]", i).c_str()));
    }
    Session::FeedBatch(cosformer::capi::SessionsOf(call, handles), parts);
    return COSFORMER_OK;
  });
}

cosformer_status cosformer_logits_batch(cosformer_session* const* sessions, size_t session_count,
                                        float* logits, size_t capacity, size_t* count) {
  const Call call(__func__);
  return call.Run([&] {
    const std::vector<Session*> batch =
        cosformer::capi::SessionsOf(call, call.Array(sessions, session_count, "sessions"));
    const size_t needed =
        batch.empty() ? 0 : call.Product(batch.size(), batch[0]->model().vocabulary());
    if (capacity < needed) return call.TellSize(needed, logits, capacity, count);
    const std::vector<float> found = Session::LogitsBatch(batch);
    return call.Give<float>(found, logits, capacity, count);
  });
}
