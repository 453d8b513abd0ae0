// PNG files, read back by libpng.
#include "report/png.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "contains.h"
#include "decoded_png.h"

namespace cosformer::report {
namespace {

using cosformer::testing::Contains;
using cosformer::testing::DecodedPng;
using cosformer::testing::DecodePng;

constexpr Rgb kRed = {255, 0, 0};
constexpr Rgb kGreen = {1, 254, 2};
constexpr Rgb kBlue = {3, 4, 250};

std::string MessageOf(const Picture& picture, const std::vector<Rgb>& palette) {
  return cosformer::testing::MessageOf([&] { EncodePng(picture, palette); });
}

TEST(PngTest, EveryPixelComesBack) {
  const DecodedPng decoded =
      DecodePng(EncodePng({3, 2, {0, 1, 2, 2, 1, 1}}, std::vector{kRed, kGreen, kBlue}));
  EXPECT_EQ(decoded.width, 3);
  EXPECT_EQ(decoded.height, 2);
  EXPECT_EQ(decoded.pixels, (std::vector{kRed, kGreen, kBlue, kBlue, kGreen, kGreen}));
}

TEST(PngTest, PalettesOfEverySizeComeBack) {
  for (const size_t colours : {1, 2, 3, 4, 5, 16, 17, 255, 256}) {
    std::vector<Rgb> palette;
    Picture picture{static_cast<int64_t>(colours), 1, {}};
    for (size_t i = 0; i < colours; ++i) {
      const auto sample = static_cast<uint8_t>(i);
      palette.push_back({sample, static_cast<uint8_t>(7 * i), static_cast<uint8_t>(255 - i)});
      picture.pixels.push_back(sample);
    }
    EXPECT_EQ(DecodePng(EncodePng(picture, palette)).pixels, palette) << colours;
  }
}

TEST(PngTest, PixelsThatDoNotCompressFitAsWell) {
  Picture picture{251, 257, {}};
  uint32_t state = 1;
  for (int i = 0; i < 251 * 257; ++i) {
    state = state * 1664525 + 1013904223;
    picture.pixels.push_back(static_cast<uint8_t>(state >> 24));
  }
  const DecodedPng decoded = DecodePng(EncodePng(picture, HeatmapPalette()));
  ASSERT_EQ(decoded.pixels.size(), picture.pixels.size());
  for (size_t i = 0; i < picture.pixels.size(); ++i) {
    ASSERT_EQ(decoded.pixels[i], HeatmapPalette()[picture.pixels[i]]) << i;
  }
}

TEST(PngTest, SizesThatNoPictureHasAreRefused) {
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  for (const auto& [width, height] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 1},
                                                {1, 0},
                                                {-1, -1},
                                                {1'000'001, 1},
                                                {1, 1'000'001},
                                                {32769, 32768},
                                                {kLargest, kLargest},
                                                {kLargest, -kLargest}}) {
    const std::string message = MessageOf({width, height, {}}, {kRed});
    EXPECT_TRUE(Contains(message, std::to_string(width) + " x " + std::to_string(height)));
    EXPECT_TRUE(Contains(message, "1000000"));
  }
  CheckPngSize(1'000'000, 1);
  CheckPngSize(32768, 32768);
}

TEST(PngTest, TheLongestSideIsWrittenAndRead) {
  const Picture picture{1'000'000, 1, std::vector<uint8_t>(1'000'000, 1)};
  const DecodedPng decoded = DecodePng(EncodePng(picture, std::vector{kRed, kGreen}));
  EXPECT_EQ(decoded.width, 1'000'000);
  EXPECT_EQ(decoded.At(999'999, 0), kGreen);
}

TEST(PngTest, PixelsAndPaletteMustFitTheSize) {
  EXPECT_TRUE(Contains(MessageOf({2, 2, {0, 0, 0}}, {kRed}), "from 3 pixels: there must be 4"));
  EXPECT_TRUE(Contains(MessageOf({2, 2, std::vector<uint8_t>(5)}, {kRed}), "from 5 pixels"));
  EXPECT_TRUE(Contains(MessageOf({1, 1, {0}}, {}), "palette of 0 colours"));
  EXPECT_TRUE(Contains(MessageOf({1, 1, {0}}, std::vector<Rgb>(257)), "palette of 257 colours"));
  EXPECT_TRUE(Contains(MessageOf({1, 2, {0, 2}}, {kRed, kBlue}), "colour 2: the palette has 2"));
}

}  // namespace
}  // namespace cosformer::report
