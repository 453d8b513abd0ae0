// Pictures of few colours as PNG files.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "report/colour_map.h"

namespace cosformer::report {

struct Picture {
  int64_t width = 0;
  int64_t height = 0;
  std::vector<uint8_t> pixels;  // [height, width]: entries of a palette, the top row first
};

// Throws Error if a side is not 1 to 1,000,000 pixels (what readers based on libpng accept), or all
// are more than 2^30. Call it before making the pixels.
void CheckPngSize(int64_t width, int64_t height);

// The bytes of a PNG file of at most 8 bits a pixel, with the palette inside. Throws Error if the
// size is not possible, if there are not width * height pixels, if the palette has not 1 to 256
// colours, if a pixel is not among them, and with libpng's words if it fails.
std::string EncodePng(const Picture& picture, std::span<const Rgb> palette);

}  // namespace cosformer::report
