// Small sets of examples for tests.
#pragma once

#include <string>
#include <vector>

#include "data/dataset.h"

namespace cosformer::testing {

// texts[example][part]
inline data::Dataset MakeDataset(const std::string& path,
                                 const std::vector<std::vector<std::vector<int32_t>>>& texts,
                                 const std::vector<int32_t>& labels = {},
                                 int64_t vocabulary = 100) {
  data::DatasetInfo info;
  info.task = "test";
  info.tokenizer = "none";
  info.vocabulary = vocabulary;
  info.parts = texts.empty() ? 1 : static_cast<int64_t>(texts.front().size());
  info.labelled = !labels.empty();
  data::DatasetWriter writer(path, info);
  for (const auto& example : texts) {
    for (const auto& text : example) writer.AddText(text);
  }
  for (const int32_t label : labels) writer.AddLabel(label);
  writer.Finish();
  return data::Dataset::Open(path);
}

}  // namespace cosformer::testing
