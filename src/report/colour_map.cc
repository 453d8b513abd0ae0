#include "report/colour_map.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>

namespace cosformer::report {
namespace {

// The scale is a path through CIELAB (white point D65) that rises evenly in L*. Its corners, at
// even steps, are chosen to be colourful and about equally far apart, with all between them inside
// of sRGB. L* ends well below that of the masked cells (93.4).
struct Chroma {
  double a = 0;
  double b = 0;
};
constexpr std::array<Chroma, 6> kCorners = {
    {{14, -30}, {45, -22}, {59, 6}, {44, 37}, {16, 60}, {-6, 62}}};
constexpr double kDarkest = 9;
constexpr double kLightest = 87;

constexpr Rgb kMasked = {0xEC, 0xEC, 0xEC};
constexpr Rgb kPage = {0xFF, 0xFF, 0xFF};

uint8_t EncodeSrgb(double linear) {
  const double light = std::clamp(linear, 0.0, 1.0);
  const double encoded =
      light <= 0.0031308 ? 12.92 * light : 1.055 * std::pow(light, 1 / 2.4) - 0.055;
  return static_cast<uint8_t>(std::lround(255 * encoded));
}

Rgb FromLab(double lightness, Chroma chroma) {
  const auto decode = [](double f) {
    constexpr double kKnee = 6.0 / 29;
    return f > kKnee ? f * f * f : 3 * kKnee * kKnee * (f - 4.0 / 29);
  };
  const double f = (lightness + 16) / 116;
  const double x = 0.95047 * decode(f + chroma.a / 500);
  const double y = decode(f);
  const double z = 1.08883 * decode(f - chroma.b / 200);
  return {EncodeSrgb(3.2404542 * x - 1.5371385 * y - 0.4985314 * z),
          EncodeSrgb(-0.9692660 * x + 1.8760108 * y + 0.0415560 * z),
          EncodeSrgb(0.0556434 * x - 0.2040259 * y + 1.0572252 * z)};
}

std::array<Rgb, 256> MakePalette() {
  std::array<Rgb, 256> palette;
  for (int level = 0; level < kLevels; ++level) {
    const double share = level / (kLevels - 1.0);
    const double place = share * (kCorners.size() - 1);
    const size_t corner = std::min(static_cast<size_t>(place), kCorners.size() - 2);
    const double part = place - static_cast<double>(corner);
    const Chroma from = kCorners[corner], to = kCorners[corner + 1];
    palette[static_cast<size_t>(level)] =
        FromLab(std::lerp(kDarkest, kLightest, share),
                {std::lerp(from.a, to.a, part), std::lerp(from.b, to.b, part)});
  }
  palette[kMaskedLevel] = kMasked;
  palette[kPageLevel] = kPage;
  return palette;
}

}  // namespace

const std::array<Rgb, 256>& HeatmapPalette() {
  static const std::array<Rgb, 256> palette = MakePalette();
  return palette;
}

uint8_t LevelAt(double share) {
  assert(!std::isnan(share));
  return static_cast<uint8_t>(std::lround(std::clamp(share, 0.0, 1.0) * (kLevels - 1)));
}

}  // namespace cosformer::report
