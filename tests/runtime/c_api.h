// What the tests of the C API share: models in a folder, handles that free themselves.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "cosformer/cosformer.h"
#include "cosformer/runtime.h"
#include "tests/formats/folder.h"
#include "tests/runtime/model_directory.h"

namespace cosformer::runtime::testing {

struct Free {
  void operator()(cosformer_model* model) const { cosformer_model_free(model); }
  void operator()(cosformer_session* session) const { cosformer_session_free(session); }
  void operator()(cosformer_sampler* sampler) const { cosformer_sampler_free(sampler); }
};
using ModelHandle = std::unique_ptr<cosformer_model, Free>;
using SessionHandle = std::unique_ptr<cosformer_session, Free>;
using SamplerHandle = std::unique_ptr<cosformer_sampler, Free>;

#define EXPECT_OK(call) EXPECT_EQ(call, COSFORMER_OK) << cosformer_last_error()
#define ASSERT_OK(call) ASSERT_EQ(call, COSFORMER_OK) << cosformer_last_error()
#define EXPECT_FAILS(call, status, part)                                         \
  do {                                                                           \
    EXPECT_EQ(call, status);                                                     \
    EXPECT_NE(std::string(cosformer_last_error()).find(part), std::string::npos) \
        << "\"" << cosformer_last_error() << "\" lacks \"" << (part) << "\"";    \
  } while (false)

inline ModelHandle Loaded(const std::string& directory) {
  cosformer_model* model = nullptr;
  EXPECT_OK(cosformer_model_load(directory.c_str(), nullptr, &model));
  return ModelHandle(model);
}

inline SessionHandle NewSession(const ModelHandle& model) {
  cosformer_session* session = nullptr;
  EXPECT_OK(cosformer_session_new(model.get(), nullptr, &session));
  return SessionHandle(session);
}

inline SessionHandle Prompted(const ModelHandle& model, const std::vector<int32_t>& tokens) {
  SessionHandle session = NewSession(model);
  EXPECT_OK(cosformer_session_feed(session.get(), tokens.data(), tokens.size()));
  return session;
}

inline std::vector<float> LogitsOf(const SessionHandle& session) {
  size_t count = 0;
  EXPECT_OK(cosformer_session_logits(session.get(), nullptr, 0, &count));
  std::vector<float> logits(count, NAN);
  EXPECT_OK(cosformer_session_logits(session.get(), logits.data(), logits.size(), &count));
  return logits;
}

inline int64_t PositionOf(const SessionHandle& session) {
  int64_t position = -1;
  EXPECT_OK(cosformer_session_position(session.get(), &position));
  return position;
}

// A language model of bytes, and the same through C++.
class CApi : public cosformer::testing::FolderTest {
 protected:
  void SetUp() override {
    directory_ = WriteModel(Path("lm"), {{"attention", {"cosformer", "softmax"}}});
    model_ = Loaded(directory_);
    ASSERT_NE(model_, nullptr);
  }

  Model Cpp() const { return Model::Load(directory_); }

  std::string directory_;
  ModelHandle model_;
};

}  // namespace cosformer::runtime::testing
