// What choosing and showing tokens allocates, counted by this program's own operator new: nothing a
// token once the buffers have grown, and no more for a longer text.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "naive_sampling.h"
#include "runtime/text_stream.h"

namespace {

std::atomic<int64_t> allocations = 0;

void* Allocate(size_t size) {
  ++allocations;
  void* data = std::malloc(size == 0 ? 1 : size);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

}  // namespace

void* operator new(size_t size) { return Allocate(size); }
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, size_t) noexcept { std::free(data); }

namespace cosformer::testing {
namespace {

TEST(SamplingMemory, ATokenAllocatesNothingOnceTheBuffersHaveGrown) {
  constexpr int64_t kVocabulary = 5000;
  std::mt19937_64 random(1);
  std::vector<Logits> steps;
  for (int t = 0; t < 20; ++t) steps.push_back(NormalLogits(kVocabulary, random));
  // Flat, so that all buffers grow as far as they may.
  steps.emplace_back(kVocabulary, 1.0f);
  for (const SamplingOptions& options :
       {SamplingOptions{.temperature = 0}, SamplingOptions{}, SamplingOptions{.temperature = 0.7},
        SamplingOptions{.top_k = 40}, SamplingOptions{.top_k = 4000}, SamplingOptions{.top_p = 0.9},
        SamplingOptions{.min_p = 1e-6},
        SamplingOptions{.top_k = 100,
        .top_p = 0.9,
        .min_p = 0.01,
        .repetition_penalty = 1.2,
        .repetition_window = 16,
        .logit_bias = {{7, 1.0f}}}}) {
    Sampler sampler(options, kVocabulary);
    SamplingWorkspace workspace;
    for (const Logits& logits : steps) sampler.Next(logits, workspace, 50);
    const int64_t before = allocations;
    for (int round = 0; round < 20; ++round) {
      for (const Logits& logits : steps) sampler.Next(logits, workspace, 50);
    }
    EXPECT_EQ(allocations, before);
  }
}

// Short parts lie in the string itself: there is nothing to allocate for them either.
TEST(SamplingMemory, AStreamHoldsNoMoreForALongerText) {
  TextStream stream(Tokenizer::Bytes(), {"ab", "\n\n"});
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) stream.Add(static_cast<int32_t>(random() % 256) | 0x80);
  const int64_t before = allocations;
  for (int i = 0; i < 100'000; ++i) stream.Add(static_cast<int32_t>(random() % 256) | 0x80);
  EXPECT_EQ(allocations, before);
}

}  // namespace
}  // namespace cosformer::testing
