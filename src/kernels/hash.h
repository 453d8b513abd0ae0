// Hashes that are the same on every machine and in every version.
#pragma once

#include <cstdint>
#include <string_view>

namespace cosformer {

// 2^64 over the golden ratio: the step of splitmix64's sequence.
inline constexpr uint64_t kMixStep = 0x9e3779b97f4a7c15u;

// The finaliser of splitmix64: one to one, and all bits of the result depend on all of x.
constexpr uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// The same a step further, so that 0 is mixed as well.
constexpr uint64_t MixNext(uint64_t x) { return Mix(x + kMixStep); }

// 64-bit FNV-1a of all that is added. It tells things apart; it does not protect them.
class Fnv1a {
 public:
  constexpr Fnv1a& Add(std::string_view bytes) {
    for (const char byte : bytes) {
      value_ = (value_ ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
    }
    return *this;
  }
  constexpr uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325u;
};

}  // namespace cosformer
