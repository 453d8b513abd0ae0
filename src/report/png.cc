#include "report/png.h"

#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <cstddef>

#include "cosformer/error.h"

namespace cosformer::report {
namespace {

constexpr int64_t kLongestSide = 1'000'000;
constexpr int64_t kMostPixels = int64_t{1} << 30;  // beyond, libpng's 32-bit sizes end

void CheckPicture(const Picture& picture, std::span<const Rgb> palette) {
  CheckPngSize(picture.width, picture.height);
  const int64_t pixels = picture.width * picture.height;
  if (picture.pixels.size() != static_cast<size_t>(pixels)) {
    throw Error(fmt::format("cannot make a PNG of {} x {} from {} pixels: there must be {}",
                            picture.width, picture.height, picture.pixels.size(), pixels));
  }
  if (palette.empty() || palette.size() > 256) {
    throw Error(fmt::format("cannot make a PNG with a palette of {} colours: it must have 1 to 256",
                            palette.size()));
  }
  const uint8_t largest = *std::max_element(picture.pixels.begin(), picture.pixels.end());
  if (largest >= palette.size()) {
    throw Error(fmt::format("cannot make a PNG with a pixel of colour {}: the palette has {}",
                            largest, palette.size()));
  }
}

}  // namespace

void CheckPngSize(int64_t width, int64_t height) {
  if (std::min(width, height) < 1 || std::max(width, height) > kLongestSide ||
      width * height > kMostPixels) {
    throw Error(
        fmt::format("cannot make a PNG of {} x {} pixels: a side must be 1 to {}, and all at most "
                    "{} pixels; draw less in one picture",
                    width, height, kLongestSide, kMostPixels));
  }
}

std::string EncodePng(const Picture& picture, std::span<const Rgb> palette) {
  CheckPicture(picture, palette);
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(picture.width);
  image.height = static_cast<png_uint_32>(picture.height);
  image.format = PNG_FORMAT_RGB_COLORMAP;
  image.colormap_entries = static_cast<png_uint_32>(palette.size());
  std::vector<png_byte> colours;
  for (const Rgb& colour : palette) {
    colours.insert(colours.end(), {colour.red, colour.green, colour.blue});
  }
  // The largest that it can become, so that it is compressed once and not twice.
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string bytes(size, '\0');
  const int written = png_image_write_to_memory(&image, bytes.data(), &size, 0,
                                                picture.pixels.data(), 0, colours.data());
  if (written == 0) {
    throw Error(fmt::format("cannot make a PNG of {} x {} pixels: libpng says \"{}\"",
                            picture.width, picture.height, image.message));
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace cosformer::report
