// The colours of heatmaps: from dark blue over red to light yellow. Lightness grows evenly with the
// value, so that the order of values survives in black and white and in the eyes of colour-blind
// readers.
#pragma once

#include <array>
#include <cstdint>

namespace cosformer::report {

struct Rgb {
  uint8_t red = 0;
  uint8_t green = 0;
  uint8_t blue = 0;

  friend bool operator==(const Rgb&, const Rgb&) = default;
};

// Values are shown in this many levels: a palette of a PNG has 256 entries, and two are for what
// has no value. Neighbouring levels are less than 0.8 apart in CIELAB, which nobody can see.
inline constexpr int kLevels = 254;
inline constexpr uint8_t kMaskedLevel = 254;  // light grey, lighter than every level
inline constexpr uint8_t kPageLevel = 255;    // white

// Colours of the levels, in order, then of kMaskedLevel and kPageLevel.
const std::array<Rgb, 256>& HeatmapPalette();

// The level of a value that lies `share` of the way from the lowest to the highest of a scale;
// beyond the ends it is that of the end. `share` is a number.
uint8_t LevelAt(double share);

}  // namespace cosformer::report
