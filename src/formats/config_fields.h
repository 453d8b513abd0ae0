// The numbers of a config in tables: name in JSON, place in the struct, range. Reading, checking
// and writing go through the same table.
#pragma once

#include <cstdint>

#include "formats/config.h"

namespace cosformer {

template <class Struct, class Value>
struct Field {
  const char* name;
  Value Struct::*member;
  Value least, most;  // inclusive
};

// The product of any three limits that meet in one parameter stays below 2^60: the largest is the
// projection of a patch, 4096 * 4096 * 1024 * 65536 = 2^50.
inline constexpr Field<ModelConfig, int64_t> kModelIntegers[] = {
    {"vocabulary", &ModelConfig::vocabulary, 0, 1 << 24},
    {"width", &ModelConfig::width, 1, 1 << 16},
    {"layers", &ModelConfig::layers, 1, 1024},
    {"decoder_layers", &ModelConfig::decoder_layers, 0, 1024},
    {"heads", &ModelConfig::heads, 1, 1 << 16},
    {"kv_heads", &ModelConfig::kv_heads, 0, 1 << 16},
    {"head_dim", &ModelConfig::head_dim, 0, 1 << 16},
    {"hidden", &ModelConfig::hidden, 0, 1 << 20},
    {"max_length", &ModelConfig::max_length, 1, int64_t{1} << 31},
    {"classes", &ModelConfig::classes, 0, 1 << 24},
    {"negatives", &ModelConfig::negatives, 0, 1 << 24},
};
inline constexpr int64_t kMaxHeadsTimesDim = 1 << 20;

inline constexpr Field<ModelConfig, double> kModelNumbers[] = {
    {"norm_epsilon", &ModelConfig::norm_epsilon, 1e-12, 0.1},
    {"dropout", &ModelConfig::dropout, 0, 1},
};

inline constexpr Field<ImageConfig, int64_t> kImageIntegers[] = {
    {"height", &ImageConfig::height, 1, 1 << 16},
    {"width", &ImageConfig::width, 1, 1 << 16},
    {"channels", &ImageConfig::channels, 1, 1024},
    {"patch", &ImageConfig::patch, 1, 4096},
};

inline constexpr Field<PositionConfig, int64_t> kPositionIntegers[] = {
    {"sines", &PositionConfig::sines, 1, 1024},
    {"kernel", &PositionConfig::kernel, 1, 1024},
    {"realisations", &PositionConfig::realisations, 1, 4096},
};

inline constexpr Field<PositionConfig, double> kPositionNumbers[] = {
    {"base", &PositionConfig::rotary_base, 1.001, 1e12},
};

// Whether positions of this kind have the option of this name.
bool TakesOption(PositionKind kind, std::string_view option);

}  // namespace cosformer
