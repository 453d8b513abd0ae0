// A stream whose text a test can read.
#pragma once

#include <cstdio>
#include <string>

namespace cosformer::testing {

class Captured {
 public:
  Captured() : stream_(std::tmpfile()) {}
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  ~Captured() { std::fclose(stream_); }

  std::FILE* stream() { return stream_; }

  std::string Text() {
    std::fflush(stream_);
    std::rewind(stream_);
    std::string text;
    for (int c = std::fgetc(stream_); c != EOF; c = std::fgetc(stream_)) {
      text += static_cast<char>(c);
    }
    return text;
  }

  // What came since the last time.
  std::string Take() {
    const std::string text = Text();
    const std::string rest = text.substr(taken_);
    taken_ = text.size();
    return rest;
  }

 private:
  std::FILE* stream_;
  size_t taken_ = 0;
};

}  // namespace cosformer::testing
