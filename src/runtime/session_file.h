// What a saved session tells without the model that it belongs to.
#pragma once

#include <cstdint>
#include <set>
#include <string>

namespace cosformer::runtime {

struct SessionInfo {
  uint32_t version = 0;   // of the file's form
  int64_t layers = 0;     // of the model
  std::string model;      // its fingerprint, as Parameters have it
  std::string tokenizer;  // likewise; empty: the model has none
  int64_t position = 0;   // tokens that were fed
  int64_t width = 0;      // of the model; 0 before anything was fed
  int64_t bytes = 0;      // of the file
  // Of the layers with cosine re-weighting before the first softmax layer, whose end can't be seen.
  std::set<int64_t> horizons;
  bool endless = false;
};

// By how it begins; false where there is no such file.
bool IsSessionFile(const std::string& path);

// Throws Error for what is no session, is of a later version, or is damaged. Whether its layers
// are what the model's would be is for Session::Load() to say.
SessionInfo ReadSessionInfo(const std::string& path);

}  // namespace cosformer::runtime
