// The C API where memory runs out, at each allocation of each call: this program's own operator new
// fails at the one it is told to. Only what takes a KiB and more fails: for the few pointers that
// nlohmann-json's destructor and the bodies of parallel loops allocate, the process ends.
#include <cstdlib>
#include <functional>
#include <new>

#include "tests/runtime/c_api.h"

namespace {

// Allocations of this thread, of so many bytes at least, until one fails; below 0: none does.
thread_local int64_t left = -1;
constexpr size_t kLeast = 1024;

void* Allocate(size_t size, size_t alignment) {
  if (size >= kLeast) {
    if (left == 0) throw std::bad_alloc();
    if (left > 0) --left;
  }
  // Sizes of aligned_alloc are multiples of the alignment.
  void* data = std::aligned_alloc(alignment, (size / alignment + 1) * alignment);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

}  // namespace

void* operator new(size_t size) { return Allocate(size, alignof(std::max_align_t)); }
void* operator new(size_t size, std::align_val_t alignment) {
  return Allocate(size, static_cast<size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* data) noexcept { std::free(data); }
[[gnu::noinline]] void operator delete(void* data, size_t) noexcept { std::free(data); }
[[gnu::noinline]] void operator delete(void* data, std::align_val_t) noexcept { std::free(data); }
[[gnu::noinline]] void operator delete(void* data, size_t, std::align_val_t) noexcept {
  std::free(data);
}

namespace cosformer::runtime::testing {
namespace {

int Ignore(const cosformer_token*, void*) { return 0; }
int IgnoreBeam(const cosformer_beam*, void*) { return 0; }

class CApiMemory : public CApi {
 protected:
  // Large enough for its parts to count.
  void SetUp() override {
    directory_ = WriteModel(Path("wide"), {{"attention", {"cosformer", "softmax"}},
                                           {"width", 300},
                                           {"hidden", 600},
                                           {"max_length", 1000}});
    model_ = Loaded(directory_);
    ASSERT_NE(model_, nullptr);
  }

  // Fails the first allocation of the call, then the second, until it needs no more. Returns how
  // many failed. What writes to streams may say that it could not: they do not tell why.
  int64_t Starve(
      const std::function<cosformer_status()>& call, const std::function<void()>& after = [] {},
      bool streams = false) {
    for (int64_t allowed = 0; allowed < 10'000; ++allowed) {
      left = allowed;
      const cosformer_status status = call();
      const bool met = left == 0;
      left = -1;
      after();
      if (status == COSFORMER_OK) return allowed;
      if (streams && status == COSFORMER_INVALID) continue;
      EXPECT_EQ(status, COSFORMER_OUT_OF_MEMORY) << cosformer_last_error();
      EXPECT_NE(std::string(cosformer_last_error()).find("not enough memory"), std::string::npos);
      EXPECT_TRUE(met);
      if (HasFailure()) return -1;
    }
    ADD_FAILURE() << "it never succeeds";
    return -1;
  }
};

TEST_F(CApiMemory, ThatRunsOutIsAnErrorWhereverItHappens) {
  const std::string text(5000, 'a');
  std::vector<int32_t> tokens(text.size());
  std::string decoded(text.size(), ' ');
  size_t count = 0;
  EXPECT_GT(Starve([&] {
              return cosformer_encode(model_.get(), text.data(), text.size(), tokens.data(),
                                      tokens.size(), &count);
            }),
            0);
  EXPECT_GT(Starve([&] {
              return cosformer_decode(model_.get(), tokens.data(), tokens.size(), decoded.data(),
                                      decoded.size(), &count);
            }),
            0);
  cosformer_model* model = nullptr;
  EXPECT_GT(Starve([&] { return cosformer_model_load(directory_.c_str(), nullptr, &model); }), 0);
  cosformer_model_free(model);
}

TEST_F(CApiMemory, ThatRunsOutLeavesSessionsThatCanBeReset) {
  cosformer_session* handle = nullptr;
  EXPECT_GT(Starve([&] { return cosformer_session_new(model_.get(), nullptr, &handle); }), 0);
  const SessionHandle session(handle);
  const std::vector<int32_t> tokens = RandomTokens(90, 1, 260);
  const SessionHandle expected = Prompted(model_, tokens);

  const auto reset = [&] { ASSERT_OK(cosformer_session_reset(session.get())); };
  EXPECT_GT(Starve([&] { return cosformer_session_feed(session.get(), tokens.data(), 90); }, reset),
            0);
  ASSERT_OK(cosformer_session_feed(session.get(), tokens.data(), 90));
  EXPECT_EQ(LogitsOf(session), LogitsOf(expected));

  cosformer_session* fork = nullptr;
  EXPECT_GT(Starve([&] { return cosformer_session_fork(session.get(), &fork); }), 0);
  cosformer_session_free(fork);
  std::vector<float> logits(260);
  size_t count = 0;
  EXPECT_GT(
      Starve([&] { return cosformer_session_logits(session.get(), logits.data(), 260, &count); }),
      0);
  const std::string path = Path("session");
  EXPECT_GT(
      Starve([&] { return cosformer_session_save(session.get(), path.c_str()); }, [] {}, true), 0);
  EXPECT_GT(
      Starve([&] { return cosformer_session_load(model_.get(), path.c_str(), nullptr, &handle); }),
      0);
  cosformer_session_free(handle);
  EXPECT_EQ(LogitsOf(session), LogitsOf(expected));
}

TEST_F(CApiMemory, ThatRunsOutEndsAText) {
  const SessionHandle session = NewSession(model_);
  const auto prompt = [&] {
    const int32_t token = 'a';
    ASSERT_OK(cosformer_session_reset(session.get()));
    ASSERT_OK(cosformer_session_feed(session.get(), &token, 1));
  };
  prompt();
  cosformer_generate_options options;
  ASSERT_OK(cosformer_generate_options_init(&options, sizeof(options)));
  options.max_tokens = 3;
  options.likeliest = 2;
  options.stop_at_end = 0;
  EXPECT_GT(
      Starve([&] { return cosformer_generate(session.get(), &options, Ignore, nullptr, nullptr); },
             prompt),
      0);
  cosformer_beam_options beams;
  ASSERT_OK(cosformer_beam_options_init(&beams, sizeof(beams)));
  beams.beams = 2;
  beams.max_tokens = 2;
  EXPECT_GT(
      Starve([&] { return cosformer_beam_search(session.get(), &beams, IgnoreBeam, nullptr); }), 0);
}

}  // namespace
}  // namespace cosformer::runtime::testing
