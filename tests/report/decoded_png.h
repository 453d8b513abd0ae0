// A PNG file read back by libpng, as colours.
#pragma once

#include <gtest/gtest.h>
#include <png.h>

#include <cstdint>
#include <string>
#include <vector>

#include "report/colour_map.h"

namespace cosformer::testing {

struct DecodedPng {
  int64_t width = 0;  // 0 if the bytes are no PNG
  int64_t height = 0;
  std::vector<report::Rgb> pixels;

  report::Rgb At(int64_t x, int64_t y) const {
    return pixels.at(static_cast<size_t>(y * width + x));
  }
};

inline DecodedPng DecodePng(const std::string& bytes) {
  DecodedPng decoded;
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) == 0) {
    ADD_FAILURE() << image.message;
    return decoded;
  }
  image.format = PNG_FORMAT_RGB;
  std::vector<uint8_t> samples(PNG_IMAGE_SIZE(image));
  if (png_image_finish_read(&image, nullptr, samples.data(), 0, nullptr) == 0) {
    ADD_FAILURE() << image.message;
    return decoded;
  }
  decoded.width = image.width;
  decoded.height = image.height;
  for (size_t i = 0; i < samples.size(); i += 3) {
    decoded.pixels.push_back({samples[i], samples[i + 1], samples[i + 2]});
  }
  return decoded;
}

}  // namespace cosformer::testing
