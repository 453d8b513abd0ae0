// The figures of the cosFormer paper (Qin et al., ICLR 2022, arXiv 2202.08791) that ours are set
// beside, with the systems by our names.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace cosformer::reproduce {

struct PublishedRow {
  std::string system;
  std::vector<double> values;  // one a column; NaN where the paper has ✗, out of memory
};

struct PublishedTable {
  std::string what;  // for a caption
  std::vector<std::string> columns;
  std::vector<PublishedRow> rows;

  // Nothing where the paper has no figure; NaN where it has ✗.
  std::optional<double> Find(const std::string& system, const std::string& column) const;
};

// Steps a second on byte-level text; columns are lengths: "1024" to "4096".
const PublishedTable& PublishedInference();
const PublishedTable& PublishedTraining();
// Accuracy in percent.
const PublishedTable& PublishedLongRangeArena();  // columns are our names of the tasks
const PublishedTable& PublishedFinetuning();
// Perplexity on WikiText-103: "valid" and "test".
const PublishedTable& PublishedLanguageModel();

}  // namespace cosformer::reproduce
